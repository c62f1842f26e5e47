"""Contamination: evaluation texts that were in the training data of an encoder.

A run folder does not contain the training texts. They are recreated from the data and from the
task, recipe and seed that the folder records. Their digest must match the recorded digest.

Texts are compared by whole words, normalised by `data.normalised`: "art" is not inside "a party",
although it is a substring. `data.relatives` compares substrings instead, because excluding too many
rows from training is safer than excluding too few.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.reference_encoder import Base, base_of
from polarity_bench.encoders.train_file import read_train_file
from polarity_bench.errors import InputError, InputWarning, MissingValuesError
from polarity_bench.results.result_files import (
    Result,
    has_values_per_query,
    place,
    read_arrays,
    read_result,
    write_seen,
)
from polarity_bench.scores import Score
from polarity_bench.tasks.catalogue import choose_tasks, load_tasks
from polarity_bench.tasks.types.base import Task
from polarity_bench.tasks.types.rows_task import RowsTask
from polarity_bench.training.data import Known, load_training_data, normalised
from polarity_bench.training.parameters import ParameterWarning, chosen
from polarity_bench.training.recipes import RECIPES
from polarity_bench.values import BoolArray

Row = str | tuple[str, ...]
"""A text, or both texts of a pair."""

_HEAD = 3  # maximum number of words in a key of `_Phrases`; a shorter text is its own key


def count_seen(
    model: str,
    stored: Sequence[list[Result]],
    tasks: Sequence[Task],
    output: Path,
    access: DataAccess,
    task_dir: Path | None = None,
) -> None:
    """Add the number of seen rows, and scores of the unseen rows, to stored results.

    Results without these numbers are replaced, both in `stored` and in their files. The scores of
    the unseen rows are computed from the stored values per query, without another evaluation.

    Args:
        model: Name or folder of the encoder.
        stored: Lists of the encoder's results.
        tasks: The tasks of these results.
        output: Folder of the results. If it contains the base's result for the same task and
            protocol, the base is scored on the same rows.
        access: Where to look for the data.
        task_dir: Folder with the user's own task files, or one such file.

    Raises:
        InputError: If the encoder's training texts cannot be recreated; the message says why.
    """
    base = base_of(model)
    if base is None:
        return
    by_name = {task.spec.name: task for task in tasks if task.rows_by_part}
    # If `unseen` has only one score, the base's score can be added once the base has a result.
    lacking = [
        (results, i, of_base)
        for results in stored
        for i, result in enumerate(results)
        if result.task in by_name and (result.seen is None or len(result.unseen or ()) == 1)
        if (of_base := _result_of(base, result, output)) or result.seen is None
    ]
    trained_on = training_texts(model, access, task_dir) if lacking else None
    if trained_on is None:
        return
    counted = [by_name[results[i].task].rows_by_part for results, i, _ in lacking]
    rows = (row for parts in counted for rows in parts.values() for row in rows)
    texts = _seen_texts(rows, trained_on)
    for (results, i, of_base), parts in zip(lacking, counted, strict=True):
        result = results[i]
        task = by_name[result.task]
        seen = {part: _rows_with(rows, texts) for part, rows in parts.items()}
        counts = {p: {way: int(n.sum()) for way, n in ways.items()} for p, ways in seen.items()}
        equal = {part: ways["normalised"] for part, ways in seen.items()}
        unseen = _score_unseen(task, equal, result, of_base) if isinstance(task, RowsTask) else None
        results[i] = replace(result, seen=counts, unseen=unseen)
        write_seen(results[i])


def _score_unseen(
    task: RowsTask, seen: Mapping[str, BoolArray], own: Result, base: Result | None
) -> dict[str, dict[str, float | None]] | None:
    """Score the unseen rows of the encoder's and the base's result from their values per query.

    Return None if the values of the encoder's result are missing.
    """
    scores = {}
    for part, result in {"unseen": own, "unseen_base": base}.items():
        try:
            score = task.score_unseen(read_arrays(result.path), seen) if result else None
        except MissingValuesError:
            if result is own:
                return None
            continue
        if score:
            scores[str(replace(task.main_score, part=part))] = _as_json(score)
    return scores


def _as_json(score: Score) -> dict[str, float | None]:
    low, high = score.ci95
    numbers = {"score": score.mean, "low": low, "high": high, "n": score.n}
    return {name: None if x is None or math.isnan(x) else x for name, x in numbers.items()}


def _result_of(base: Base, result: Result, output: Path) -> Result | None:
    """Return the base's complete result for the same task and protocol, if any."""
    try:
        stored = read_result(place(output, base.encoder, result.experiment, result.result_name))
    except InputError:  # missing, damaged or of another version; `run` evaluates the base again
        return None
    is_same = stored.key.digest == replace(result.key, encoder=base.encoder).digest
    return stored if is_same and has_values_per_query(stored) else None


