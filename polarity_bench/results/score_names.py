"""One-line explanations of scores and of other columns, and the notes below boards."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from polarity_bench.errors import InputError, nearest
from polarity_bench.metrics.register import METRICS, titled_metrics
from polarity_bench.scores import WEIGHTINGS, ScoreKey
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

NOTES = {
    "bold": "Bold: the best in its column.",
    "scores": "P: polarity score. S: semantic similarity score under the reference encoder. "
    "retention: the share of the reference's own S beyond chance that is kept; 100 if the encoder "
    "is its own reference. joint: harmonic mean of P's lift over chance and of retention, clipped "
    "at 0. Clipping raises the joint scores of encoders at chance, so read joint with its "
    "interval. [low, high] is the 95 % interval over the queries. Means of joint over tasks are "
    "taken before clipping. The interval of a mean adds the intervals of the tasks in quadrature, "
    "because the tasks are independent.",
    "front": "front: how much of the best possible trade-off of P and S a row reaches, in "
    "percent, with its 95 % interval; 100 is retrieval that knows the labels. Means are taken as "
    "for joint.",
    "methods": "A row with several seeds is their mean, with the sample standard deviation over "
    "the seeds in a separate column, and with a 95 % interval for other seeds and other queries. "
    "A strength marked 'chosen here' is the best on these test queries, by the mean over the "
    "seeds, so the row's scores are slightly too high: the row has no rank and is never bold, "
    "except for front, which uses all strengths. Each single run is on the page and in "
    "`table.csv`.",
    "order": "Order: rows with a retention of at least {} % first, then all others, each by P.",
    "chosen": "Bold: the best of the rows that compete. Rows whose strength was 'chosen here', on "
    "these queries, compete only for front.",
    "keep": "Rows are sorted by P. Rows with a retention of at least {} % come first, and a "
    "strength is chosen among those that reach it.",
    "gains": "A gain is the score of the row minus that of its reference, in points, so a loss is "
    "below 0. [low, high] is its 95 % interval, from a paired bootstrap over the queries.",
    "bounds": "Random retrieval, and retrieval with gold labels (the k nearest sources of the "
    "query's label under the reference), are bounds and do not compete.",
    "random": "Random retrieval is a bound and does not compete.",
    "rivals": "Rows compete only at the same k. For S, retention and joint, they must also have "
    "the same reference, which must be another encoder.",
    "no_rivals": "No two encoders here share such a reference, so there are no ranks by {}. To "
    'rank the encoders by P, set `sort = "P"` in `board.toml`.',
    "opposed": "An encoder at a strength below 0 retrieves texts of the opposite polarity, so its "
    "P should be low. It has no rank and does not compete.",
    "no_means": "There is no table of means, because no encoder has every task at one k and one "
    "reference.",
    "plain_sorted": "Tables of tasks without retrieval are sorted by their own mean.",
    "unseen": "If the sources of a task come from its training file, as in the papers, a trained "
    "encoder has seen them. The unseen task has sources from elsewhere. There are fewer of them, "
    "which changes P and S of every encoder, so compare the changes within a column, and with the "
    "change of the base. seen: share of the sources that were training texts, ignoring letter "
    "case and punctuation; - if the training texts are unknown. Means leave out the unseen task.",
    "seen": "Rows seen in training: seen is the share of the test rows that were training texts "
    "of the encoder, ignoring letter case, punctuation and spaces; - if the training texts are "
    "unknown. A pair counts as seen if either of its texts was a training text. Unseen is the "
    "score over all other test rows. The classifier is the same, so it was also fitted to seen "
    "rows. Compare the score with that of the encoder's base over the same rows, because these "
    "rows may be harder or have other class frequencies. No mean is taken over unseen rows.",
    "seen_parts": "queries seen, sources seen: the share of the texts that were training texts of "
    "the encoder, ignoring letter case and punctuation; - if the training texts are unknown. "
    "Seen texts raise the scores of a row, so compare it only with rows that saw as much.",
    "ranks": "Ranks are ranges. They come from paired tests over the queries, corrected by Holm's "
    "method for all pairs of one ranking: the encoders of one table at one k and reference. In "
    "each ranking, the probability of any false difference is at most 5 %. On a board with several "
    "rankings, the probability is higher. The correction grows with the number of pairs: two "
    "encoders with the same scores may share a rank on one board and differ on another "
    "(docs/statistics.md).",
    "published": "Rows in italics are published numbers, which are not ranked.",
    "spread": "±: standard deviation, as the source prints it.",
    "twins": "In brackets: the same score of an encoder measured here, minus the published "
    "number. Compared pairs:",
    "sweep": "Rows in italics (untrained bases, other recipes and published numbers) do not "
    "compete. Among the other rows, the two best of each column are bold, including ties after "
    "rounding.",
    "minus_published": "After each published number, the difference is shown: our training runs "
    "with the same parameters of the loss minus the published number. Other settings may differ.",
}
"""Notes below boards, in markdown."""

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
    part = part or key.part or ""
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
