"""Seen in training: how many of the texts that an encoder is judged by it was trained on.

A run keeps none of its texts: they are made again from what its folder says (task, recipe, seed)
and the data, and must have the digest of what it was trained on.

What stands in what is told by whole words, normalised as by `data.normalised`: "art" does not stand
in "a party", though it is a string of it, by which `data.relatives` would rather bar too much.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.kinds import choose_tasks, load_tasks
from polarity_bench.training.data import Known, load_training_data, normalised
from polarity_bench.training.fields import ParameterWarning, chosen
from polarity_bench.training.folder import base_of, read_train_file
from polarity_bench.training.recipes import RECIPES
from polarity_bench.types import BoolArray

_HEAD = 3


def training_texts(
    model: str,
    access: DataAccess,
    task_dir: Path | None = None,
    *,
    above: frozenset[Path] = frozenset(),
) -> list[str] | None:
    """Return what an encoder was trained on here, and its base before it.

    Nothing is downloaded for it. What a base from elsewhere was trained on is not known, and not
    among them.

    Args:
        model: What it is loaded by.
        access: Where the data may lie.
        task_dir: Folder with task files of one's own, or one such file.
        above: Folders of what was trained from this one.

    Returns:
        The texts, some more than once; None if it was not trained here.

    Raises:
        InputError: If they cannot be made again; says why.
    """
    base = base_of(model)
    if base is None:
        return None
    place = Path(model).expanduser().resolve()
    stored = read_train_file(place) or {}
    if place in above:  # a base's folder that was replaced since
        raise InputError(f"{model} is said to be trained from what was trained from it")
    try:
        before = training_texts(base.source, access, task_dir, above=above | {place})
        if not stored["kept"]:  # no epoch was better, and the base is what was published
            return before
        own = _made_again(stored, DataAccess(access.folder, offline=True), task_dir, before or ())
    except (InputError, KeyError) as error:
        why = f"it does not say {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"what {model} was trained on cannot be made again: {why}") from error
    return [*(before or ()), *own]


def known_to(model: str, access: DataAccess, task_dir: Path | None) -> Known | None:
    """Return what says which texts an encoder was trained on; None if nothing is known of that.

    Raises:
        InputError: If it was trained here, and the texts cannot be made again.
    """
    if base_of(model) is None:
        return None
    try:
        texts = training_texts(model, access, task_dir)
    except InputError as error:
        raise InputError(
            f"`model` {model}: which rows it has not seen, to be held out, is unknown: {error}. "
            "Provide that data and those task files, or say `held_out` 0 and `checkpoint` last, "
            "which publishes the last epoch"
        ) from error
    return partial(are_known, trained_on=texts) if texts else None


def are_known(texts: Sequence[str], trained_on: Collection[str]) -> BoolArray:
    """Say which texts, normalised, an encoder knows that was trained on others, (n,).

    It knows a text that is one of those, stands inside one, or holds one of at least half as many
    words: a training phrase of one word tells little of a sentence.

    Example:
        >>> are_known(["warm day", "a warm day at sea", "a warm day at the sea"], ["A warm day!"])
        array([ True,  True,  True])
        >>> are_known(["a warm day", "party"], ["warm", "art"])
        array([False, False])
    """
    known = set(map(normalised, trained_on)) - {""}
    in_known, in_ours = _Phrases(known), _Phrases(set(texts) - {""})
    inside = {phrase for text in known for phrase in in_ours.within(text)}

    def has_most(text: str) -> bool:
        return any(2 * len(part.split()) >= len(text.split()) for part in in_known.within(text))

    return np.array([text in inside or has_most(text) for text in texts], dtype=bool)


def _made_again(
    stored: Mapping[str, Any], access: DataAccess, task_dir: Path | None, before: Sequence[str]
) -> Sequence[str]:
    spec = stored["spec"]
    values = stored.get("places", {}) | spec["recipe"]
    recipe = chosen(RECIPES, values["name"]).from_dict(values)
    (task,) = choose_tasks(load_tasks(task_dir), names=[stored["task"]])
    n_held_out, seed = recipe.hold_out
    with warnings.catch_warnings():
        for category in (InputWarning, ParameterWarning):  # as was said when it was trained
            warnings.simplefilter("ignore", category)
        for known in [partial(are_known, trained_on=before), None] if before else [None]:
            try:
                data = load_training_data(task, access, held_out=n_held_out, seed=seed, known=known)
                inputs = recipe.read(data, access, task_dir)
            except InputError:
                if known is None:
                    raise
                continue  # an older version held out rows that the base knew
            if inputs.digest == spec["inputs"]:
                return inputs.texts
    raise InputError(f"the data of {task.name}, or the code, is no longer what it was")


def count_seen(texts: Sequence[str], trained_on: Collection[str]) -> dict[str, int]:
    """Count the texts that stand among training texts, in each of four ways.

    Returns:
        How many are one `exactly`; are one once both are `normalised`, these among them; stand
        `inside` a longer one; and are `containing` a shorter one.

    Example:
        >>> count_seen(["A warm day.", "warm day", "party"], ["a warm day", "warm", "art"])
        {'exactly': 0, 'normalised': 1, 'inside': 1, 'containing': 2}
    """
    exact = set(trained_on)
    known = {normalised(text) for text in exact} - {""}
    ours = list(map(normalised, texts))
    in_known, in_ours = _Phrases(known), _Phrases(set(ours) - {""})
    inside = {phrase for text in known for phrase in in_ours.within(text) if phrase != text}
    equal = [text in exact or ours[row] in known for row, text in enumerate(texts)]
    return {
        "exactly": sum(text in exact for text in texts),
        "normalised": sum(equal),
        "inside": sum(text in inside for text in ours),
        "containing": sum(bool(in_known.within(text) - {text}) for text in ours),
    }


class _Phrases:
    """Normalised texts, to be found in longer ones; by their first words, how long they can be."""

    def __init__(self, texts: Collection[str]) -> None:
        self._texts = frozenset(texts)
        self._lengths: dict[str, set[int]] = {}
        for text in self._texts:
            words = text.split()
            self._lengths.setdefault(" ".join(words[:_HEAD]), set()).add(len(words))

    def within(self, text: str) -> set[str]:
        """Return those that stand in a normalised text as whole words; it may itself be one."""
        words = text.split()
        heads = (
            (start, self._lengths.get(" ".join(words[start : start + size]), ()))
            for start in range(len(words))
            for size in range(1, _HEAD + 1)
        )
        phrases = {" ".join(words[start : start + n]) for start, lengths in heads for n in lengths}
        return phrases & self._texts
