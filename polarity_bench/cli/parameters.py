"""Options of commands that are built from what dataclasses of parameters declare."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from polarity_bench.training.fields import Declared, Parameters, flattened

Command = Callable[..., None]


def with_parameters(family: Mapping[str, type[Parameters]]) -> Callable[[Command], Command]:
    """Give a command the options of a family's parameters; those given come as `parameters`."""
    options = dict(_options(family))

    def decorate(command: Command) -> Command:
        def called(**values: Any) -> None:
            texts = {name: values.pop(name) for name in options}
            parameters = {
                name: options[name][0].parsed(text)
                for name, text in texts.items()
                if text is not None
            }
            command(**values, parameters=parameters)

        signature = inspect.signature(command, eval_str=True)
        own = [each for name, each in signature.parameters.items() if name != "parameters"]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for name, (_, hint) in options.items()
        ]
        called.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in [*own, *more]}
        called.__name__, called.__doc__ = command.__name__, command.__doc__
        return called

    return decorate


def given_of(context: typer.Context) -> Iterator[str]:
    """Return the names of the parameters that stand on the command line."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            yield name


def _options(family: Mapping[str, type[Parameters]]) -> Iterator[tuple[str, tuple[Declared, Any]]]:
    takers: dict[str, list[str]] = {}
    said: dict[str, list[Declared]] = {}
    for name, member in family.items():
        for key, several in flattened(member).items():
            takers.setdefault(key, []).append(name)
            said.setdefault(key, []).extend(several)
    for key, several in said.items():
        first = several[0]
        helps = dict.fromkeys(each.help for each in several)
        alone = f"{takers[key][0]}: " if takers[key] != list(family) else ""
        told = f"{alone}{'; or '.join(helps)}{_default(several)}."
        flags = ["--" + key.replace("_", "-"), *(["-n"] if key == "examples" else [])]
        option = typer.Option(*flags, help=told, metavar=_metavar(first), show_default=False)
        yield key, (first, Annotated[str | None, option])


def _default(several: list[Declared]) -> str:
    values = dict.fromkeys(
        each.default.name if isinstance(each.default, Parameters) else each.default
        for each in several
    )
    known = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    return "" if None in values else f" [default: {', '.join(known)}]"


def _metavar(declared: Declared) -> str:
    names = {int: "INTEGER", float: "FLOAT", Path: "PATH", str: "TEXT"}
    words = [names[kind] for kind in declared.kinds if kind in names]
    return "|".join([*words, *declared.choices])
