"""Groups of commands of which one is meant where none is named."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from typer.core import TyperGroup

from polarity_bench.errors import InputError


def by_default(command: str) -> type[TyperGroup]:
    """Return a group in which `group ARGUMENT` is `group command ARGUMENT`."""

    class WithUsual(TyperGroup):
        usual = command

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if not args or args[0] not in (*self.commands, "--help", "-h"):
                self._refuse_misspelt(args)
                args = [self.usual, *args] if args or not self.no_args_is_help else args
            parsed: list[str] = super().parse_args(ctx, args)
            return parsed

        def _refuse_misspelt(self, args: list[str]) -> None:
            if args and not args[0].startswith("-") and not Path(args[0]).exists():
                for near in get_close_matches(args[0], self.commands, n=1):
                    raise InputError(
                        f"{args[0]}: neither a command nor a file or folder; did you mean {near!r}?"
                    )

    return WithUsual
