"""Contamination: evaluation texts that were in the training data of an encoder.

Training writes hashes of its texts into the folder of the encoder, in `training_texts.json.gz`: one
hash of each text, and the text's normalised words, each of them hashed. Hashes of the base's
training texts are included, so one file says what an encoder has seen.

Texts are compared by whole words, normalised by `values.normalised`: "art" is not inside "a
party", although it is a substring. `training.data.relatives` compares substrings instead, because
excluding too many rows from training is safer than excluding too few.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from pathlib import Path

import numpy as np

from polarity_bench.encoders.base import Encoder, EncoderId
from polarity_bench.encoders.reference_encoder import find_base
from polarity_bench.encoders.train_file import TrainFile
from polarity_bench.errors import InputError, MissingValuesError
from polarity_bench.files import expanded, read_errors
from polarity_bench.results.result_files import (
    Result,
    has_values_per_query,
    place,
    read_arrays,
    read_result,
    write_seen,
)
from polarity_bench.scores import Score
from polarity_bench.tasks.types.base import Task
from polarity_bench.values import BoolArray, normalised

TEXTS_FILE = "training_texts.json.gz"
Row = str | tuple[str, ...]
"""A text, or both texts of a pair."""
Known = Callable[[Sequence[str]], BoolArray]
"""A function that returns a mask of the normalised texts an encoder was trained on, (n,)."""

_HEAD = 3  # maximum number of words in a key of `_Phrases`; a shorter text is its own key


@dataclass(frozen=True)
class TrainingTexts:
    """Hashes of the texts that an encoder was trained on.

    Attributes:
        exact: Hash of each text.
        words: Hashes of the words of each text after normalisation, joined by spaces.
    """

    exact: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()

    @classmethod
    def of(cls, texts: Iterable[str]) -> TrainingTexts:
        """Hash texts."""
        distinct = set(texts)
        words = {_hashed_words(normalised(text)) for text in distinct}
        return cls(frozenset(map(_hash, distinct)), frozenset(words - {""}))

    @classmethod
    def read(cls, model: str | Path) -> TrainingTexts | None:
        """Read the hashes in the folder of an encoder; None if the training texts are unknown.

        Raises:
            InputError: If the file is damaged.
        """
        file = expanded(model) / TEXTS_FILE
        if not file.is_file():
            return None
        with read_errors(file, remedy="train the encoder again"):
            stored = json.loads(gzip.decompress(file.read_bytes()))
            return cls(frozenset(stored["exact"]), frozenset(stored["words"]))

    def to_bytes(self) -> bytes:
        """Return the content of the file. Equal texts give equal bytes."""
        content = {"exact": sorted(self.exact), "words": sorted(self.words)}
        return gzip.compress(json.dumps(content).encode(), mtime=0)

    def __or__(self, other: TrainingTexts) -> TrainingTexts:
        return TrainingTexts(self.exact | other.exact, self.words | other.words)


def _hash(text: str, size: int = 8) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


@lru_cache(maxsize=2**17)
def _hashed_word(word: str) -> str:
    return _hash(word, size=4)


def _hashed_words(text: str) -> str:
    """Return a normalised text with each word replaced by its hash."""
    return " ".join(map(_hashed_word, text.split()))


@dataclass
class Contamination:
    """The rows of tasks that an encoder was trained on.

    The training texts are read and the rows compared when the first task needs them.

    Attributes:
        training: How the encoder was trained, if that is known.
        tasks: The tasks.
        output: Folder of results. If it contains the base's result for the same task and protocol,
            the base is scored on the same rows.
        problem: Why rows are not counted, if a file is damaged or not writable.
    """

    training: TrainFile | None = None
    tasks: Sequence[Task] = ()
    output: Path = Path()
    problem: str = ""

    @cached_property
    def _texts(self) -> Mapping[str, set[str]]:
        """The seen texts of all tasks, by kind of match; empty if they are unknown."""
        rows = (row for task in self.tasks for part in task.rows_by_part.values() for row in part)
        try:
            trained_on = TrainingTexts.read(self.training.folder) if self.training else None
        except InputError as error:
            trained_on, self.problem = None, str(error)
        return _seen_texts(rows, trained_on) if trained_on else {}

    def of(self, task: Task) -> SeenRows | None:
        """Return the seen rows of a task; None if they are unknown."""
        if not (self.training and task.rows_by_part and self._texts):
            return None
        parts = {part: _rows_with(rows, self._texts) for part, rows in task.rows_by_part.items()}
        return SeenRows(task, parts, self.training.base, self.output)

    def count_again(self, task: Task, result: Result) -> Result:
        """Count the seen rows of a stored result that lacks them, and replace its provenance.

        A result whose `unseen` has only one score lacks that of the base, which may have a result
        by now.
        """
        if self.training is None:
            return result
        if result.seen is not None and not (
            len(result.unseen or ()) == 1
            and _result_of(self.training.base, task, result, self.output)
        ):
            return result
        seen = self.of(task)
        if seen is None:
            return result
        counted = seen.count(result)
        try:
            write_seen(counted)
        except InputError as error:
            self.problem = str(error)
            return result
        return counted


@dataclass(frozen=True)
class SeenRows:
    """The rows of a task that an encoder was trained on.

    Attributes:
        task: The task.
        parts: Masks of the seen rows by kind of match (see `seen_rows`), by part of the task.
        base: The base of the encoder.
        output: Folder of results, where the base may have one.
    """

    task: Task
    parts: Mapping[str, Mapping[str, BoolArray]]
    base: EncoderId
    output: Path

    def count(self, result: Result) -> Result:
        """Return a result with the number of seen rows, and with scores of the unseen rows.

        The scores are computed from the values per query, of the result and of the base's result.
        They are None if the values of the result are missing.
        """
        counts = {p: {way: int(n.sum()) for way, n in w.items()} for p, w in self.parts.items()}
        scores = {}
        equal = {part: ways["normalised"] for part, ways in self.parts.items()}
        of_base = _result_of(self.base, self.task, result, self.output)
        for part, each in {"unseen": result, "unseen_base": of_base}.items():
            if each is None:
                continue
            try:
                arrays = each.arrays if each.path == Path() else read_arrays(each.path)
            except MissingValuesError:
                if each is result:
                    return replace(result, seen=counts, unseen=None)
                continue
            if score := self.task.score_unseen(arrays, equal):
                scores[str(replace(self.task.main_score, part=part))] = _as_json(score)
        return replace(result, seen=counts, unseen=scores)


def _result_of(base: EncoderId, task: Task, result: Result, output: Path) -> Result | None:
    """Return the base's complete result for the same task and protocol, if any."""
    key, experiment = replace(result.key, encoder=base), result.experiment
    if key.reference and key.reference.digest == base.digest:  # the base's own reference
        key, experiment = replace(key, reference=None), task.experiment
    try:
        stored = read_result(place(output, base, experiment, result.result_name))
    except InputError:  # missing, damaged or of another version; `run` evaluates the base again
        return None
    is_same = stored.key.digest == key.digest
    return stored if is_same and has_values_per_query(stored) else None


