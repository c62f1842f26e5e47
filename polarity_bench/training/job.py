"""Jobs: complete descriptions of training runs.

A job contains names and folders, but no open resources. It can be pickled, and written to TOML and
read back. The process that runs a job opens the store and the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import MISSING, asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import tomlkit

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.base import Encoder
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError, reworded
from polarity_bench.files import parse_toml
from polarity_bench.training.parameters import Parameters, parameter
from polarity_bench.training.recipes import RECIPES
from polarity_bench.training.recipes.base import Recipe
from polarity_bench.validation import validated
from polarity_bench.values import digest_of

_MOVING = ("revision", "prompt", "prompt_name", "dtype", "max_tokens")
"""Options that affect the result."""


@dataclass(frozen=True)
class Job(Parameters):
    """Description of a training run: recipe, base, task, folders and options.

    Attributes:
        options: How to load the base.

    Example:
        >>> job = Job(RECIPES["margins"](), "minilm", "sst2", "/runs/x")
        >>> Job.from_toml(job.to_toml()) == job
        True
    """

    recipe: Recipe = parameter(MISSING, "how to train", variants=RECIPES)
    model: str = parameter(
        MISSING, "the base: any encoder for `load_encoder` except a baseline", role="place"
    )
    task: str = parameter(MISSING, "polarity task to train on")
    output: Path = parameter(MISSING, "folder for the run and the trained encoder")
    options: EncoderOptions = field(default_factory=EncoderOptions)
    data_dir: Path | None = parameter(None, "folder with data sets [default: POLARITY_BENCH_DATA]")
    task_dir: Path | None = parameter(None, "folder with your own task files")
    store: bool = parameter(False, "whether to store the embeddings of encoders not in training")

    family: ClassVar[str] = "job"
    name: ClassVar[str] = "train"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.options.backend != "torch":
            raise InputError(
                f"`options`: only torch can train, got `backend` {self.options.backend}; remove it"
            )
        for option in ("truncate_dim", "quantize", "sides"):
            if getattr(self.options, option) is not None:
                raise InputError(f"`options`: `{option}` is only for evaluation; remove it")
        if self.options.dtype != "float32":
            raise InputError(
                f"`options`: the base must be loaded in float32, got {self.options.dtype}; use the "
                "`dtype` of the recipe to set the precision of the forward pass"
            )

    @cached_property
    def digest(self) -> str:
        """Digest of everything that affects the result, 16 hexadecimal digits.

        The output folder and the data folders are not included.
        """
        options = {name: getattr(self.options, name) for name in _MOVING}
        here = self.resolve_paths(Path.cwd())
        recipe = here.recipe.to_dict("moves", "place") | {"version": self.recipe.version}
        return digest_of([recipe, here.model, self.task, options])

    def to_toml(self) -> str:
        """Return the job as TOML text, with absolute paths and without the values that are None."""
        values = self.resolve_paths(Path.cwd()).to_dict() | {"options": asdict(self.options)}
        del values["options"]["backend"], values["options"]["store_vectors"]  # have no effect
        return tomlkit.dumps(_without_none(values))

    @classmethod
    def from_toml(cls, text: str) -> Job:
        """Read a job from TOML text.

        Raises:
            InputError: If the text is not valid TOML, or does not describe a job.
        """
        with reworded("invalid TOML: "):
            values = parse_toml(text)
        with reworded("[options]: "):
            options = validated(EncoderOptions, values.pop("options", {}))
        return replace(cls.from_dict(values), options=options)

    @classmethod
    def read(cls, path: Path) -> Job:
        """Read a job from a file. Relative paths are relative to the folder of the file.

        Raises:
            InputError: If the file cannot be read, or does not describe a job.
        """
        with reworded(f"{path}: ", "", OSError, ValueError):
            job = cls.from_toml(Path(path).read_text(encoding="utf-8"))
            return job.resolve_paths(Path(path).absolute().parent)

    def access(self) -> DataAccess:
        """Return the data folder of this machine, and whether downloads are allowed."""
        return DataAccess.from_environment(self.data_dir, self.options.offline)

    @contextmanager
    def embedder(self, encoder: Encoder) -> Iterator[Embedder]:
        """Open an embedder for an encoder, with an embedding store if `store` is set."""
        with EmbeddingStore() if self.store else nullcontext() as store:
            yield Embedder.on(encoder, store)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table without the values that are None, which TOML cannot represent."""
    return {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if value is not None
    }
