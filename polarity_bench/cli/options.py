"""Options that several commands share, and how commands declare options.

`Annotated[str, "Help text.", "-m"]` declares an option. Its flag is made from the parameter's name,
unless a flag with two hyphens is given. Options that belong together are one group: a dataclass
with a field for each option. A command takes a group as one parameter. The annotation
`Annotated[EncoderFlags, ("device", "prompt")]` declares only these options of a group; the others
keep their defaults. `Annotated[dict[str, Any], RECIPES]` declares the parameters of a family: the
command gets those that were given.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, is_dataclass, replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from polarity_bench.cli.inputs import check_device, tasks_of
from polarity_bench.cli.output import name_options, print_json, print_tables, terminal_width
from polarity_bench.encoders.base import Backend, Dtype, Encoder
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError, nearest
from polarity_bench.scores import Weighting
from polarity_bench.training.parameters import ParameterInfo, Parameters, flattened

if TYPE_CHECKING:
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.embedding.store import EmbeddingStore
    from polarity_bench.tasks.types.base import TaskSpec
    from polarity_bench.tasks.types.polarity.task import PolaritySpec

Model = Annotated[
    str, "Encoder: hub name, folder, `minilm`, `glove:FILE`, random, constant or tfidf.", "-m"
]
Models = Annotated[
    list[str] | None,
    "Encoder: hub name, folder, `minilm`, `glove:FILE`, random, constant or tfidf; "
    "repeat the option to evaluate several [default: minilm].",
    "-m",
]
Strength = Annotated[
    str | None,
    "Weight of the axis in queries, for an encoder that has an axis, e.g. -1,0,0.5,1. Each "
    "strength gets a row; texts are encoded once [default: as published].",
]
TaskDir = Annotated[Path | None, "Folder with your own task files (TOML), or one such file."]
DataDir = Annotated[Path | None, "Folder with data sets; or set POLARITY_BENCH_DATA."]
Tasks = Annotated[str | None, "Tasks, separated by commas; see `polarity-bench tasks`.", "-t"]
Suite = Annotated[str | None, "Suite: demo, polarity, unseen, transfer, sts or full.", "-s"]
Offline = Annotated[bool, "Do not use the network; HF_HUB_OFFLINE=1 does the same."]
AsJson = Annotated[bool, "Print JSON, also for errors.", "--json"]
Wide = Annotated[bool, "Do not fit tables to the width of the terminal."]
Output = Annotated[Path, "Folder for the results.", "-o"]
Weight = Annotated[Weighting, "Weighting of the ranks in the main columns."]
Workers = Annotated[int | None, "Number of processes that fit classifiers [default: one per core]."]
TrainingTask = Annotated[str, "Polarity task to train on and to evaluate on.", "-t"]
Seed = Annotated[int, "Random seed; the same seed gives the same bytes."]
ReplaceRun = Annotated[bool, "Replace a different run in the folder."]


@dataclass(frozen=True)
class EncoderFlags:
    """How encoders are loaded, and how they read texts."""

    prompt: Annotated[str | None, "Prompt before each text, e.g. 'query: ' for E5."] = None
    prompt_name: Annotated[str | None, "Name of a prompt that the model declares."] = None
    max_tokens: Annotated[int | None, "Tokens kept of a text [default: the model's limit]."] = None
    revision: Annotated[str | None, "Branch, tag or commit on the hub."] = None
    device: Annotated[str | None, "Torch device [default: the best available]."] = None
    dtype: Annotated[Dtype, "Precision of the weights."] = "float32"
    backend: Annotated[Backend, "Library of the forward pass on a CPU."] = "torch"
    trust_remote_code: Annotated[bool, "Run code from the model's repository."] = False
    allow_pickle: Annotated[bool, "Load weights that are not safetensors."] = False

    def options(self, *, offline: bool) -> EncoderOptions:
        """Return the options of the loader, or raise InputError if torch cannot use the device."""
        check_device(self.device)
        return EncoderOptions(**vars(self), offline=offline)


TEXT_OPTIONS = ("prompt", "prompt_name", "max_tokens")
TRUST_OPTIONS = ("trust_remote_code", "allow_pickle")
InputFlags = Annotated[EncoderFlags, ("prompt", "max_tokens", "revision", "device", *TRUST_OPTIONS)]
LoadingFlags = Annotated[EncoderFlags, ("device", *TRUST_OPTIONS)]


@dataclass(frozen=True)
class DataFlags:
    """Where tasks and their data come from."""

    data_dir: DataDir = None
    task_dir: TaskDir = None
    offline: Offline = False

    def access(self) -> DataAccess:
        """Return where data may come from."""
        from polarity_bench.data.sources import DataAccess

        access = DataAccess.from_environment(self.data_dir, self.offline)
        if access.offline:  # datasets and huggingface_hub read it when they are imported, later
            os.environ["HF_HUB_OFFLINE"] = "1"
        return access

    def task(self, name: str) -> TaskSpec:
        """Return a task by its name."""
        from polarity_bench.tasks.catalogue import choose_tasks, load_tasks

        (spec,) = choose_tasks(load_tasks(self.task_dir), names=[name])
        return spec

    def polarity_task(self, name: str) -> PolaritySpec:
        """Return a polarity task by its name; raise InputError for a task of another kind."""
        from polarity_bench.tasks.types.polarity.task import PolaritySpec

        spec = self.task(name)
        if not isinstance(spec, PolaritySpec):
            raise InputError(
                f"`task` {name}: expected a polarity task, got one of kind {spec.kind}"
            )
        return spec


@dataclass(frozen=True)
class TaskFlags:
    """Which tasks to use; by default all."""

    tasks: Tasks = None
    suite: Suite = None

    def choose(self, task_dir: Path | None, default: str | None = None) -> list[TaskSpec]:
        """Return the tasks that the user chose, or those of the default suite."""
        is_chosen = self.suite or self.tasks is not None
        return tasks_of(self.tasks, self.suite if is_chosen else default, task_dir)


@dataclass(frozen=True)
class EmbeddingFlags:
    """How texts are embedded."""

    batch_size: Annotated[int | None, "Maximum texts in a batch [default: 512]."] = None
    batch_tokens: Annotated[
        int | None, "Maximum tokens in a batch [default: 2048; GPU: 32768]."
    ] = None
    no_store: Annotated[bool, "Do not keep embeddings on disk."] = False

    @contextmanager
    def embedder(self, encoder: Encoder) -> Iterator[Embedder]:
        """Open the store and yield an embedder; the device sets the default size of batches."""
        from polarity_bench.embedding.embedder import Embedder

        sizes: dict[str, Any] = {"batch_tokens": self.batch_tokens, "batch_size": self.batch_size}
        with self.store() as store:
            usual = Embedder.on(getattr(encoder, "device", None), store)
            yield replace(usual, **{name: n for name, n in sizes.items() if n is not None})

    def store(self) -> AbstractContextManager[EmbeddingStore | None]:
        """Open the store of embeddings, if it is used."""
        from polarity_bench.embedding.store import EmbeddingStore

        return nullcontext() if self.no_store else EmbeddingStore()


StoreFlags = Annotated[EmbeddingFlags, ("no_store",)]


@dataclass(frozen=True)
class OutputFlags:
    """How results are printed."""

    wide: Wide = False
    as_json: AsJson = False

    @property
    def width(self) -> int | None:
        """Maximum width of tables; None for any width."""
        return terminal_width(self.wide)

    def show(self, value: Callable[[], Any], text: Callable[[], str]) -> None:
        """Print a value as JSON if the user asked for JSON, and a text otherwise."""
        if self.as_json:
            print_json(value())
        else:
            print_tables(text())


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with its option groups expanded into the separate options of Typer."""
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    options: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind, *details = get_args(parameter.annotation) or [parameter.annotation]
        make: Callable[..., Any] = kind
        if is_dataclass(kind):
            members = _group_options(kind, *details)
        elif get_origin(kind) is dict:
            make, members = _given, list(_parameter_options(*details))
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

    called.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    called.__annotations__ = {option.name: option.annotation for option in options}
    called.__name__, called.__doc__ = command.__name__, command.__doc__
    return called