def _as_json(score: Score) -> dict[str, float | None]:
    low, high = score.ci95
    numbers = {"score": score.mean, "low": low, "high": high, "n": score.n}
    return {name: None if x is None or math.isnan(x) else x for name, x in numbers.items()}


def texts_before(model: str, encoder: Encoder) -> TrainingTexts | None:
    """Return the training texts of an encoder that is trained further.

    Returns:
        The texts. They are empty if polarity-bench has not trained the encoder, and None if it has,
        but the file with their hashes is lost.

    Raises:
        InputError: If the file is damaged.
    """
    return TrainingTexts.read(model) or (None if find_base(encoder) else TrainingTexts())


def known_to(model: str, encoder: Encoder, field: str = "model") -> Known | None:
    """Return a function that marks the texts an encoder was trained on; None without such texts.

    Args:
        model: Name or folder of the encoder.
        encoder: The encoder.
        field: Name of the argument that contains the name, for the error message.

    Raises:
        InputError: If the file with the hashes of the training texts is damaged or lost.
    """
    trained_on = texts_before(model, encoder)
    if trained_on is None:
        raise InputError(
            f"`{field}` {model}: rows that the encoder has not seen cannot be held out, because "
            f"{TEXTS_FILE} is missing in its folder; copy the file from the folder of its "
            "training, or set `held_out` 0 (and, if the recipe has it, `checkpoint` last, which "
            "publishes the last epoch)"
        )
    return partial(are_known, trained_on=trained_on) if trained_on.exact else None


