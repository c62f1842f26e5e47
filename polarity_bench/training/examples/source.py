"""Generation of training examples from a task's training rows, and their files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.base import Encoder, EncoderId
from polarity_bench.encoders.load import load_encoder
from polarity_bench.errors import InputError, check_known, reworded
from polarity_bench.files import check_writable, write_atomically
from polarity_bench.progress import Bar, no_bar
from polarity_bench.tasks.catalogue import choose_task, load_tasks
from polarity_bench.training.data import TrainingPool, load_training_data
from polarity_bench.training.examples import COLUMNS, EXAMPLE_KINDS, ExampleKind
from polarity_bench.training.examples.card import examples_card
from polarity_bench.training.examples.draw import count_candidates, draw
from polarity_bench.training.examples.neighbour_cache import pool_neighbours
from polarity_bench.training.examples.neighbours import Neighbours
from polarity_bench.training.examples.spec import ExampleSpec

if TYPE_CHECKING:
    from datasets import Dataset

_LABELS: dict[ExampleKind, str] = {
    "pairs": "a class number, 0 or higher",
    "labelled-pairs": "1 (same class) or 0 (different classes)",
}


@dataclass(frozen=True)
class ExampleSource:
    """A pool of training texts with its neighbours, from which examples are drawn.

    Attributes:
        pool: The texts and their classes.
        neighbours: Neighbours of the pool's texts.
        kind: Kind of examples.
        spec: Mining settings, and the number of examples of a draw.

    Raises:
        InputError: If no text of some class has a neighbour that the kind of examples needs.
    """

    pool: TrainingPool
    neighbours: Neighbours
    kind: ExampleKind
    spec: ExampleSpec

    def __post_init__(self) -> None:
        sides = {"its own": self.neighbours.same}
        if self.kind != "pairs":
            sides["any other"] = self.neighbours.opposite
        classes, spec = self.pool.classes, self.spec
        for side, neighbours in sides.items():
            n_with = np.bincount(self.pool.labels, neighbours.lengths > 0, minlength=len(classes))
            if n_with.all():
                continue
            limit = f" and cosine >= {spec.threshold:g}" if spec.mining == "as-written" else ""
            counts = ", ".join(f"{n:.0f} of {c!r}" for n, c in zip(n_with, classes, strict=True))
            raise InputError(
                f"no text with the label {classes[n_with.argmin()]!r} has a neighbour with {side} "
                f"label{limit}; texts with such a neighbour: {counts}; use a lower `threshold` or "
                "more `neighbours`"
            )

    @property
    def n_candidates(self) -> int:
        """Number of candidates: examples that the neighbours allow."""
        return count_candidates(self.neighbours, self.kind)

    @property
    def count(self) -> int:
        """Number of examples in each draw."""
        return self.spec.solve_count(self.n_candidates)

    def columns(self, seed: int, epoch: int) -> dict[str, list[Any]]:
        """Draw the examples of an epoch.

        Returns:
            The texts of each column, and the column `label` if this kind of examples has labels.
        """
        drawn = draw(self.neighbours, self.pool.labels, self.kind, self.count, seed, epoch)
        columns: dict[str, list[Any]] = {
            name: [self.pool.texts[i] for i in positions]
            for name, positions in zip(COLUMNS[self.kind], drawn.positions.T, strict=True)
        }
        return columns if drawn.labels is None else columns | {"label": drawn.labels.tolist()}

    def facts(self, encoder: EncoderId) -> dict[str, str]:
        """Return facts about the examples for their card, by heading.

        Args:
            encoder: Encoder whose embeddings determined the neighbours.
        """
        pool, dropout = self.pool, 1 - self.count / self.n_candidates
        return {
            "Left out": f"{pool.n_duplicates:,} repeated rows, {pool.n_contradicting:,} rows whose "
            f"text has two labels, {pool.n_held_out:,} held-out rows and their relatives, "
            f"{pool.n_tested:,} rows that are queries of the task",
            "Classes": ", ".join(pool.classes),
            "Kind": f"{self.kind}: {', '.join(COLUMNS[self.kind])}",
            "Neighbours": f"{self.spec.mined_words}, by {encoder.label} (digest {encoder.digest})",
            "Candidates": f"{self.n_candidates:,}",
            "Dropout": f"{dropout:.6f}, which leaves {self.count:,} examples",
        }


def generate_examples(
    task: str,
    kind: ExampleKind = "triplets",
    *,
    encoder: str | Encoder = "minilm",
    spec: ExampleSpec | None = None,
    seed: int = 0,
    epoch: int = 0,
    held_out: int | None = None,
    access: DataAccess | None = None,
    task_dir: str | Path | None = None,
    embedder: Embedder | None = None,
    bar: Bar = no_bar,
) -> Dataset:
    """Generate examples from a task's training rows.

    Args:
        task: Name of the task.
        kind: `pairs` (anchor, positive, label), `labelled-pairs` (sentence1, sentence2, label) or
            `triplets` (anchor, positive, negative).
        encoder: Encoder whose embeddings determine the neighbours, or its name.
        spec: Number of examples, and mining settings. The default is 50,000 examples, or all if
            the neighbours allow fewer, mined as the margins paper describes.
        seed: Seed of the draw. The same seed gives the same bytes.
        epoch: Number of the epoch whose draw to return, from 0.
        held_out: Number of rows to keep out of all examples, drawn with the seed as in `train`.
            None holds out 500 rows, or a tenth of a small data set.
        access: Sources of the task's data.
        task_dir: Folder with your own task files.
        embedder: Embeds the texts; by default, without a cache.
        bar: Opens progress bars.

    Returns:
        The examples in random order. `info.description` is their card.

    Raises:
        InputError: If the task, its data or the encoder is not usable, or if the neighbours allow
            too few examples.
    """
    from datasets import Dataset

    spec = spec or ExampleSpec()
    check_known(kind, EXAMPLE_KINDS, f"unknown kind of examples {kind!r}")
    chosen = choose_task(load_tasks(task_dir), task)
    data = load_training_data(
        chosen, access or DataAccess.from_environment(), held_out=held_out, seed=seed
    )
    pool = data.pool
    if isinstance(encoder, str):
        encoder = load_encoder(encoder)
    neighbours = pool_neighbours(pool, encoder, spec, data.in_groups(embedder or Embedder()), bar)
    source = ExampleSource(pool, neighbours, kind, spec)
    dataset = Dataset.from_dict(source.columns(seed, epoch), features=_features(kind, pool))
    own = data.task.spec
    licence = ", ".join(filter(None, [own.licence, own.restriction]))
    facts = {
        "Task": f"{chosen.title} ({chosen.name}, version {chosen.version}), "
        f"{len(pool):,} distinct texts",
        **({"Licence of the texts": licence} if licence else {}),
        **source.facts(encoder.id),
        "Seed": f"{seed}, epoch {epoch}",
    }
    title = f"{kind} of {chosen.title}"
    dataset.info.description = examples_card(facts, title, len(dataset))
    return dataset


def write_examples(dataset: Dataset, folder: str | Path) -> Path:
    """Write examples and their card to a folder that `datasets` can load.

    The examples are written to `train.parquet`, the card to `README.md`.

    Returns:
        Path of the parquet file.

    Raises:
        InputError: If the folder has other files or complete examples.
    """
    folder = Path(folder)
    check_examples_folder(folder)
    content = io.BytesIO()  # `Dataset.to_parquet` would show a progress bar
    pq.write_table(dataset.data.table.cast(dataset.features.arrow_schema), content)
    write_atomically(folder / "train.parquet", content.getvalue())
    write_atomically(folder / "README.md", dataset.info.description.encode())
    return folder / "train.parquet"


def check_examples_folder(folder: Path) -> None:
    """Check that examples can be written to a folder.

    The folder may be missing, empty, or left incomplete by an interrupted `write_examples`.

    Raises:
        InputError: If the folder has other files or complete examples.
    """
    check_writable(folder)  # This creates the folder.
    entries = sorted(entry.name for entry in folder.iterdir())
    temporary = (".train.parquet.", ".README.md.")  # temporary files of a killed process
    names = {name for name in entries if not name.startswith(temporary)}
    if names not in (set(), {"train.parquet"}):
        raise InputError(
            f"`output` {folder}: the folder is not empty ({', '.join(entries[:3])}); "
            "use a new folder"
        )


def read_examples(path: Path, kind: ExampleKind) -> dict[str, list[Any]]:
    """Read examples from a folder that `write_examples` wrote, or from a parquet file.

    Raises:
        InputError: If the file is missing or not readable, or has examples of another kind.
    """
    file = path / "train.parquet" if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"`examples_from`: no such file: {file}")
    with reworded(f"{file}: not readable as parquet: ", "", OSError, ValueError):
        columns: dict[str, list[Any]] = pq.read_table(file).to_pydict()
    required = (*COLUMNS[kind], *(() if kind == "triplets" else ("label",)))
    if set(columns) != set(required):
        raise InputError(
            f"{file}: the loss takes {kind} in the columns {', '.join(required)}, "
            f"got {', '.join(columns)}"
        )
    for name in required:
        for row, value in enumerate(columns[name]):
            if not (_is_label(value, kind) if name == "label" else _is_text(value)):
                expected = "a text" if name != "label" else _LABELS[kind]
                raise InputError(f"{file}, row {row}: {name} must be {expected}, got {value!r}")
    return {name: columns[name] for name in required}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_label(value: object, kind: ExampleKind) -> bool:
    is_class = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return is_class and (kind == "pairs" or value in (0, 1))


def _features(kind: ExampleKind, pool: TrainingPool) -> Any:
    from datasets import ClassLabel, Features, Value

    features: dict[str, Any] = {name: Value("string") for name in COLUMNS[kind]}
    if kind != "triplets":
        names = pool.classes if kind == "pairs" else ("opposite", "same")
        features["label"] = ClassLabel(names=list(names))
    return Features(features)


def shuffled(
    columns: Mapping[str, list[Any]], count: int, seed: int, epoch: int
) -> dict[str, list[Any]]:
    """Draw some of the examples in random order.

    Args:
        columns: The examples, by column.
        count: Number of examples to draw.
        seed: Seed of the training run.
        epoch: Number of the epoch, from 0. Each epoch has a different draw.

    Raises:
        InputError: If there are fewer than `count` examples.
    """
    size = len(next(iter(columns.values())))
    if count > size:
        raise InputError(
            f"`examples`: expected at most {size:,}, the number of examples in the file, "
            f"got {count:,}"
        )
    order = np.random.default_rng([seed, epoch]).permutation(size)[:count]
    return {name: [values[i] for i in order] for name, values in columns.items()}