def _option(parameter: inspect.Parameter) -> inspect.Parameter:
    """Declare a parameter that has a help text as an option; its name gives the flag."""
    kind, *texts = get_args(parameter.annotation) or (None, None)
    if get_origin(parameter.annotation) is not Annotated or not isinstance(texts[0], str):
        return parameter
    help_text, *flags = map(str, texts)
    if not any(flag.startswith("--") for flag in flags):
        flags = ["--" + parameter.name.replace("_", "-"), *flags]
    option = typer.Option(*flags, help=help_text)
    return parameter.replace(annotation=Annotated[kind, option])


def _flag(option: inspect.Parameter) -> str:
    """Return the first flag of an option; for other parameters, the name."""
    for declared in get_args(option.annotation)[1:]:
        # In an annotation, Typer keeps the first flag where it keeps a default elsewhere.
        for flag in (declared.default, *(declared.param_decls or ())):
            if str(flag).startswith("-"):
                return str(flag)
    return option.name


def _group_options(group: Any, names: Sequence[str] | None = None) -> list[inspect.Parameter]:
    """Declare the fields of a group, or those of these names, as options."""
    hints = get_type_hints(group, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        _option(inspect.Parameter(n, keyword, default=getattr(group, n), annotation=hints[n]))
        for n in names or hints
    ]


