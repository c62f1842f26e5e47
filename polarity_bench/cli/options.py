"""Shared command-line options, and the declaration of options by annotations.

`Annotated[str, "Help text.", "-m"]` declares an option. Its flag is derived from the parameter's
name, unless the annotation contains a flag with two hyphens.

Related options form a group: a dataclass with a field for each option. A command takes a group as
one parameter. The annotation `Annotated[EncoderOptions, ("device", "prompt")]` declares only two
options of the group; the other fields keep their defaults.

`Annotated[dict[str, Any], RECIPES]` declares the parameters of all recipes as options. The command
gets a dictionary of the options that the user set.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from polarity_bench.cli.inputs import required_names
from polarity_bench.cli.output import name_options
from polarity_bench.encoders.base import Encoder
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError, nearest
from polarity_bench.scores import WEIGHTINGS
from polarity_bench.training.parameters import ParameterInfo, Parameters, flattened

if TYPE_CHECKING:
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.embedding.store import EmbeddingStore
    from polarity_bench.tasks.types.base import TaskSpec
    from polarity_bench.tasks.types.polarity.task import PolaritySpec

_ENCODER = (
    "Encoder: a hub name, a folder, `minilm`, `mteb:NAME` (by mteb's code), `vectors:PATH` (saved "
    "vectors), `glove:FILE`, or a baseline (random, constant or tfidf)."
)
Model = Annotated[str, _ENCODER, "-m"]
Models = Annotated[
    list[str] | None,
    f"{_ENCODER} Repeat the option to evaluate several encoders [default: minilm].",
    "-m",
]
Strength = Annotated[
    str | None,
    "Weight of the polarity axis in queries, for an encoder trained with the recipe axis. Give one "
    "strength or several, e.g. -1,0,0.5,1; texts are encoded only once [default: the encoder's "
    "own].",
]
TaskDir = Annotated[Path | None, "Folder with your own task files (TOML), or one task file."]
DataDir = Annotated[
    Path | None, "Folder with data sets [default: the environment variable POLARITY_BENCH_DATA]."
]
Tasks = Annotated[
    str | None,
    "Names of tasks, separated by commas; `polarity-bench tasks` lists them. mteb:NAME or "
    "mteb:NAME[LANGUAGE] is a classification task of mteb, nano:NAME a draw of 200 of its queries.",
    "-t",
]
Suite = Annotated[
    str | None,
    "Suite of tasks: demo, polarity, unseen, transfer, sts, full, probing, multilingual, nano or "
    "answers.",
    "-s",
]


Output = Annotated[Path, "Folder to store the results in.", "-o"]


def check_weighting(name: str | None) -> str | None:
    """Return the name of a weighting; refuse an unknown name."""
    if name is not None and name not in WEIGHTINGS:
        raise typer.BadParameter(f"unknown value {name!r}{nearest(name, WEIGHTINGS)}")
    return name


Weight = Annotated[
    str,
    "Weights of the retrieved sources: linear (the nearest counts most), uniform (all count the "
    "same), or a weighting of a plug-in.",
    check_weighting,
]
Workers = Annotated[int | None, "Number of processes that fit classifiers [default: one per core]."]


TEXT_OPTIONS = ("prompt", "prompt_name", "max_tokens")
VECTOR_OPTIONS = ("truncate_dim", "quantize", "sides")
TRUST_OPTIONS = ("trust_remote_code", "allow_pickle")
_COMPUTED, _STORED = ("dtype", "backend"), "store_vectors"
EncoderFlags = Annotated[
    EncoderOptions,
    (*TEXT_OPTIONS, "revision", "device", *_COMPUTED, *VECTOR_OPTIONS, *TRUST_OPTIONS, _STORED),
]
InputFlags = Annotated[
    EncoderOptions, ("prompt", "max_tokens", "revision", "device", *TRUST_OPTIONS)
]
LoadingFlags = Annotated[EncoderOptions, ("device", *TRUST_OPTIONS)]


def usable_options(options: EncoderOptions, *, offline: bool) -> EncoderOptions:
    """Check the device, and return the options of the loader.

    Raises:
        InputError: If torch cannot use the device on this machine.
    """
    if options.device is not None:
        import torch

        try:
            torch.empty(0, device=options.device)
        except (RuntimeError, AssertionError) as error:
            why = str(error).splitlines()[0]
            raise InputError(
                f"`device` {options.device}: not usable on this machine: {why}"
            ) from error
    return replace(options, offline=offline)


@dataclass(frozen=True)
class DataFlags:
    """Options for locating tasks and their data."""

    data_dir: DataDir = None
    task_dir: TaskDir = None
    offline: Annotated[bool, "Do not use the network; HF_HUB_OFFLINE=1 has the same effect."] = (
        False
    )

    def access(self) -> DataAccess:
        """Return the permitted sources of data; without network access, set HF_HUB_OFFLINE."""
        from polarity_bench.data.sources import DataAccess

        access = DataAccess.from_environment(self.data_dir, self.offline)
        if access.offline:  # datasets and huggingface_hub, imported later, read the variable
            os.environ["HF_HUB_OFFLINE"] = "1"
        return access

    def task(self, name: str) -> TaskSpec:
        """Return the task with this name."""
        from polarity_bench.tasks.catalogue import choose_task, load_tasks

        return choose_task(load_tasks(self.task_dir), name)

    def polarity_task(self, name: str) -> PolaritySpec:
        """Return the polarity task with this name.

        Raises:
            InputError: If the task is unknown or of another kind.
        """
        from polarity_bench.tasks.types.polarity.task import PolaritySpec

        spec = self.task(name)
        if not isinstance(spec, PolaritySpec):
            raise InputError(
                f"`task` {name}: expected a polarity task, got a task of kind {spec.kind}"
            )
        return spec


def folder_options(task_dir: Path | None, data_dir: Path | None) -> list[str]:
    """Return the options that name these folders, as words of a suggested command."""
    folders = {"--task-dir": task_dir, "--data-dir": data_dir}
    return [word for flag, folder in folders.items() if folder for word in (flag, str(folder))]


@dataclass(frozen=True)
class TaskFlags:
    """Options for choosing tasks; by default, all tasks or a default suite."""

    tasks: Tasks = None
    suite: Suite = None

    def choose(self, task_dir: Path | None, default: str | None = None) -> list[TaskSpec]:
        """Return the tasks that the user chose, those of the suite first.

        Without a choice, return the tasks of the default suite, or all tasks if `default` is None.

        Args:
            task_dir: Folder with the user's own task files, or one task file.
            default: Name of the default suite.

        Raises:
            InputError: If a name is unknown, or the option has no names.
        """
        from polarity_bench.tasks.catalogue import choose_tasks, load_tasks

        known = load_tasks(task_dir)
        suite = self.suite if self.suite or self.tasks is not None else default
        if self.tasks is None and suite is None:
            return list(known.values())
        names = [] if self.tasks is None else required_names("tasks", self.tasks)
        return choose_tasks(known, names=names, suite=suite)


@dataclass(frozen=True)
class EmbeddingFlags:
    """Options for encoding texts in batches and for storing their embeddings."""

    batch_size: Annotated[
        int | None, "Maximum number of texts per batch [default: 512; on a GPU: 2048]."
    ] = None
    batch_tokens: Annotated[
        int | None, "Maximum number of tokens per batch [default: 2048; on a GPU: 32768]."
    ] = None
    no_store: Annotated[bool, "Do not use the store of embeddings on disk."] = False

    @contextmanager
    def embedder(self, encoder: Encoder) -> Iterator[Embedder]:
        """Open the store and yield an embedder. The default batch size depends on the device."""
        from polarity_bench.embedding.embedder import Embedder

        sizes = _given(batch_tokens=self.batch_tokens, batch_size=self.batch_size)
        with self.store() as store:
            yield replace(Embedder.on(encoder, store), **sizes)

    def store(self) -> AbstractContextManager[EmbeddingStore | None]:
        """Open the store of embeddings, or return a context of None with `--no-store`."""
        from polarity_bench.embedding.store import EmbeddingStore

        return nullcontext() if self.no_store else EmbeddingStore()


StoreFlags = Annotated[EmbeddingFlags, ("no_store",)]


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with its option groups expanded into separate options for Typer."""
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    options: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind, *details = get_args(parameter.annotation) or [parameter.annotation]
        make: Callable[..., Any] = kind
        if is_dataclass(kind):
            members = _group_options(kind, *details)
        elif get_origin(kind) is dict:
            make, others = _given, {option.name for option in options}
            members = [m for m in _parameter_options(*details) if m.name not in others]
        else:
            options.append(_option(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)))
            continue
        groups[parameter.name] = make, [member.name for member in members]
        options += members
    flags = {option.name: _flag(option) for option in options}

    def called(**values: Any) -> Any:
        name_options(flags)
        for name, (make, members) in groups.items():
            values[name] = make(**{member: values.pop(member) for member in members})
        return command(**values)

    called.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # Typer reads it
    called.__annotations__ = {option.name: option.annotation for option in options}
    called.__name__, called.__doc__ = command.__name__, command.__doc__
    return called


