"""Texts of the notes below boards and tables, in markdown."""

from __future__ import annotations

NOTES = {
    "bold": "Bold: the best in its column, of the rows that compete if a note says which.",
    "scores": "P (polarity score): the share of the k nearest sources that have the query's "
    "label. S (semantic similarity score): the mean cosine of the query and these sources under "
    "the reference encoder. retention: the share of the reference's own S beyond chance that is "
    "kept; 100 if the encoder is its own reference. joint: harmonic mean of P's lift over chance "
    "and of retention, clipped at 0. Clipping raises the joint scores of encoders at chance, so "
    "read joint with its interval. [low, high] is the 95 % interval over the queries. Means of "
    "joint over tasks are taken before clipping. The interval of a mean adds the intervals of the "
    "tasks in quadrature, because the tasks are independent.",
    "front": "front: how much of the best possible trade-off of P and S a row reaches, in "
    "percent, with its 95 % interval; 100 is retrieval that knows the labels. Means are taken as "
    "for joint.",
    "methods": "A row with several seeds is their mean, with the sample standard deviation over "
    "the seeds in a separate column, and with a 95 % interval for other seeds and other queries. "
    "A strength marked 'chosen here' is the best on these test queries, by the mean over the "
    "seeds, so the row's scores are slightly too high: the row has no rank and is never bold, "
    "except for front, which uses all strengths. Each single run is on the page and in "
    "`table.csv`.",
    "order": "Order: rows with a retention of at least {} % first, then all others, each by P. "
    "A strength is chosen among those with this retention, if there are any.",
    "chosen": "Bold: the best of the rows that compete. Rows whose strength was 'chosen here', on "
    "these queries, compete only for front.",
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
    "of the encoder, ignoring letter case and punctuation; - if the training texts are "
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