def _parameter_options(
    family: Mapping[str, type[Parameters]], without: Collection[str] = ()
) -> Iterator[inspect.Parameter]:
    """Declare each parameter of a family as an option, except those in `without`."""
    known = {name: flattened(member) for name, member in family.items()}
    for key in dict.fromkeys(key for own in known.values() for key in own if key not in without):
        by_name = {name: own[key] for name, own in known.items() if key in own}
        helps = [f"{name}: {_help(infos)}" for name, infos in by_name.items()]
        several = [info for infos in by_name.values() for info in infos]
        option = typer.Option(
            "--" + key.rstrip("_").replace("_", "-"),
            *(["-n"] if key == "examples" else []),
            help=f"{'; '.join(helps)}." if len(family) > 1 else f"{_help(several)}.",
            metavar=_metavar(several),
            parser=several[0].parsed,
        )
        keyword = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(key, keyword, default=None, annotation=Annotated[Any, option])


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


class Commands(typer.Typer):
    """A Typer application whose commands take groups of options."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:
        """Register a function as a command, with its groups of options."""
        register = super().command(name, **settings)
        return lambda function: register(with_options(function))

    def callback(self, **settings: Any) -> Callable[..., Any]:
        """Register the function of a group of commands, with its groups of options."""
        register = super().callback(**settings)
        return lambda function: register(with_options(function))


def by_member(
    family: Mapping[str, type[Parameters]], option: str, default: str
) -> type[TyperCommand]:
    """Return a command that takes a member of a family as its first argument.

    `command MEMBER` means `command --OPTION MEMBER`. Its help shows only the parameters of this
    member, or of the default member if none is given.
    """
    parameters = {name: flattened(member) for name, member in family.items()}
    all_keys = {key for own in parameters.values() for key in own}

    class ByMember(TyperCommand):
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
            return super().parse_args(ctx, args)

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


def by_default(command: str) -> type[TyperGroup]:
    """Return a group in which `group ARGUMENT` means `group COMMAND ARGUMENT`."""

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
                        f"{args[0]}: not a command, a file or a folder; did you mean {near!r}?"
                    )

    return WithDefault