def training_texts(
    model: str,
    access: DataAccess,
    task_dir: Path | None = None,
    *,
    above: frozenset[Path] = frozenset(),
) -> list[str] | None:
    """Return the texts that an encoder was trained on, including its base's training texts.

    Nothing is downloaded. If polarity-bench did not train the base, the base's training texts are
    unknown and not included.

    Args:
        model: Name or folder of the encoder.
        access: Where to look for the data.
        task_dir: Folder with the user's own task files, or one such file.
        above: Folders of the encoders that were trained from this encoder.

    Returns:
        The texts, possibly repeated; None if polarity-bench did not train the encoder.

    Raises:
        InputError: If the texts cannot be recreated; the message says why.
    """
    base = base_of(model)
    if base is None:
        return None
    place = Path(model).expanduser().resolve()
    stored = read_train_file(place) or {}
    if place in above:  # possible only if the folder of a base was replaced after training
        raise InputError(
            f"{model}: the recorded base was itself trained from this encoder; train this encoder "
            "again"
        )
    try:
        before = training_texts(base.source, access, task_dir, above=above | {place})
        if not stored["kept"]:  # no epoch improved on the base, so the base itself was published
            return before
        own = _recreate(stored, DataAccess(access.folder, offline=True), task_dir, before or ())
    except (InputError, KeyError) as error:
        why = f"train.json lacks {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"the training texts of {model} cannot be recreated: {why}") from error
    return [*(before or ()), *own]


def known_to(model: str, access: DataAccess, task_dir: Path | None) -> Known | None:
    """Return a function that marks the texts an encoder was trained on.

    Return None if polarity-bench did not train the encoder, or if no training text is known.

    Raises:
        InputError: If polarity-bench trained the encoder, but the texts cannot be recreated.
    """
    if base_of(model) is None:
        return None
    try:
        texts = training_texts(model, access, task_dir)
    except InputError as error:
        raise InputError(
            f"`model` {model}: rows that the encoder has not seen cannot be held out: {error}. "
            "Provide the data and task files of that training, or set `held_out` 0 and "
            "`checkpoint` last, which publishes the last epoch"
        ) from error
    return partial(are_known, trained_on=texts) if texts else None


def are_known(texts: Sequence[str], trained_on: Collection[str]) -> BoolArray:
    """Return a mask of the normalised texts that an encoder knows from its training texts, (n,).

    A text is known if it equals a training text, is part of one, or contains one with at least half
    as many words. Shorter training phrases do not count: a single word reveals little about a whole
    sentence.

    Example:
        >>> are_known(["warm day", "a warm day at sea", "a warm day at the sea"], ["A warm day!"])
        array([ True,  True,  True])
        >>> are_known(["a warm day", "party"], ["warm", "art"])
        array([False, False])
    """
    known = set(map(normalised, trained_on)) - {""}
    in_known, in_ours = _Phrases(known), _Phrases(set(texts) - {""})
    inside = {phrase for text in known for phrase in in_ours.find_in(text)}

    def contains_half(text: str) -> bool:
        return any(2 * len(part.split()) >= len(text.split()) for part in in_known.find_in(text))

    return np.array([text in inside or contains_half(text) for text in texts], dtype=bool)


def _recreate(
    stored: Mapping[str, Any], access: DataAccess, task_dir: Path | None, before: Sequence[str]
) -> Sequence[str]:
    spec = stored["spec"]
    values = stored.get("places", {}) | spec["recipe"]
    kind = chosen(RECIPES, values["name"])
    unused = kind.unused(values)  # older versions accepted and recorded parameters without effect
    recipe = kind.from_dict({key: each for key, each in values.items() if key not in unused})
    (task,) = choose_tasks(load_tasks(task_dir), names=[stored["task"]])
    n_held_out, seed = recipe.hold_out
    with warnings.catch_warnings():
        for category in (InputWarning, ParameterWarning):  # already shown during training
            warnings.simplefilter("ignore", category)
        for known in [partial(are_known, trained_on=before), None] if before else [None]:
            try:
                data = load_training_data(task, access, held_out=n_held_out, seed=seed, known=known)
                inputs = recipe.read(data, access, task_dir)
            except InputError:
                if known is None:
                    raise
                continue  # try again without `known`: older versions held out rows the base knew
            if inputs.digest == spec["inputs"]:
                return inputs.texts
    raise InputError(f"the data of {task.name} or the code has changed since the training")


def seen_rows(rows: Sequence[Row], trained_on: Collection[str]) -> dict[str, BoolArray]:
    """Return masks of the rows that match a training text, for four kinds of match.

    A row is a text or a pair of texts. A pair matches if either text matches.

    Returns:
        A mask for each kind of match, (n,). `exactly`: the text is a training text. `normalised`:
        the text equals a training text after normalisation; exact matches are included. `inside`:
        the text is part of a longer training text. `containing`: the text contains a shorter
        training text.

    Example:
        >>> rows = ["A warm day.", "warm day", "party", ("a party", "a warm day!")]
        >>> seen = seen_rows(rows, ["a warm day", "warm", "art"])
        >>> {way: found.astype(int).tolist() for way, found in seen.items()}["normalised"]
        [1, 0, 0, 1]
    """
    return _rows_with(rows, _seen_texts(rows, trained_on))


def _seen_texts(rows: Iterable[Row], trained_on: Collection[str]) -> dict[str, set[str]]:
    """Return the texts of rows that match a training text, by kind of match (see `seen_rows`)."""
    exact = set(trained_on)
    known = {normalised(text) for text in exact} - {""}
    ours = {text: normalised(text) for row in rows for text in _texts_of(row)}
    in_known, in_ours = _Phrases(known), _Phrases(set(ours.values()) - {""})
    inside = {phrase for text in known for phrase in in_ours.find_in(text) if phrase != text}
    return {
        "exactly": exact & ours.keys(),
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
