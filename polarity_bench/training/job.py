"""Job: everything that a training run needs to know, as one value.

A job holds names and folders, but no open resources. It can be pickled, written to TOML and read
back, and it opens its own store and data wherever it runs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import MISSING, asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import tomlkit

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError
from polarity_bench.training.parameters import Parameters, parameter
from polarity_bench.training.recipes import RECIPES
from polarity_bench.training.recipes.base import Recipe
from polarity_bench.validation import validated
from polarity_bench.values import digest_of

_MOVING = ("revision", "prompt", "prompt_name", "dtype", "max_tokens")  # affect the result


@dataclass(frozen=True)
class Job(Parameters):
    """A training run to execute.

    Attributes:
        options: How to load the base.

    Example:
        >>> job = Job(RECIPES["margins"](), "minilm", "sst2", "/runs/x")
        >>> Job.from_toml(job.to_toml()) == job
        True
    """

    recipe: Recipe = parameter(MISSING, "how to train", variants=RECIPES)
    model: str = parameter(
        MISSING, "the base: what `load_encoder` takes, but no baseline", role="place"
    )
    task: str = parameter(MISSING, "a polarity task")
    output: Path = parameter(MISSING, "folder of the run and of the trained encoder")
    options: EncoderOptions = field(default_factory=EncoderOptions)
    data_dir: Path | None = parameter(None, "folder with data sets; or POLARITY_BENCH_DATA there")
    task_dir: Path | None = parameter(None, "folder with your own task files")
    store: bool = parameter(False, "whether to store embeddings by encoders that do not change")

    family: ClassVar[str] = "job"
    name: ClassVar[str] = "train"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.options.dtype != "float32":
            raise InputError(
                f"`options`: training begins from float32 weights, got {self.options.dtype}; a "
                "recipe's own `dtype` is that of its forward pass"
            )

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over everything that affects the result, and no other paths."""
        options = {name: getattr(self.options, name) for name in _MOVING}
        here = self.below(Path.cwd())
        recipe = here.recipe.to_dict("moves", "place") | {"version": self.recipe.version}
        return digest_of([recipe, here.model, self.task, options])

    def to_toml(self) -> str:
        """Return the job as TOML, with absolute paths; values that are None are left out."""
        values = self.below(Path.cwd()).to_dict() | {"options": asdict(self.options)}
        return tomlkit.dumps(_without_none(values))

    @classmethod
    def from_toml(cls, text: str) -> Job:
        """Read a job from TOML text.

        Raises:
            InputError: If the text is not TOML, or does not describe a job.
        """
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"not TOML: {error}") from error
        try:
            options = validated(EncoderOptions, values.pop("options", {}))
        except InputError as error:
            raise InputError(f"[options]: {error}") from error
        return replace(cls.from_dict(values), options=options)

    @classmethod
    def read(cls, path: Path) -> Job:
        """Read a job from a file; paths in it are relative to the file's folder.

        Raises:
            InputError: If the file cannot be read, or does not describe a job; names the file.
        """
        try:
            job = cls.from_toml(Path(path).read_text(encoding="utf-8"))
            return job.below(Path(path).absolute().parent)
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: {error}") from error

    def access(self) -> DataAccess:
        """Return where data may come from on this machine."""
        return DataAccess.from_environment(self.data_dir, self.options.offline)

    @contextmanager
    def embedder(self, device: str) -> Iterator[Embedder]:
        """Yield an embedder, with the store if the job uses it; the batch size suits the device."""
        with EmbeddingStore() if self.store else nullcontext() as store:
            yield Embedder.on(device, store)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table without the values that are None, which TOML cannot hold."""
    return {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if value is not None
    }
