"""Options of commands that are built from what dataclasses of parameters declare."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from polarity_bench.training.fields import Declared, Parameters, flattened

Command = Callable[..., None]


def with_parameters(
    family: Mapping[str, type[Parameters]], without: Collection[str] = ()
) -> Callable[[Command], Command]:
    """Give a command the options of a family's parameters; those given come as `parameters`.

    The command has options of its own for those `without` which this goes.
    """
    options = {key: found for key, found in _options(family) if key not in without}

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


def _options(family: Mapping[str, type[Parameters]]) -> Iterator[tuple[str, tuple[Declared, Any]]]:
    """Yield each parameter of a family with what is said of it, and its annotation as an option."""
    known = {name: flattened(member) for name, member in family.items()}
    for key in dict.fromkeys(key for own in known.values() for key in own):
        helps = {name: _help(own[key]) for name, own in known.items() if key in own}
        told = [f"{name}: {said}" if len(family) > 1 else said for name, said in helps.items()]
        first = next(own[key][0] for own in known.values() if key in own)
        flags = ["--" + key.rstrip("_").replace("_", "-"), *(["-n"] if key == "examples" else [])]
        several = [each for own in known.values() for each in own.get(key, [])]
        kinds = [kind for each in several for kind in each.kinds]
        words = [_METAVARS[kind] for kind in kinds if kind in _METAVARS]
        words += [choice for each in several for choice in each.choices]
        metavar = "|".join(dict.fromkeys(words))
        option = typer.Option(*flags, help=f"{'; '.join(told)}.", metavar=metavar)
        yield key, (first, Annotated[str | None, option])


_METAVARS = {int: "<int>", float: "<float>", Path: "<path>", str: "<str>"}


def _help(several: list[Declared]) -> str:
    defaults = [getattr(each.default, "name", each.default) for each in several]
    shown = [f"{d:g}" if isinstance(d, float) else str(d) for d in dict.fromkeys(defaults)]
    default = "" if None in defaults else f" [default: {', '.join(shown)}]"
    return "; or ".join(dict.fromkeys(each.help for each in several)) + default
