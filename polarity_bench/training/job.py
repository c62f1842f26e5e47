"""Job: all that a training run needs to know, as one value.

A job names what it needs (an encoder, a task, folders) and holds none of it open: it pickles,
writes itself to TOML and back, and opens its own store and data wherever it runs.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarity_bench.errors import InputError, nearest
from polarity_bench.training.fields import chosen
from polarity_bench.training.recipe import Recipe
from polarity_bench.training.recipes import RECIPES

if TYPE_CHECKING:
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.encoders import EncoderOptions
    from polarity_bench.kinds.task import TaskSpec


def _default_options() -> EncoderOptions:
    from polarity_bench.encoders import EncoderOptions

    return EncoderOptions()


@dataclass(frozen=True)
class Job:
    """A training run to be made.

    Attributes:
        recipe: How to train, with its parameters.
        model: The base: any name that `load_encoder` takes but a baseline's.
        task: A polarity task's name.
        output: The folder of the run: a sentence-transformers folder in the end.
        options: How to load the base.
        data_dir: A folder that holds data sets; POLARITY_BENCH_DATA where it runs by default.
        task_dir: A folder with task files of your own.
        store: Whether to keep embeddings of what does not change in the cache where it runs.

    Example:
        >>> from polarity_bench.training.recipes.margins import Margins
        >>> job = Job(Margins(epochs=3), "minilm", "sst2", Path("runs/x"))
        >>> Job.from_toml(job.to_toml()) == job
        True
    """

    recipe: Recipe
    model: str
    task: str
    output: Path
    options: EncoderOptions = field(default_factory=_default_options)
    data_dir: Path | None = None
    task_dir: Path | None = None
    store: bool = False

    def __post_init__(self) -> None:
        for name in ("output", "data_dir", "task_dir"):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, Path(value))
        for name, kinds in (
            ("recipe", Recipe),
            ("model", str),
            ("task", str),
            ("output", Path),
            ("data_dir", Path | None),
            ("task_dir", Path | None),
            ("store", bool),
        ):
            if not isinstance(getattr(self, name), kinds):
                raise InputError(f"`{name}`: {getattr(self, name)!r} is not what a job has there")

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over all in it that decides what comes out; no other places."""
        from polarity_bench.types import digest_of

        moving = ("revision", "prompt", "prompt_name", "dtype", "max_tokens")
        options = {name: getattr(self.options, name) for name in moving}
        recipe = self.recipe.to_dict("moves", "place") | {"version": self.recipe.version}
        return digest_of([recipe, self.model, self.task, options])

    def to_toml(self) -> str:
        """Write it; what has its default None is left out."""
        places = {name: getattr(self, name) for name in ("output", "data_dir", "task_dir")}
        top = {"model": self.model, "task": self.task, **places, "store": self.store}
        default = type(self.options)()
        options = {
            each.name: value
            for each in fields(default)
            if (value := getattr(self.options, each.name)) != getattr(default, each.name)
        }
        return _toml(top) + _table("recipe", self.recipe.to_dict()) + _table("options", options)

    @classmethod
    def from_toml(cls, text: str) -> Job:
        """Return the job that a text says.

        Raises:
            InputError: If it is no TOML, or says no job.
        """
        from polarity_bench.encoders import EncoderOptions

        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"not TOML: {error}") from error
        _check_keys("the job", values, [each.name for each in fields(cls)])
        if missing := {"recipe", "model", "task", "output"} - set(values):
            raise InputError(f"the job says no {min(missing)!r}")
        for name in ("recipe", "options"):
            if not isinstance(values.get(name, {}), Mapping):
                raise InputError(f"[{name}]: a table is wanted, got {values[name]!r}")
        recipe = values.pop("recipe")
        options = values.pop("options", {})
        _check_keys("[options]", options, [each.name for each in fields(EncoderOptions)])
        made = chosen(RECIPES, recipe.get("name")).from_dict(recipe)
        return cls(recipe=made, options=EncoderOptions(**options), **values)

    @classmethod
    def read(cls, path: Path) -> Job:
        """Read a job from a file.

        Raises:
            InputError: If the file cannot be read, or says no job; names the file.
        """
        try:
            return cls.from_toml(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: {error}") from error

    def access(self) -> DataAccess:
        """Say where data may come from, here and now."""
        from polarity_bench.data.sources import DataAccess

        return DataAccess.from_environment(self.data_dir, self.options.offline)

    def task_spec(self) -> TaskSpec:
        """Read the task's file."""
        from polarity_bench.kinds import choose_tasks, load_tasks

        (spec,) = choose_tasks(load_tasks(self.task_dir), names=[self.task])
        return spec

    @contextmanager
    def embedder(self) -> Iterator[Embedder]:
        """Open the store, if it is to be used."""
        from polarity_bench.embedding.embedder import Embedder
        from polarity_bench.embedding.store import EmbeddingStore

        with EmbeddingStore() if self.store else nullcontext() as store:
            yield Embedder(store)


def _check_keys(where: str, values: Mapping[str, Any], known: list[str]) -> None:
    for key in values:
        if key not in known:
            raise InputError(f"{where}: unknown key {key!r}{nearest(key, known)}")


def _table(name: str, values: Mapping[str, Any]) -> str:
    inner = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    plain = {key: value for key, value in values.items() if key not in inner}
    tables = [_table(f"{name}.{key}", value) for key, value in inner.items()]
    return f"\n[{name}]\n" + _toml(plain) + "".join(tables)


def _toml(values: Mapping[str, Any]) -> str:
    return "".join(f"{k} = {_toml_value(v)}\n" for k, v in values.items() if v is not None)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
