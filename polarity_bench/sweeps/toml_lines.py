"""Line numbers in a grid's file, for error messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from polarity_bench.errors import InputError


@dataclass(frozen=True)
class TomlLines:
    """The lines of a TOML file.

    Attributes:
        common: Names of the tables whose settings apply to every block.
    """

    file: Path
    text: str
    common: Sequence[str] = ("all",)

    @contextmanager
    def locating(self, block: str = "", number: int = 0) -> Iterator[None]:
        """Add the file to errors, and the line of the first key of a block that they quote.

        Args:
            block: Name of the block's table; '' means the file.
            number: Which of the tables of that name, from 0.
        """
        try:
            yield
        except InputError as error:
            line = self._line_named(str(error), block, number)
            where = f"{self.file}, line {line}" if line else str(self.file)
            raise InputError(f"{where}: {error}") from error

    def _line_named(self, message: str, block: str, number: int) -> int | None:
        """Return the line of the first key in a message, or else of the block's heading."""
        places = [(block, number), *((name, 0) for name in self.common)]
        for quoted in re.findall(r"[`']([\w.-]+)[`']", message):
            for key in (quoted, quoted.partition(".")[0]):  # `tasks.0` is an element of `tasks`
                for place in places:
                    if line := self._line(*place, key):
                        return line
        return self._line(block, number, None) if block else None

    def _line(self, block: str, number: int, key: str | None) -> int | None:
        """Return the line of a key below the heading of a block; for None, of the heading."""
        for line, text in self._below(block, number):
            if key is None or re.match(rf"""\s*["']?{re.escape(key)}["']?\s*=""", text):
                return line
            if re.match(rf"\s*\[+\s*{re.escape(key)}\s*\]", text):
                return line
        return None

    def _below(self, block: str, number: int) -> Iterable[tuple[int, str]]:
        """Yield the numbered lines of a block, its heading first; for '', all lines."""
        place, seen = "", -1
        for line, text in enumerate(self.text.splitlines(), start=1):
            if heading := re.match(r"\s*\[+\s*([\w.-]+)\s*\]", text):
                place = heading[1]
                seen += place == block
            if not block or (place == block and number == seen):
                yield line, text
