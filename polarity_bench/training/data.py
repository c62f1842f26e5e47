"""Data of a training run: the pool of training texts, and the rows held out of it.

Texts in training files overlap: SST-2's file contains the phrases of its own sentences. Rows are
therefore held out together with their relatives, which are found by comparing strings. After
normalising (letter case folded, words joined by a blank), no text of the pool contains a held-out
text or is contained in one. The same holds for the sources that the held-out queries retrieve from.
If a task has minimal pairs, the two texts of a pair are relatives too.

Shapes: n texts.
"""

from __future__ import annotations

import math
import re
import warnings
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, compress

import numpy as np

from polarity_bench.data.sources import DataAccess
from polarity_bench.data.split import Split
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.groups import Groups
from polarity_bench.errors import InputError
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.tasks.types.base import Settings, TaskSpec
from polarity_bench.tasks.types.polarity.task import PolaritySpec, PolarityTask, load_split
from polarity_bench.training.parameters import ParameterWarning
from polarity_bench.values import BoolArray, IntArray, digest_of

HELD_OUT_ROWS = 500
_WORD = re.compile(r"\w+")

Known = Callable[[Sequence[str]], BoolArray]
"""Returns which normalised texts the base encoder was trained on, (n,)."""


class TooMuchHeldOutError(InputError):
    """Too many rows to hold out; fewer may be possible."""


@dataclass(frozen=True)
class TrainingPool:
    """The texts that examples are made of, each once, in file order.

    Rows with the same text and label are kept once, so no example has two equal texts and no
    example is repeated because of equal rows. A text with two labels teaches nothing about either
    and is left out.

    Attributes:
        texts: The n distinct texts.
        labels: Class of each text, as a position in `classes`, (n,).
        classes: Names of the classes, sorted.
        n_duplicates: Number of rows left out because an earlier row has the same text and label.
        n_contradicting: Number of rows left out because their text has two labels.
        n_held_out: Number of rows left out because they are held out or relatives of held-out rows.
        n_tested: Number of rows left out because their text is a query of the task.
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
        """Return the texts with their labels, under the name of their task."""
        return LabelledTexts(task, self.texts, self.labels, self.classes)

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over the texts and the names of their classes, in order."""
        return digest_of([self.texts, [self.classes[label] for label in self.labels]])