def _option(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter as an argument or option for Typer if its annotation has a help text.

    A parameter without a help text is returned unchanged. A function at the end checks the value
    and returns it. A name in capital letters after the help
    text makes the parameter an argument. Otherwise it is an option with a long flag made from its
    name, unless the annotation has a long flag, or a short flag equal to the name (`-k` for `k`).
    """
    kind, *texts = get_args(parameter.annotation) or (None, None)
    if get_origin(parameter.annotation) is not Annotated or not isinstance(texts[0], str):
        return parameter
    check = texts.pop() if callable(texts[-1]) else None
    help_text, *flags = map(str, texts)
    if flags and not flags[0].startswith("-"):
        declared = typer.Argument(metavar=flags[0], help=help_text)
        return parameter.replace(annotation=Annotated[kind, declared])
    if not any(flag.startswith("--") or flag == f"-{parameter.name}" for flag in flags):
        flags = ["--" + parameter.name.replace("_", "-"), *flags]
    option = typer.Option(*flags, help=help_text, callback=check)
    return parameter.replace(annotation=Annotated[kind, option])


def _flag(option: inspect.Parameter) -> str:
    """Return the first flag of an option, or the name of a parameter without flags."""
    declared = get_args(option.annotation)[1:]
    # In an annotation, Typer stores the first flag in the attribute `default`.
    names = (str(n) for each in declared for n in (each.default, *(each.param_decls or ())))
    return next((name for name in names if name.startswith("-")), option.name)


def _group_options(group: Any, names: Sequence[str] | None = None) -> list[inspect.Parameter]:
    """Return the fields of a group, or only the named fields, as options."""
    hints = get_type_hints(group, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        _option(inspect.Parameter(n, keyword, default=getattr(group, n), annotation=hints[n]))
        for n in names or hints
    ]


def _parameter_options(
    family: Mapping[str, type[Parameters]], without: Collection[str] = ()
) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a family as options, except those in `without`."""
    known = {name: flattened(member) for name, member in family.items()}
    for key in dict.fromkeys(key for own in known.values() for key in own if key not in without):
        by_name = {name: own[key] for name, own in known.items() if key in own}
        helps = [f"{name}: {help_of(infos)}" for name, infos in by_name.items()]
        several = [info for infos in by_name.values() for info in infos]
        option = typer.Option(
            "--" + key.rstrip("_").replace("_", "-"),
            *(["-n"] if key == "examples" else []),
            help=f"{'; '.join(helps)}." if len(family) > 1 else f"{help_of(several)}.",
            metavar=metavar_of(several),
            parser=several[0].parsed,
        )
        keyword = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(key, keyword, default=None, annotation=Annotated[Any, option])


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


class Commands(typer.Typer):
    """Typer application whose commands may declare option groups, see `with_options`."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:
        """Return a decorator that registers a function with option groups as a command."""
        register = super().command(name, **settings)
        return lambda function: register(with_options(function))

    def callback(self, **settings: Any) -> Callable[..., Any]:
        """Return a decorator that registers a function with option groups as the callback."""
        register = super().callback(**settings)
        return lambda function: register(with_options(function))


_METAVARS = {int: "<int>", float: "<float>", Path: "<path>", str: "<str>"}


def metavar_of(several: Sequence[ParameterInfo]) -> str:
    """Return the placeholder of an option's value: its types and choices."""
    kinds = [kind for each in several for kind in each.kinds]
    words = [_METAVARS[kind] for kind in kinds if kind in _METAVARS]
    words += [choice for each in several for choice in each.choices]
    return "|".join(dict.fromkeys(words))


def help_of(several: Sequence[ParameterInfo]) -> str:
    """Return the help text of an option, with its default, without a full stop."""
    defaults = [getattr(each.default, "name", each.default) for each in several]
    shown = [f"{d:g}" if isinstance(d, float) else str(d) for d in dict.fromkeys(defaults)]
    default = "" if None in defaults else f" [default: {', '.join(shown)}]"
    return "; or ".join(dict.fromkeys(each.help for each in several)) + default


def by_default(command: str) -> type[TyperGroup]:
    """Return a class of command groups in which `group ARGUMENT` means `group COMMAND ARGUMENT`.

    Args:
        command: Name of the default command.
    """

    class WithDefault(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if not args or args[0] not in (*self.commands, "--help", "-h"):
                self._refuse_misspelt(args)
                args = [command, *args] if args or not self.no_args_is_help else args
            return super().parse_args(ctx, args)

        def _refuse_misspelt(self, args: list[str]) -> None:
            if args and not args[0].startswith("-") and not Path(args[0]).exists():
                for near in get_close_matches(args[0], self.commands, n=1, cutoff=0.7):
                    raise InputError(
                        f"{args[0]}: no such command, file or folder; did you mean {near!r}?"
                    )

    return WithDefault
