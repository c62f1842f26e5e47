"""Groups of commands of which one is meant where none is named."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


def by_default(command: str) -> type[TyperGroup]:
    """Return a group in which `group ARGUMENT` is `group command ARGUMENT`."""

    class WithUsual(TyperGroup):
        usual = command

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if not args or args[0] not in (*self.commands, "--help", "-h"):
                args = [self.usual, *args] if args or not self.no_args_is_help else args
            parsed: list[str] = super().parse_args(ctx, args)
            return parsed

    return WithUsual