def are_known(texts: Sequence[str], trained_on: TrainingTexts) -> BoolArray:
    """Return a mask of the normalised texts that an encoder knows from its training texts, (n,).

    A text is known if it equals a training text, is part of one, or contains one with at least half
    as many words. Shorter training phrases do not count: a single word reveals little about a whole
    sentence.

    Example:
        >>> trained_on = TrainingTexts.of(["A warm day!"])
        >>> are_known(["warm day", "a warm day at sea", "a warm day at the sea"], trained_on)
        array([ True,  True,  True])
        >>> are_known(["a warm day", "party"], TrainingTexts.of(["warm", "art"]))
        array([False, False])
    """
    hashed = list(map(_hashed_words, texts))
    in_known, in_ours = _Phrases(trained_on.words), _Phrases(set(hashed) - {""})
    inside = {phrase for text in trained_on.words for phrase in in_ours.find_in(text)}

    def contains_half(text: str) -> bool:
        return any(2 * len(part.split()) >= len(text.split()) for part in in_known.find_in(text))

    return np.array([text in inside or contains_half(text) for text in hashed], dtype=bool)


def seen_rows(rows: Sequence[Row], trained_on: TrainingTexts) -> dict[str, BoolArray]:
    """Return masks of the rows that match a training text, for four kinds of match.

    A row is a text or a pair of texts. A pair matches if either text matches.

    Returns:
        A mask for each kind of match, (n,). `exactly`: the text is a training text. `normalised`:
        the text equals a training text after normalisation; exact matches are included. `inside`:
        the text is part of a longer training text. `containing`: the text contains a shorter
        training text.

    Example:
        >>> rows = ["A warm day.", "warm day", "party", ("a party", "a warm day!")]
        >>> seen = seen_rows(rows, TrainingTexts.of(["a warm day", "warm", "art"]))
        >>> {way: found.astype(int).tolist() for way, found in seen.items()}["normalised"]
        [1, 0, 0, 1]
    """
    return _rows_with(rows, _seen_texts(rows, trained_on))


def _seen_texts(rows: Iterable[Row], trained_on: TrainingTexts) -> dict[str, set[str]]:
    """Return the texts of rows that match a training text, by kind of match (see `seen_rows`)."""
    known = trained_on.words
    ours = {text: _hashed_words(normalised(text)) for row in rows for text in _texts_of(row)}
    in_known, in_ours = _Phrases(known), _Phrases(set(ours.values()) - {""})
    inside = {phrase for text in known for phrase in in_ours.find_in(text) if phrase != text}
    exact = {text for text in ours if _hash(text) in trained_on.exact}
    return {
        "exactly": exact,
        "normalised": {text for text, words in ours.items() if text in exact or words in known},
        "inside": {text for text, words in ours.items() if words in inside},
        "containing": {text for text, words in ours.items() if in_known.find_in(words) - {words}},
    }


def _rows_with(rows: Sequence[Row], texts: Mapping[str, set[str]]) -> dict[str, BoolArray]:
    """Return masks of the rows that contain one of these texts, by kind of match, (n,) each."""
    return {
        way: np.array([not seen.isdisjoint(_texts_of(row)) for row in rows], dtype=bool)
        for way, seen in texts.items()
    }


def _texts_of(row: Row) -> tuple[str, ...]:
    return (row,) if isinstance(row, str) else row


class _Phrases:
    """An index of normalised texts, to find them inside longer texts.

    The index maps the first words of each text, at most _HEAD, to the lengths of the texts that
    begin with these words.
    """

    def __init__(self, texts: Collection[str]) -> None:
        self._texts = frozenset(texts)
        self._lengths: dict[str, set[int]] = {}
        for text in self._texts:
            words = text.split()
            self._lengths.setdefault(" ".join(words[:_HEAD]), set()).add(len(words))

    def find_in(self, text: str) -> set[str]:
        """Return the indexed texts that occur as whole words in a normalised text."""
        words = text.split()
        heads = (
            (start, self._lengths.get(" ".join(words[start : start + size]), ()))
            for start in range(len(words))
            for size in range(1, _HEAD + 1)
        )
        phrases = {" ".join(words[start : start + n]) for start, lengths in heads for n in lengths}
        return phrases & self._texts
