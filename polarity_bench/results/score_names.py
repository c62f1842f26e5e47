"""One-line explanations of scores and of other columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from polarity_bench.errors import InputError, nearest
from polarity_bench.metrics.register import METRICS, titled_metrics
from polarity_bench.scores import WEIGHTINGS, ScoreKey, part_title
from polarity_bench.tasks.catalogue import KINDS, load_tasks
from polarity_bench.tasks.types.base import TaskSpec

WORDS = {
    "k": "number of nearest sources that are scored",
    "reference": "the encoder that measures similarity for S, retention and joint",
    "prompt": "text that the encoder reads before each text",
    "epoch": "number of completed epochs; 0 is the base",
    "step": "number of completed optimizer steps; 0 is the base",
    "loss": "training loss, averaged over the steps of an epoch",
    "learning_rate": "learning rate of the last step of an epoch",
    "joint_low": "lower end of joint's 95 % interval",
    "joint_high": "upper end of joint's 95 % interval",
    "+ inf": "score of the same classifier if its proxies are used in prediction",
    "score": "mean and standard deviation over the folds",
    "minus CCE": "mean difference from cross-entropy alone, over the folds that both have",
    "95 %": "interval of the difference from cross-entropy alone, by Student's t",
    "p (Holm)": "p-value of the paired t-test, corrected for all methods on the data set",
    "seen": "share of the sources, or of the tested rows, that occur in the encoder's "
    "training texts, ignoring case and punctuation; empty if the training texts are unknown",
    "queries seen": "share of the queries that are training texts of the encoder, as in `seen`",
    "sources seen": "share of the sources that are training texts of the encoder, as in `seen`",
    "base": "the same score of the base that the encoder was trained from",
    "seen exactly": "share of the texts that are training texts of the encoder, letter for letter",
    "seen normalised": "share of the texts that are training texts, ignoring case and punctuation",
    "seen inside": "share of the texts that are part of a longer training text",
    "seen containing": "share of the texts that contain a shorter training text, even one word",
    "rank": "rank in the table; a range if tests cannot separate the encoders or methods",
    "folds": "number of folds completed so far",
    "s per fold": "mean duration of a fold, in seconds",
}
"""Explanations of columns that are no scores, such as those of histories and of seen texts."""


_SPREAD = {
    "_std": "standard deviation",
    "_ci95_low": "lower end of the 95 % interval",
    "_ci95_high": "upper end of the 95 % interval",
    "_n_undefined": "number of undefined values",
}
_PARTS = {
    "all": "over all pairs pooled",
    "mean": "mean over the subsets",
    "wmean": "mean over the subsets, weighted by their pairs",
    "proxies": "of the same classifier if its proxies are used in prediction",
    "unseen": "on the copy with unseen sources, or over the rows that are not training texts",
    "unseen_base": "score of the base over the rows that are not training texts of the encoder",
}


def titles() -> dict[str, ScoreKey]:
    """Return a mapping from column titles to score keys. The keys have no k."""
    found = {title: ScoreKey(metric.name) for title, metric in titled_metrics().items()}
    for kind in KINDS.values():
        found.update(kind.columns)
    return found


@cache
def _shipped_tasks() -> dict[str, TaskSpec]:
    return dict(load_tasks())


def explain(name: str, groups: Iterable[str] = ()) -> str:
    """Explain a score or column in one line.

    Args:
        name: Title of a column (`P, negation`) or name of a score (`polarity_of_negation_at_16`).
            A prefix for held-out queries and a suffix for the spread (`_std`) are allowed.
        groups: Names of the grouping columns of task files, which are also names of scores.

    Raises:
        InputError: If the name is unknown.

    Example:
        >>> explain("joint_at_4")
        "harmonic mean of P's lift over chance, clipped at 0, and of retention; at k = 4"
    """
    # Files have the prefix `held_out_`, and tables have the prefix `held-out `.
    core = re.sub("^held_out_|^held-out ", "", name.strip())
    also = ["of the held-out queries"] if core != name.strip() else []
    for ending, spread in _SPREAD.items():
        if core.endswith(ending):
            core, also = core.removesuffix(ending), [spread, *also]
            break
    bare, _, weighting = core.rpartition("_")
    if bare in METRICS and weighting in WEIGHTINGS:
        # Names in a training history have no k, so `ScoreKey.parse` would not read the weighting.
        core, also = bare, [WEIGHTINGS[weighting].explanation, *also]
    return "; ".join([_meaning(core, name, groups), *also])


def _meaning(core: str, name: str, groups: Iterable[str]) -> str:
    """Explain a score or column, apart from a suffix for its spread.

    Args:
        core: Title of a column or name of a score, without prefix and suffix.
        name: Full title or name, for messages.
        groups: Names of the grouping columns of task files.
    """
    words, _, part = core.partition(", ")
    known_words = WORDS | {each.name: each.explanation for each in WEIGHTINGS.values()}
    if words in known_words:
        return "; ".join(filter(None, [known_words[words], _PARTS.get(part, "")]))
    by_title = {title.casefold(): key for title, key in titles().items()}
    bare = [words.removesuffix(f" {weighting}") for weighting in WEIGHTINGS]
    known = next((by_title[t.casefold()] for t in bare if t.casefold() in by_title), None)
    key = known or ScoreKey.parse(core)
    meanings = {
        group: f"share of the k nearest sources that have the query's {group}, weighted by rank"
        for group in groups
    }
    for metric in METRICS.values():
        chance = "" if metric.chance is None else f"; chance is {metric.chance:g}"
        meanings[metric.name] = metric.explanation + chance
    if key.metric not in meanings:
        raise InputError(
            f"unknown score or column {name!r}{nearest(name, {*titles(), *meanings, *known_words})}"
        )
    part = part or part_title(key.part)
    weighting = key.weighting if known is None else words.rpartition(" ")[2]
    at_k = f"at k = {key.k}" if key.k else ""
    only = _PARTS.get(part, f"of {part} alone") if part else ""
    shown = WEIGHTINGS[weighting].explanation if weighting in {*WEIGHTINGS} - {"linear"} else ""
    return "; ".join(filter(None, [meanings[key.metric], only, shown, at_k]))


def hint(title: str) -> str:
    """Return a sentence that explains a column, or the task that the column is named after.

    The sentence is empty if the title is unknown.
    """
    task = _shipped_tasks().get(title)
    try:
        explanation = explain(title) if task is None else task.summary
    except InputError:
        return ""
    return explanation[:1].upper() + explanation[1:] + "."