@dataclass(frozen=True)
class TrainingData:
    """The texts of a training run.

    Attributes:
        pool: The texts that examples are made of, from the task's source file.
        task: The task, as it is scored everywhere.
        held_out: The task with queries held out of the pool. They choose the checkpoint, so that
            the task's own queries decide nothing. None if no rows are held out.
        rows: All texts of the task's training file, in the pool or not.
    """

    pool: TrainingPool
    task: PolarityTask
    held_out: PolarityTask | None
    rows: Sequence[str] = ()

    def in_groups(self, embedder: Embedder) -> Embedder:
        """Return an embedder that embeds these texts in groups.

        The groups are the task's texts, the held-out queries, and all other training rows. With
        them a text is encoded only once, and runs that differ in what they hold out, draw or learn
        share all vectors except those of the held-out queries.
        """
        held_out = self.held_out.query.texts if self.held_out else ()
        tested = set(self.task.texts)
        others = [text for text in self.rows if text not in tested]
        return replace(embedder, groups=Groups([self.task.texts, held_out, others]))

    def check_given(self, columns: Mapping[str, Sequence[str]]) -> None:
        """Refuse the user's own training texts if the encoder is scored on them.

        Raises:
            InputError: If one is a query of the task, or a relative of a held-out row.
        """
        tested = set(map(normalised, self.task.query.texts))
        held_out = list(map(normalised, self.held_out.query.texts)) if self.held_out else []
        for name, texts in columns.items():
            known = list(map(normalised, texts))
            for row, related in enumerate(relatives(known, held_out)):
                if known[row] in tested:
                    raise InputError(f"the examples, row {row}: {name} is a query of the task")
                if related:
                    raise InputError(
                        f"the examples, row {row}: {name} is held out to choose the checkpoint, "
                        "or contains a held-out text or is part of one; make the examples with the "
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
    """Load a task for training, with rows held out that the seed draws.

    If `held_out` is None, 500 rows are held out, or a tenth of a small data set. If that would cost
    the pool more than half of its rows, fewer rows are held out, with a warning. Rows that the base
    is `known` to have been trained on are not held out. In that case rows whose text has two labels
    are not held out either: they are in no pool, so no base knows them.

    Raises:
        InputError: If the task is not a polarity task, its data is missing or wrong, or so many
            rows cannot be held out.
    """
    spec = check_trainable(spec)
    task = spec.load(access, Settings())
    rows = load_split(spec, "source", access)
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
    """Return a task that can be trained on.

    Raises:
        InputError: If it is not a polarity task, or its sources must stay unseen in training.
    """
    if not isinstance(spec, PolaritySpec):
        raise InputError(f"training needs a polarity task; {spec.name} is a {spec.kind} task")
    if spec.unseen_of is not None:
        raise InputError(
            f"`task` {spec.name}: its sources must stay unseen in training; use the task "
            f"{spec.unseen_of}"
        )
    return spec


def _divide(
    task: PolarityTask, rows: Split, count: int, seed: int, known: Known | None
) -> TrainingData:
    name, texts = task.spec.name, [normalised(text) for text in rows.texts]
    queries = [normalised(text) for text in task.query.texts]
    tested = _among(texts, queries)
    if count == 0:
        return TrainingData(training_pool(rows, tested=tested), task, None, rows.texts)
    if count > len(rows) // 2:
        raise InputError(
            f"`held_out` {count}: at most half of the {len(rows)} training rows of {name}"
        )
    allowed = ~tested
    if known is not None:
        allowed &= ~known(texts) & _of_one_label(texts, rows.labels)
        n_new = len({text for text, free in zip(texts, allowed, strict=True) if text and free})
        if n_new < count:
            raise InputError(
                f"`held_out` {count}: the base was trained on rows of {name}, and only {n_new} of "
                f"{len(rows)} rows are new to it; use a smaller `held_out`, or 0 with `checkpoint` "
                "last, which publishes the last epoch, or train an encoder that has not seen them"
            )
    inside = _among(rows.texts, task.source.texts)
    chosen = draw_like(texts, queries, count, seed, allowed=allowed, last=inside)
    held_out = rows.take(chosen)
    related = _related(rows, held_out, task.spec.protocol.pair)
    n_left = len(rows) - np.count_nonzero(related | tested)
    if n_left < len(rows) / 2:
        raise TooMuchHeldOutError(
            f"`held_out` {count}: the training rows of {name} overlap so much that {n_left} of "
            f"{len(rows)} would be left; hold out fewer"
        )
    kept = ~_related(task.source, held_out, task.spec.protocol.pair)
    judged = replace(task, query=held_out, source=task.source.take(np.flatnonzero(kept)))
    pool = training_pool(rows, held_out=related, tested=tested)
    return TrainingData(pool, task, judged, rows.texts)


def _related(rows: Split, held_out: Split, pair: str | None) -> BoolArray:
    """Return which rows are relatives of held-out rows, or their twins if the task has pairs."""
    related = relatives(list(map(normalised, rows.texts)), list(map(normalised, held_out.texts)))
    return related | _among(rows.columns[pair], held_out.columns[pair]) if pair else related


def _of_one_label(texts: Sequence[str], labels: Sequence[str]) -> BoolArray:
    n_labels = Counter(text for text, _ in set(zip(texts, labels, strict=True)))
    return np.array([n_labels[text] == 1 for text in texts], dtype=bool)


def _among(texts: Sequence[str], known: Iterable[str]) -> BoolArray:
    known = set(known)
    return np.array([text in known for text in texts], dtype=bool)


def normalised(text: str) -> str:
    """Return the words of a text, letter case folded, joined by a blank.

    Example:
        >>> normalised("It's  WARM -- and kind.")
        'it s warm and kind'
    """
    return " ".join(_WORD.findall(text.casefold()))


def relatives(texts: Sequence[str], held_out: Sequence[str]) -> BoolArray:
    """Return which texts contain a held-out text or are contained in one, as strings, (n,).

    Example:
        >>> relatives(["a warm day", "warm", "a cold day"], ["a warm", "day after"])
        array([ True,  True, False])
    """
    related = np.zeros(len(texts), dtype=bool)
    if not (texts and held_out):
        return related
    theirs = "\n".join(held_out)
    longest = max(map(len, held_out))
    for row, text in enumerate(texts):
        related[row] = 0 < len(text) <= longest and text in theirs
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
    """Draw rows whose lengths in words match those of the queries as far as possible.

    The wanted lengths are drawn from those of the queries. For each wanted length, a random row is
    taken from the undrawn rows of the nearest length. No text is drawn twice, and none without
    words. Texts and queries are normalised. Rows marked `last`, (n,), are drawn only if the other
    `allowed` rows, (n,), do not suffice.

    Returns:
        Positions, ascending, (count,).

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
            f"`held_out` {count}: only {len(rows)} training rows can be held out"
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


def training_pool(
    rows: Split, *, held_out: BoolArray | None = None, tested: BoolArray | None = None
) -> TrainingPool:
    """Make the pool of a split, without held-out rows, (n,), and rows that are queries, (n,).

    Raises:
        InputError: If fewer than two classes are left.
    """
    nothing = np.zeros(len(rows), dtype=bool)
    tested = nothing if tested is None else tested
    held_out = (nothing if held_out is None else held_out) & ~tested
    barred = compress(rows.texts, tested | held_out)
    is_free, has_one_label = ~_among(rows.texts, barred), _of_one_label(rows.texts, rows.labels)
    kept = dict(compress(zip(rows.texts, rows.labels, strict=True), is_free & has_one_label))
    classes = tuple(sorted(set(kept.values())))
    if len(classes) < 2:
        raise InputError(
            f"the training rows have {len(classes)} class after the removal of contradicting and "
            "held-out texts and of the task's queries; training needs at least two"
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
