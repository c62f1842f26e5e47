"""The front page of all boards: an introduction and a link to each board."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from polarity_bench.boards.board_folder import OpenBoard
from polarity_bench.boards.build import PAGE, README
from polarity_bench.boards.config import FrontFile, board_file
from polarity_bench.render.markdown import escape

FILE = "front.toml"


def front_page(root: Path, boards: Sequence[OpenBoard]) -> bytes:
    """Render the front page of boards as markdown, with the texts of the root's `front.toml`.

    Raises:
        InputError: If `front.toml` has an error.
    """
    config = board_file(root / FILE, FrontFile)
    lines = [_line(opened, config.add_encoder) for opened in boards]
    parts = [f"# {escape(config.title or 'Leaderboards')}", config.introduction, "\n".join(lines)]
    return ("\n\n".join(filter(None, parts)) + "\n").encode()


def _line(opened: OpenBoard, address: str) -> str:
    name, place = opened.folder.name, quote(opened.folder.name)
    page = f" ([as a page]({place}/{PAGE}))" if (opened.folder / PAGE).is_file() else ""
    ask = f" · [add my encoder]({address.replace('{board}', place)})" if address else ""
    return f"- **[{escape(name)}]({place}/{README})**: {escape(opened.board.title)}{page}{ask}"
