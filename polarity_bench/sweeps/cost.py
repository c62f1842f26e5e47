"""Cost of a sweep: the number of texts to encode, and an estimate of the time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.load import SentenceTransformerEncoder, load_encoder
from polarity_bench.sweeps.items import CrossValidation, Evaluation, Item, Setup, Training
from polarity_bench.tasks.catalogue import choose_task, choose_tasks, load_tasks
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.tasks.senteval.classifiers import single_threaded
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.task import PolaritySpec
from polarity_bench.values import digest_of

_TRAINED = 3
"""Cost of training on a text, as a multiple of the cost of encoding it."""
_PROBED = 128
"""Maximum number of texts for a speed measurement."""
_FIXED_SECONDS = 6.0
"""Seconds to load, score and write an item, independent of its size."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of data sets, by task.

    Attributes:
        texts: Number of distinct texts that an evaluation encodes.
        rows: Number of training rows of each polarity task.
        labelled: Number of rows of each cross-validated task.
        digests: Digest of each task's file and rows.
    """

    texts: Mapping[str, int]
    rows: Mapping[str, int]
    labelled: Mapping[str, int] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)


def sizes(items: Sequence[Item], setup: Setup) -> Sizes:
    """Load every task of the items, once for each protocol, and return the sizes of its data.

    Raises:
        InputError: If data is not available, or if a protocol needs more rows than a task has.
    """
    access = setup.access()
    validated = {item.task: item for item in items if isinstance(item, CrossValidation)}
    evaluated = (item for item in items if not isinstance(item, CrossValidation))
    names = list(dict.fromkeys(task for item in evaluated for task in item.tasks))
    evaluations = [item for item in items if isinstance(item, Evaluation) and item.given]
    texts, rows, labelled, digests = {}, {}, {}, {}
    for spec in choose_tasks(load_tasks(setup.task_dir), names=names):
        task = spec.load(access, Settings())
        protocols = {str(e.given): e.protocols for e in evaluations if spec.name in e.tasks}
        for settings in protocols.values():
            spec.load(access, settings)  # raises an error if there are too few rows
        texts[spec.name] = len(set(task.texts))
        parts = [spec.digest, task.digest]
        if isinstance(spec, PolaritySpec):
            pool = spec.load_split("source", access)
            rows[spec.name] = len(pool.texts)
            parts.append(digest_of([list(pool.texts), list(pool.labels)]))
        digests[spec.name] = digest_of(parts)
    for name, item in validated.items():
        # `item.data` loads the rows, because an evaluation may need more rows than these folds.
        data = item.data(setup)
        labelled[name] = len(data.labels)
        texts.setdefault(name, len(set(_flat(data))))
        digests[f"{name}, cross-validated"] = data.digest
    return Sizes(texts, rows, labelled, digests)


def _flat(data: LabelledTexts) -> list[str]:
    """Return all texts of a data set, including both texts of each pair."""
    return [text for row in data.texts for text in ([row] if isinstance(row, str) else row)]


def effort(item: Item, known: Sizes, access: DataAccess) -> int:
    """Return the approximate number of texts that the encoder processes for an item.

    A text in training counts as three texts, because a training step costs about three times as
    much as encoding.
    """
    if isinstance(item, CrossValidation):
        # Each fold encodes and trains on its training rows. Each seed also encodes all rows once.
        protocol = item.protocol
        n_rows = protocol.sample or known.labelled[item.task]
        n_learned = protocol.rows or n_rows * (protocol.folds - 1) // protocol.folds
        a_fold = n_learned + _TRAINED * item.method.n_trained_on(n_learned)
        return len(protocol.seeds) * (protocol.folds * a_fold + n_rows)
    n_texts = sum(known.texts[task] for task in item.tasks)
    if isinstance(item, Training):
        recipe = item.job.recipe
        n_texts += known.texts[item.task] * (1 + getattr(recipe, "epochs", 1))
        n_texts += _TRAINED * recipe.n_trained_on(known.rows.get(item.task, 0), access)
    return n_texts


def probe(items: Sequence[Item], setup: Setup) -> dict[str, float]:
    """Measure the time that each base needs to encode a text, in one thread.

    Each base encodes texts of the first task that uses the base. They are taken at equal distances,
    because the first texts of a data set can be longer than the others, as those of STS12 are.

    Returns:
        Seconds per text, by the name of the base.
    """
    first = {item.model: item for item in reversed(items)}
    seconds = {}
    for model, item in first.items():
        encoder = load_encoder(model, item.options)
        if isinstance(encoder, SentenceTransformerEncoder):
            texts = list(dict.fromkeys(_texts_of(item, setup)))
            texts = texts[:: -(-len(texts) // _PROBED)]
            with single_threaded():
                encoder.encode(texts)  # warm-up, not counted
                begun = time.perf_counter()
                encoder.encode(texts)
                seconds[model] = (time.perf_counter() - begun) / len(texts)
    return seconds


def _texts_of(item: Item, setup: Setup) -> Sequence[str]:
    """Return the texts of an item's first task."""
    if isinstance(item, CrossValidation):
        return _flat(item.data(setup))
    spec = choose_task(load_tasks(setup.task_dir), item.tasks[0])
    return spec.load(setup.access(), Settings()).texts


def estimate(
    items: Sequence[Item], known: Sizes, seconds: Mapping[str, float], access: DataAccess
) -> float:
    """Return the approximate time to run the items one after another, in seconds."""
    return sum(
        _FIXED_SECONDS + effort(item, known, access) * seconds.get(item.model, 0.0)
        for item in items
    )
