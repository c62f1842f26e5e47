"""Effort: how much there is to do, in texts through an encoder, and by a probe, in seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.load import SentenceTransformerEncoder, load_encoder
from polarity_bench.sweeps.items import CrossValidation, Evaluation, Item, Setup, Training
from polarity_bench.tasks.catalogue import choose_tasks, load_tasks
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.tasks.senteval.classifiers import single_threaded
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.task import PolaritySpec, load_split
from polarity_bench.values import digest_of

_TRAINED = 3
"""A text that is trained on takes about so many times what one takes that is encoded."""
_PROBED = 128
"""Texts of a probe."""
_FIXED_SECONDS = 6.0
"""What loading, judging and writing take for each item, whatever its size."""


@dataclass(frozen=True)
class Sizes:
    """How large data sets are.

    Attributes:
        texts: The distinct texts of a task: those that an evaluation encodes.
        rows: The training rows of a polarity task.
        labelled: The rows of a task that is cross-validated.
        digests: Over the rows of each task and its file.
    """

    texts: Mapping[str, int]
    rows: Mapping[str, int]
    labelled: Mapping[str, int] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)


def sizes(items: Sequence[Item], setup: Setup) -> Sizes:
    """Load every task that is named, once by each protocol.

    Raises:
        InputError: If one's data cannot be had, or a protocol asks for more rows than it has.
    """
    access = setup.access()
    validated = {item.task: item for item in items if isinstance(item, CrossValidation)}
    others = (item for item in items if not isinstance(item, CrossValidation))
    names = list(dict.fromkeys(task for item in others for task in item.tasks))
    asked = [item for item in items if isinstance(item, Evaluation) and item.said]
    texts, rows, labelled, digests = {}, {}, {}, {}
    for spec in choose_tasks(load_tasks(setup.task_dir), names=names):
        task = spec.load(access, Settings())
        for protocols in {str(e.said): e.protocols for e in asked if spec.name in e.tasks}.values():
            spec.load(access, protocols)  # refuses what cannot be asked of its rows
        texts[spec.name] = len(set(task.texts))
        digests[spec.name] = digest_of([spec.digest, task.digest])
        if isinstance(spec, PolaritySpec):
            pool = load_split(spec, "source", access)
            rows[spec.name] = len(pool.texts)
            rows_digest = digest_of([list(pool.texts), list(pool.labels)])
            digests[spec.name] = digest_of([spec.digest, task.digest, rows_digest])
    for name, item in validated.items():
        data = item.data()  # an evaluation may need more rows of a class than these folds do
        labelled[name] = len(data.labels)
        texts.setdefault(name, len(set(_flat(data))))
        digests[f"{name}, cross-validated"] = data.digest
    return Sizes(texts, rows, labelled, digests)


def _flat(data: LabelledTexts) -> list[str]:
    """Return the texts of a data set, of pairs both."""
    return [text for row in data.texts for text in ([row] if isinstance(row, str) else row)]


def efforts(items: Sequence[Item], known: Sizes, access: DataAccess) -> list[float]:
    """Return about how many texts go through the encoder for each item, those trained on thrice."""

    @cache
    def evaluated(tasks: tuple[str, ...]) -> int:
        return sum(known.texts[task] for task in tasks)

    found = []
    for item in items:
        if isinstance(item, CrossValidation):
            found.append(_effort_of_folds(item, known.labelled[item.task]))
            continue
        n_texts = evaluated(tuple(item.tasks))
        if isinstance(item, Training):
            recipe, task = item.job.recipe, item.job.task
            n_trained = recipe.n_trained_on(known.rows.get(task, 0), access)
            n_judged = known.texts[task] * (1 + getattr(recipe, "epochs", 1))
            n_texts += n_judged + _TRAINED * n_trained
        found.append(float(n_texts))
    return found


def _effort_of_folds(item: CrossValidation, n_rows: int) -> float:
    """Return about how many texts go through the encoder: rows learned from, and all tested."""
    protocol = item.protocol
    n_whole, n_seeds = protocol.sample or n_rows, len(protocol.seeds)
    n_learned = protocol.rows or n_whole * (protocol.folds - 1) // protocol.folds
    a_fold = n_learned + _TRAINED * item.method.n_trained_on(n_learned)
    return float(n_seeds * (protocol.folds * a_fold + n_whole))


def probe(items: Sequence[Item], setup: Setup) -> dict[str, float]:
    """Measure how many seconds a text takes through each base, in one thread.

    Returns:
        Seconds by the name of the base: of the first texts of the first task that it is used on.
    """
    first = {model_of(item): item for item in reversed(items)}
    found = {}
    for model, item in first.items():
        options = item.job.options if isinstance(item, Training) else item.options
        encoder = load_encoder(model, options)
        if isinstance(encoder, SentenceTransformerEncoder):
            texts = list(dict.fromkeys(_texts_of(item, setup)))[:_PROBED]
            with single_threaded():
                encoder.encode(texts)  # what is done once is not counted
                begun = time.perf_counter()
                encoder.encode(texts)
                found[model] = (time.perf_counter() - begun) / len(texts)
    return found


def _texts_of(item: Item, setup: Setup) -> Sequence[str]:
    """Return the texts of an item's first task."""
    if isinstance(item, CrossValidation):
        return _flat(item.data())
    (spec,) = choose_tasks(load_tasks(setup.task_dir), names=[item.tasks[0]])
    return spec.load(setup.access(), Settings()).texts


def model_of(item: Item) -> str:
    """The encoder that an item begins with."""
    return item.job.model if isinstance(item, Training) else item.model


def estimate(
    items: Sequence[Item], known: Sizes, seconds: Mapping[str, float], access: DataAccess
) -> float:
    """Return about how many seconds items take, one after the other.

    Args:
        items: What is to be made.
        known: How large data sets are.
        seconds: What a text takes through each base, see `probe`.
        access: Where data may come from.
    """
    weights = efforts(items, known, access)
    pairs = zip(items, weights, strict=True)
    return sum(_FIXED_SECONDS + n * seconds.get(model_of(item), 0.0) for item, n in pairs)
