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

    def error(self, message: str, block: str, number: int, key: str) -> InputError:
        """Return an error that names the line of a block's key, if it can be found."""
        line = self._line_of(block, number, key)
        return InputError(f"{self.file}{f', line {line}' if line else ''}: {message}")

    @contextmanager
    def locating(self, block: str, number: int) -> Iterator[None]:
        """Add to errors the line of the first setting that they name in backticks."""
        try:
            yield
        except InputError as error:
            raise self._located(error, block, number) from error

    def _located(self, error: InputError, block: str, number: int) -> InputError:
        for key in re.findall(r"`(\w+)`", str(error)):
            if self._line_of(block, number, key):
                return self.error(str(error), block, number, key)
        line = self._line(block, number, None) if block else None
        return InputError(f"{self.file}{f', line {line}' if line else ''}: {error}")

    def _line_of(self, block: str, number: int, key: str) -> int | None:
        """Return the line of a key in a block, or else in the tables that apply to every block."""
        places = [self._line(block, number, key), *(self._line(c, 0, key) for c in self.common)]
        return next((line for line in places if line), None)

    def _line(self, block: str, number: int, key: str | None) -> int | None:
        """Return the line of a key below the heading of a block; for None, of the heading."""
        for line, said in self._below(block, number):
            if key is None or re.match(rf"""\s*["']?{re.escape(key)}["']?\s*=""", said):
                return line
            if re.match(rf"\s*\[+\s*{re.escape(key)}\s*\]", said):
                return line
        return None

    def _below(self, block: str, number: int) -> Iterable[tuple[int, str]]:
        """Yield the numbered lines of a block, its heading first; for '', all lines."""
        place, seen = "", -1
        for line, said in enumerate(self.text.splitlines(), start=1):
            if heading := re.match(r"\s*\[+\s*([\w.-]+)\s*\]", said):
                place = heading[1]
                seen += place == block
            if not block or (place == block and number == seen):
                yield line, said
