"""Data of a training run: the pool of training texts, and the held-out rows.

Texts in training files overlap: SST-2's file contains sentences and phrases from them. If a row is
held out, its relatives are therefore removed from the pool too. Relatives are found by comparing
normalised strings (case-folded words joined by a space): no text of the pool contains a held-out
text or is contained in one. Relatives are also removed from the sources that the held-out queries
retrieve from. If a task has minimal pairs, the two texts of a pair are also relatives.

Shapes: n texts.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, compress

import numpy as np

from polarity_bench.data.sources import DataAccess
from polarity_bench.data.split import Split
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.groups import Groups
from polarity_bench.errors import InputError
from polarity_bench.evaluation.contamination import Known
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.tasks.types.base import Settings, TaskSpec
from polarity_bench.tasks.types.polarity.task import PolaritySpec, PolarityTask
from polarity_bench.training.parameters import ParameterWarning
from polarity_bench.values import BoolArray, IntArray, digest_of, normalised

HELD_OUT_ROWS = 500


class TooMuchHeldOutError(InputError):
    """Error for a number of held-out rows that is too large; a smaller number may work."""


@dataclass(frozen=True)
class TrainingPool:
    """Distinct texts that training examples are made from, in file order.

    Duplicate rows would give examples of two equal texts, and repeated examples, so they are
    removed. Texts with contradictory labels are removed too.

    Attributes:
        texts: The n distinct texts.
        labels: Class of each text, as a position in `classes`, (n,).
        classes: Names of the classes, sorted.
        n_duplicates: Number of rows removed because an earlier row has the same text and label.
        n_contradicting: Number of rows removed because their text has several labels.
        n_held_out: Number of rows removed because they are held out or relatives of held-out rows.
        n_tested: Number of rows removed because their text is a query of the task.
    """

    texts: tuple[str, ...]
    labels: IntArray
    classes: tuple[str, ...]
    n_duplicates: int = 0
    n_contradicting: int = 0
    n_held_out: int = 0
    n_tested: int = 0

    def __len__(self) -> int:
        return len(self.texts)

    def labelled(self, task: str) -> LabelledTexts:
        """Return the texts and labels as `LabelledTexts` of the task with this name."""
        return LabelledTexts(task, self.texts, self.labels, self.classes)

    @property
    def digest(self) -> str:
        """Digest of the texts and the names of their classes, in order, 16 hexadecimal digits."""
        return digest_of([self.texts, [self.classes[label] for label in self.labels]])


@dataclass(frozen=True)
class TrainingData:
    """The texts of a training run.

    Attributes:
        pool: Texts from the task's source file, from which examples are made.
        task: The task with its own queries and sources.
        held_out: The task with held-out rows as queries. These choose the checkpoint, so the task's
            own queries have no influence on it. None if no rows are held out.
        rows: All texts of the task's training file, including texts outside the pool.
    """

    pool: TrainingPool
    task: PolarityTask
    held_out: PolarityTask | None
    rows: Sequence[str] = ()

    @property
    def held_out_texts(self) -> Sequence[str]:
        """Texts of the held-out rows; empty if no rows are held out."""
        return self.held_out.query.texts if self.held_out else ()

    def in_groups(self, embedder: Embedder) -> Embedder:
        """Return an embedder that embeds these texts in groups.

        The groups are the task's texts, the held-out queries, and all other training rows. Each
        text is encoded once. Runs with different held-out rows, examples or recipes share all
        stored vectors except those of the held-out queries.
        """
        tested = set(self.task.texts)
        others = [text for text in self.rows if text not in tested]
        return replace(embedder, groups=Groups([self.task.texts, self.held_out_texts, others]))

    def check_given(self, columns: Mapping[str, Sequence[str]]) -> None:
        """Check that the user's own training texts do not overlap with the evaluation texts.

        Raises:
            InputError: If a text is a query of the task, or a relative of a held-out row.
        """
        for name, texts in columns.items():
            tested = equal_to(texts, self.task.query.texts)
            related = relatives(texts, self.held_out_texts)
            for row in range(len(texts)):
                if tested[row]:
                    raise InputError(
                        f"the examples, row {row}: {name} is a query of the task; use other texts"
                    )
                if related[row]:
                    raise InputError(
                        f"the examples, row {row}: {name} equals, contains or is part of a text "
                        "held out to choose the checkpoint; make the examples with the "
                        "same `seed` and `held_out`, or train with `held_out` 0"
                    )


def load_training_data(
    spec: TaskSpec,
    access: DataAccess,
    *,
    held_out: int | None,
    seed: int,
    known: Known | None = None,
) -> TrainingData:
    """Load a task for training, and draw the rows to hold out.

    Args:
        spec: The task.
        access: Where to look for the data.
        held_out: Number of rows to hold out. None means 500, or a tenth of the rows of a small data
            set; if the pool would lose more than half of its rows, fewer are held out, with a
            warning.
        seed: Seed of the draw.
        known: Marks the texts that the base was trained on. These texts are not held out. With
            `known`, texts with two labels are not held out either, because `known` cannot mark
            them: no pool contains them.

    Raises:
        InputError: If the task is not a polarity task, its data is missing or invalid, or
            `held_out` is too large.
    """
    spec = check_trainable(spec)
    task = spec.load(access, Settings())
    rows = spec.load_split("source", access)
    if held_out is not None:
        return _divide(task, rows, held_out, seed, known)
    count = usual = min(HELD_OUT_ROWS, len(rows) // 10)
    while True:
        try:
            data = _divide(task, rows, count, seed, known)
            break
        except TooMuchHeldOutError:
            count //= 2
    if count < usual or not count:
        remark = f"only {count} rows of {spec.name} could be held out instead of {usual}"
        judges = "they" if count else "the task's own queries"
        warnings.warn(f"{remark}; {judges} choose the checkpoint", ParameterWarning, stacklevel=2)
    return data


def check_trainable(spec: TaskSpec) -> PolaritySpec:
    """Check that an encoder can be trained on this task, and return the task.

    Raises:
        InputError: If the task is not a polarity task, or its sources must stay unseen in training.
    """
    if not isinstance(spec, PolaritySpec):
        raise InputError(f"`task` {spec.name}: expected a polarity task, got a {spec.kind} task")
    if spec.unseen_of is not None:
        raise InputError(
            f"`task` {spec.name}: the sources of this task must stay unseen in training; train on "
            f"the task {spec.unseen_of}"
        )
    return spec


def _divide(
    task: PolarityTask, rows: Split, count: int, seed: int, known: Known | None
) -> TrainingData:
    name, texts = task.spec.name, [normalised(text) for text in rows.texts]
    queries = [normalised(text) for text in task.query.texts]
    tested = equal_to(rows.texts, task.query.texts)
    if count == 0:
        pool = training_pool(rows, held_out=np.zeros_like(tested), tested=tested)
        return TrainingData(pool, task, None, rows.texts)
    if count > len(rows) // 2:
        raise InputError(
            f"`held_out` must be at most half of the {len(rows)} training rows of {name}, got "
            f"{count}"
        )
    allowed = ~tested
    if known is not None:
        allowed &= ~known(texts) & _of_one_label(texts, rows.labels)
        n_new = len({text for text, free in zip(texts, allowed, strict=True) if text and free})
        if n_new < count:
            raise InputError(
                f"`held_out` {count}: the base was trained on rows of {name}, and only {n_new} of "
                f"{len(rows)} rows are new to the base; use a smaller `held_out`, `held_out` 0 "
                "(with `checkpoint` last, if the recipe has it), or another base"
            )
    inside = _are_among(rows.texts, task.source.texts)
    chosen = draw_like(texts, queries, count, seed, allowed=allowed, last=inside)
    held_out = rows.take(chosen)
    related = _related(rows, held_out, task.spec.protocol.pair)
    n_left = len(rows) - np.count_nonzero(related | tested)
    if n_left < len(rows) / 2:
        raise TooMuchHeldOutError(
            f"`held_out` {count}: the training rows of {name} overlap so much that only {n_left} "
            f"of {len(rows)} would be left; hold out fewer rows"
        )
    kept = ~_related(task.source, held_out, task.spec.protocol.pair)
    judged = replace(task, query=held_out, source=task.source.take(np.flatnonzero(kept)))
    pool = training_pool(rows, held_out=related, tested=tested)
    return TrainingData(pool, task, judged, rows.texts)


def _related(rows: Split, held_out: Split, pair: str | None) -> BoolArray:
    """Return a mask of the rows related to a held-out row, by text or by minimal pair."""
    related = relatives(rows.texts, held_out.texts)
    return related | _are_among(rows.columns[pair], held_out.columns[pair]) if pair else related


def _of_one_label(texts: Sequence[str], labels: Sequence[str]) -> BoolArray:
    n_labels = Counter(text for text, _ in set(zip(texts, labels, strict=True)))
    return np.array([n_labels[text] == 1 for text in texts], dtype=bool)


def _are_among(texts: Sequence[str], known: Iterable[str]) -> BoolArray:
    known = set(known)
    return np.array([text in known for text in texts], dtype=bool)


def equal_to(texts: Sequence[str], known: Iterable[str]) -> BoolArray:
    """Return a mask of the texts that equal a known text, (n,).

    Words are compared after normalising, and texts without words without blanks around them.
    """
    exact = {text.strip() for text in known} - {""}
    words = set(map(normalised, exact)) - {""}
    return np.array([t.strip() in exact or normalised(t) in words for t in texts], dtype=bool)


def relatives(texts: Sequence[str], held_out: Sequence[str]) -> BoolArray:
    """Return a mask of the texts that contain a held-out text or are a substring of one, (n,).

    The texts are normalised before they are compared. Texts without words must equal one.

    Example:
        >>> relatives(["A warm day.", "warm", "a cold day"], ["a warm", "day after"])
        array([ True,  True, False])
    """
    exact = {text.strip() for text in held_out} - {""}
    related = np.array([text.strip() in exact for text in texts], dtype=bool)
    texts, held_out = list(map(normalised, texts)), list(map(normalised, held_out))
    if not (texts and held_out):
        return related
    theirs = "\n".join(held_out)
    longest = max(map(len, held_out))
    for row, text in enumerate(texts):
        related[row] |= 0 < len(text) <= longest and text in theirs
    ours = "\n".join(texts)
    starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
    for text in set(held_out) - {""}:
        at = ours.find(text)
        while at >= 0:
            row = bisect_right(starts, at) - 1
            related[row] = True
            at = ours.find(text, starts[row + 1])
    return related


def draw_like(
    texts: Sequence[str],
    queries: Sequence[str],
    count: int,
    seed: int,
    *,
    allowed: BoolArray,
    last: BoolArray,
) -> IntArray:
    """Draw rows whose lengths in words match the queries' lengths as closely as possible.

    Target lengths are drawn from the lengths of the queries. For each target, a random row is taken
    from the remaining rows with the nearest length. No text is drawn twice, and empty texts are
    never drawn.

    Args:
        texts: Normalised texts of the rows, n texts.
        queries: Normalised queries.
        count: Number of rows to draw.
        seed: Seed of the draw.
        allowed: Rows that may be drawn, (n,).
        last: Rows to draw only if there are too few other allowed rows, (n,).

    Returns:
        Positions of the drawn rows, ascending, (count,).

    Raises:
        TooMuchHeldOutError: If there are too few rows.
    """
    generator = np.random.default_rng([seed, count])
    first = {text: row for row, text in reversed(list(enumerate(texts)))}
    once = (row for row in generator.permutation(len(texts)) if first[texts[row]] == row)
    eligible = [int(row) for row in once if allowed[row] and texts[row]]
    outside = [row for row in eligible if not last[row]]
    rows = outside if len(outside) >= count else eligible
    if len(rows) < count:
        raise TooMuchHeldOutError(
            f"`held_out` {count}: only {len(rows)} training rows can be held out; use fewer"
        )
    left = defaultdict[int, list[int]](list)
    for row in rows:
        left[_n_words(texts[row])].append(row)
    wanted = [_n_words(query) for query in queries]
    repeats = math.ceil(count / len(wanted))
    drawn = np.concatenate([generator.permutation(wanted) for _ in range(repeats)])[:count]
    chosen = []
    for length in drawn:
        near = min(left, key=lambda there: (abs(there - length), there))
        chosen.append(left[near].pop())
        if not left[near]:
            del left[near]
    return np.sort(np.array(chosen, dtype=np.int64))


def _n_words(text: str) -> int:
    return text.count(" ") + 1


def training_pool(rows: Split, *, held_out: BoolArray, tested: BoolArray) -> TrainingPool:
    """Make the pool from the rows of a split.

    Args:
        rows: The n training rows.
        held_out: Rows to leave out because they are held out or related to held-out rows, (n,).
        tested: Rows to leave out because their text is a query, (n,).

    Raises:
        InputError: If fewer than two classes are left.
    """
    held_out = held_out & ~tested
    barred = compress(rows.texts, tested | held_out)
    is_free, has_one_label = ~_are_among(rows.texts, barred), _of_one_label(rows.texts, rows.labels)
    kept = dict(compress(zip(rows.texts, rows.labels, strict=True), is_free & has_one_label))
    classes = tuple(sorted(set(kept.values())))
    if len(classes) < 2:
        raise InputError(
            "expected training rows of at least 2 classes after removing texts with contradictory "
            f"labels, held-out texts and the task's queries, got {len(classes)}; use more training "
            "rows"
        )
    return TrainingPool(
        texts=tuple(kept),
        labels=np.array([classes.index(name) for name in kept.values()], dtype=np.int64),
        classes=classes,
        n_duplicates=int(np.count_nonzero(is_free & has_one_label)) - len(kept),
        n_contradicting=int(np.count_nonzero(is_free & ~has_one_label)),
        n_held_out=int(np.count_nonzero(held_out)),
        n_tested=int(np.count_nonzero(tested)),
    )
