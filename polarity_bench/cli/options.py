"""Options that several commands declare, and groups of commands with a default."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from polarity_bench.cli.output import name_options
from polarity_bench.errors import InputError, nearest
from polarity_bench.scores import Weighting
from polarity_bench.training.parameters import ParameterInfo, Parameters, flattened

Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="Encoder: hub name, folder, `minilm`, `glove:FILE`, random, constant or tfidf.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        help="Encoder: hub name, folder, `minilm`, `glove:FILE`, random, constant or tfidf; "
        "several are evaluated one after the other [default: minilm].",
    ),
]
Strength = Annotated[
    str | None,
    typer.Option(
        "--strength",
        help="For an encoder with an axis: what queries weigh it by, e.g. -1,0,0.5,1; each is a "
        "row, from one encoding [default: as published].",
    ),
]
TaskDir = Annotated[
    Path | None,
    typer.Option("--task-dir", help="Folder with task files of your own (TOML), or one file."),
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder that holds data sets; or set POLARITY_BENCH_DATA."),
]
Tasks = Annotated[
    str | None, typer.Option("--tasks", "-t", help="Tasks, separated by commas. See `tasks`.")
]
Suite = Annotated[
    str | None, typer.Option("--suite", "-s", help="demo, polarity, unseen, transfer, sts or full.")
]
Offline = Annotated[bool, typer.Option("--offline", help="Use no network; also HF_HUB_OFFLINE=1.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program, errors too.")]
Wide = Annotated[
    bool, typer.Option("--wide", help="Show whole tables, however narrow the terminal.")
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")]
Weight = Annotated[
    Weighting, typer.Option("--weighting", help="Weights of the ranks in the main columns.")
]
Device = Annotated[
    str | None, typer.Option("--device", help="Torch device [default: the best there is].")
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", help="Processes that fit classifiers [default: one for each core]."),
]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", help="Texts in a batch, at most [default: 512].")
]
BatchTokens = Annotated[
    int | None,
    typer.Option("--batch-tokens", help="Tokens in a batch [default: 2048; 32768 on a GPU]."),
]
Prompt = Annotated[
    str | None, typer.Option("--prompt", help="Text before every text, e.g. 'query: ' for E5.")
]
PromptName = Annotated[
    str | None, typer.Option("--prompt-name", help="Name of a prompt that the model declares.")
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", help="Cut texts [default: the model's limit].")
]
Revision = Annotated[
    str | None, typer.Option("--revision", help="Branch, tag or commit on the hub.")
]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that the model brings.")
]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Load weights that are no safetensors.")
]
TrainingTask = Annotated[
    str, typer.Option("--task", "-t", help="Polarity task to train on and be judged by.")
]
Seed = Annotated[int, typer.Option("--seed", help="The same seed, the same bytes.")]
ReplaceRun = Annotated[bool, typer.Option("--overwrite", help="Replace another run in the folder.")]
NoStore = Annotated[bool, typer.Option("--no-store", help="Keep no embeddings on disk.")]


class Command(TyperCommand):
    """A command whose messages name its options by their flags."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        name_options(self.params)
        return super().invoke(ctx)


class Group(TyperGroup):
    """A group of commands, which may have options of its own."""

    def invoke(self, ctx: Any) -> Any:
        """Run the group's own function, and its command."""
        name_options(self.params)
        return super().invoke(ctx)


class Commands(typer.Typer):
    """A Typer application made of `Command` and `Group`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"cls": Group, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Register a function as a command."""
        return super().command(name, **{"cls": Command, **settings})


Function = TypeVar("Function", bound=Callable[..., Any])


def with_parameters(
    family: Mapping[str, type[Parameters]], without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a family's parameters; those given come as `parameters`.

    The command has options of its own for those `without` which this goes.
    """
    options = {key: found for key, found in _options(family) if key not in without}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
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


def _options(
    family: Mapping[str, type[Parameters]],
) -> Iterator[tuple[str, tuple[ParameterInfo, Any]]]:
    """Yield each parameter of a family with what is said of it, and its annotation as an option."""
    known = {name: flattened(member) for name, member in family.items()}
    for key in dict.fromkeys(key for own in known.values() for key in own):
        helps = {name: _help(own[key]) for name, own in known.items() if key in own}
        told = [f"{name}: {said}" if len(family) > 1 else said for name, said in helps.items()]
        first = next(own[key][0] for own in known.values() if key in own)
        flags = ["--" + key.rstrip("_").replace("_", "-"), *(["-n"] if key == "examples" else [])]
        several = [each for own in known.values() for each in own.get(key, [])]
        option = typer.Option(*flags, help=f"{'; '.join(told)}.", metavar=_metavar(several))
        yield key, (first, Annotated[str | None, option])


def by_member(family: Mapping[str, type[Parameters]], option: str, default: str) -> type[Command]:
    """Return a command that takes a member of a family as its first argument.

    `command MEMBER` is `command --OPTION MEMBER`, and its help shows the parameters of this member
    alone; without a member, those of the default one.
    """
    parameters = {name: flattened(member) for name, member in family.items()}
    all_keys = {key for own in parameters.values() for key in own}

    class ByMember(Command):
        member = default

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if args and not args[0].startswith("-"):
                args = [f"--{option}", *args]
            pairs = pairwise(part for word in args for part in word.split("=", 1))
            self.member = dict(pairs).get(f"--{option}", default)
            if self.member not in family:
                raise InputError(
                    f"--{option}: unknown {option} {self.member!r}{nearest(self.member, family)}"
                )
            parsed: list[str] = super().parse_args(ctx, args)
            return parsed

        def format_options(self, ctx: Any, formatter: Any) -> None:
            own, all_options = parameters[self.member], self.params
            shown: list[Any] = [copy(each) for each in all_options]
            for each in shown:
                if each.name in own:
                    each.help, each.metavar = f"{_help(own[each.name])}.", _metavar(own[each.name])
            self.params = [each for each in shown if each.name in own or each.name not in all_keys]
            super().format_options(ctx, formatter)
            self.params = all_options

    return ByMember


_METAVARS = {int: "<int>", float: "<float>", Path: "<path>", str: "<str>"}


def _metavar(several: Sequence[ParameterInfo]) -> str:
    kinds = [kind for each in several for kind in each.kinds]
    words = [_METAVARS[kind] for kind in kinds if kind in _METAVARS]
    words += [choice for each in several for choice in each.choices]
    return "|".join(dict.fromkeys(words))


def _help(several: list[ParameterInfo]) -> str:
    defaults = [getattr(each.default, "name", each.default) for each in several]
    shown = [f"{d:g}" if isinstance(d, float) else str(d) for d in dict.fromkeys(defaults)]
    default = "" if None in defaults else f" [default: {', '.join(shown)}]"
    return "; or ".join(dict.fromkeys(each.help for each in several)) + default


def by_default(command: str) -> type[Group]:
    """Return a group in which `group ARGUMENT` is `group command ARGUMENT`."""

    class WithUsual(Group):
        usual = command

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if not args or args[0] not in (*self.commands, "--help", "-h"):
                self._refuse_misspelt(args)
                args = [self.usual, *args] if args or not self.no_args_is_help else args
            parsed: list[str] = super().parse_args(ctx, args)
            return parsed

        def _refuse_misspelt(self, args: list[str]) -> None:
            if args and not args[0].startswith("-") and not Path(args[0]).exists():
                for near in get_close_matches(args[0], self.commands, n=1, cutoff=0.7):
                    raise InputError(
                        f"{args[0]}: neither a command nor a file or folder; did you mean {near!r}?"
                    )

    return WithUsual
