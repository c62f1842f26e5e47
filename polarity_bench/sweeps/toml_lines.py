"""Line numbers of a grid's settings, for error messages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from polarity_bench.errors import InputError


@dataclass(frozen=True)
class TomlLines:
    """Lines of a TOML file, which errors refer to."""

    file: Path
    text: str

    @contextmanager
    def locate_errors(
        self, block: str = "", number: int = 0, common: Sequence[str] = ()
    ) -> Iterator[None]:
        """Add the file and, if possible, the line to errors that are raised in a `with` block.

        The line is that of the first key that the message quotes and the block contains.

        Args:
            block: Name of the block's table; '' means the whole file.
            number: Position among the tables with this name, from 0.
            common: Names of the tables that contain shared settings of the block.

        Raises:
            InputError: If the `with` block raises one; the message then starts with the location.
        """
        try:
            yield
        except InputError as error:
            places = [(block, number), *((name, 0) for name in common)]
            quoted = re.findall(r"[`']([\w.-]+)[`']", str(error))
            # `tasks.0`, an element of a list, has no line of its own, so `tasks` is tried too.
            keys = [key for name in quoted for key in (name, name.partition(".")[0])]
            numbers = [self._lines.get((*place, key)) for key in keys for place in places]
            numbers += [self._lines.get((block, number, block))]
            line = next(filter(None, numbers), None)
            where = f"{self.file}, line {line}" if line else str(self.file)
            raise InputError(f"{where}: {error}") from error

    @cached_property
    def _lines(self) -> dict[tuple[str, int, str], int]:
        """First line of each key, by the block's name, the block's number and the key.

        The key of a block's heading is the block's name. The block ('', 0) is the whole file, with
        the keys of all tables.
        """
        lines: dict[tuple[str, int, str], int] = {}
        block, n_blocks = ("", 0), Counter[str]()
        for line, text in enumerate(self.text.splitlines(), start=1):
            # A line such as `[16],` is part of a list, because names of tables start with a letter.
            if heading := re.match(r"\s*\[+\s*([a-z][\w.-]*)\s*\]", text):
                block = heading[1], n_blocks[heading[1]]
                n_blocks[heading[1]] += 1
            if key := heading or re.match(r"""\s*["']?([\w.-]+)["']?\s*=""", text):
                lines.setdefault((*block, key[1]), line)
                lines.setdefault(("", 0, key[1]), line)
        return lines
