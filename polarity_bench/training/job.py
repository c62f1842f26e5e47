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
from typing import Any

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders import EncoderOptions
from polarity_bench.errors import InputError, nearest
from polarity_bench.training.fields import chosen
from polarity_bench.training.recipe import Recipe
from polarity_bench.training.recipes import RECIPES
from polarity_bench.types import digest_of

_MOVING = ("revision", "prompt", "prompt_name", "dtype", "max_tokens")


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
        >>> job = Job(RECIPES["margins"](), "minilm", "sst2", "runs/x")
        >>> Job.from_toml(job.to_toml()) == job
        True
    """

    recipe: Recipe
    model: str
    task: str
    output: Path
    options: EncoderOptions = field(default_factory=EncoderOptions)
    data_dir: Path | None = None
    task_dir: Path | None = None
    store: bool = False

    def __post_init__(self) -> None:
        for name in ("output", "data_dir", "task_dir"):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, Path(value))
        for names, kinds in (
            (("model", "task"), str),
            (("output",), Path),
            (("data_dir", "task_dir"), Path | None),
            (("store",), bool),
        ):
            for name in names:
                if not isinstance(value := getattr(self, name), kinds):
                    raise InputError(f"`{name}`: {value!r} is not what a job has there")

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over all in it that decides what comes out; no other places."""
        options = {name: getattr(self.options, name) for name in _MOVING}
        recipe = self.recipe.to_dict("moves", "place") | {"version": self.recipe.version}
        return digest_of([recipe, self.model, self.task, options])

    def to_toml(self) -> str:
        """Write it; what is None is left out."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values["recipe"] = self.recipe.to_dict()
        values["options"] = {e.name: getattr(self.options, e.name) for e in fields(self.options)}
        return _toml(values)

    @classmethod
    def from_toml(cls, text: str) -> Job:
        """Return the job that a text says.

        Raises:
            InputError: If it is no TOML, or says no job.
        """
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"not TOML: {error}") from error
        if missing := {"recipe", "model", "task", "output"} - set(values):
            raise InputError(f"a job says its {min(missing)!r}; this one doesn't")
        recipe, options = values["recipe"], values.pop("options", {})
        for name, table, known in (
            ("the job", values, cls),
            ("[options]", options, EncoderOptions),
            ("[recipe]", recipe, None),
        ):
            if not isinstance(table, Mapping):
                raise InputError(f"{name}: a table is wanted, got {table!r}")
            names = [each.name for each in fields(known)] if known else table
            for key in set(table) - set(names):
                raise InputError(f"{name}: unknown key {key!r}{nearest(key, names)}")
        made = chosen(RECIPES, recipe.get("name")).from_dict(recipe)
        return cls(**values | {"recipe": made, "options": EncoderOptions(**options)})

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
        return DataAccess.from_environment(self.data_dir, self.options.offline)

    @contextmanager
    def embedder(self) -> Iterator[Embedder]:
        """Open the store, if it is to be used."""
        with EmbeddingStore() if self.store else nullcontext() as store:
            yield Embedder(store)


def _toml(values: Mapping[str, Any], name: str = "") -> str:
    """Write a table, its own values first; what is None is left out."""
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    lines = [f"\n[{name}]"] if name else []
    for key, value in values.items():
        if value is not None and key not in tables:
            plain = value if isinstance(value, bool | int | float) else str(value)
            written = json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")
            lines.append(f"{key} = {written}")
    inner = [_toml(table, f"{name}.{key}".lstrip(".")) for key, table in tables.items()]
    return "\n".join([*lines, ""]) + "".join(inner)
