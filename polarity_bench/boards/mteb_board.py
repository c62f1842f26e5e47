"""Board of mteb's results: mean scores over tasks, with ranks as ranges.

The results are anyone's, so there are no values per query. Tests pair the scores of two encoders by
task and therefore generalise to other tasks of the same kind, not to other queries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

from polarity_bench.boards.rank_notes import rank_text, standing_note
from polarity_bench.compare.encoder_ranks import standing_of
from polarity_bench.errors import InputError
from polarity_bench.metrics.pairwise import LEVEL, pairwise_t
from polarity_bench.metrics.statistics import N_PAIRED_SAMPLES, SEED
from polarity_bench.render.format import percent
from polarity_bench.render.markdown import escape
from polarity_bench.render.table import Board, Column, Table
from polarity_bench.values import BoolArray, FloatArray, count

if TYPE_CHECKING:
    from pandas import DataFrame

_LEAST_TASKS = 3
_NOTE = (
    "The mean is taken over the tasks, with its 95 % interval over tasks (Student's t). Ranks are "
    "ranges: encoders are compared by paired t-tests over the tasks, corrected by Holm's method "
    "for all pairs, so the probability of any false difference is at most 5 %. The best rank is 1 "
    "plus the number of significantly better encoders, and the worst is n minus the number of "
    "significantly worse ones. The tests assume that the tasks are independent draws from the "
    "tasks of interest."
)


def mteb_board(
    scores: DataFrame, title: str = "", *, is_selected: bool = False, absent: Sequence[str] = ()
) -> Board:
    """Build a board of mteb's results.

    Only encoders with a score on every ranked task are ranked. The other encoders are listed in
    a table of their own.

    Args:
        scores: Main scores, with a row for each encoder and a column for each task; NaN if missing.
        title: Title of the board.
        is_selected: Whether the user selected the tasks. Otherwise, tasks that few encoders have
            are left out, see `_shared_tasks`.
        absent: Selected tasks without a column, because no encoder has a score.

    Raises:
        InputError: If there are fewer than two encoders with all tasks, or fewer than three tasks.
    """
    ranked = scores if is_selected else scores[_shared_tasks(scores)]
    complete, incomplete = ranked.dropna(), ranked[ranked.isna().any(axis=1)]
    if len(complete) < 2 or ranked.shape[1] < _LEAST_TASKS:
        rarest = [*absent, *ranked.notna().sum().sort_values(kind="stable").index][:3]
        known = scores.notna().to_numpy(int)
        most = int(np.triu(known @ known.T, 1).max(initial=0))
        raise InputError(
            "ranks need two encoders with scores on the same three tasks or more, got "
            f"{count(len(complete), 'encoder')} with all {count(ranked.shape[1], 'task')}; of "
            f"{count(len(scores), 'encoder')}, no two share more than {count(most, 'task')}; the "
            f"tasks with the fewest encoders are {', '.join(rarest)}; select others with `tasks`"
        )
    values = complete.to_numpy()
    order = np.lexsort((complete.index.to_numpy(str), -values.mean(axis=1)))
    complete, values = complete.iloc[order], values[order]
    notes = [_NOTE]
    if dropped := [str(task) for task in scores if task not in ranked]:
        notes.append(
            f"Left out, because too few encoders have them: {', '.join(map(escape, dropped))}."
        )
    if absent:
        notes.append(
            f"Left out, because no encoder has all their splits and subsets: "
            f"{', '.join(map(escape, absent))}."
        )
    tables = [_ranking(complete), _by_task("Scores by task", complete)]
    if len(incomplete):
        notes.append(
            f"Without a rank, because a task is missing: {count(len(incomplete), 'encoder')}."
        )
        tables.append(_by_task("Encoders without a rank, because tasks are missing", incomplete))
    title = title or "Ranks of mteb's results"
    return Board(title, "", tables, notes, finding=_finding(complete))


def _shared_tasks(scores: DataFrame) -> list[str]:
    """Return the tasks to rank by: those with the most cells in a table without gaps.

    Tasks are added in the order of their number of encoders. Of the resulting sets with two
    complete encoders or more, the one with the largest product of tasks and complete encoders is
    chosen.
    """
    known = scores.notna()
    tasks = known.sum().sort_values(ascending=False, kind="stable").index
    n_complete = known[tasks].to_numpy().cumprod(axis=1).sum(axis=0)
    n_cells = n_complete * np.arange(1, len(tasks) + 1) * (n_complete > 1)
    n_tasks = 1 + int(np.argmax(n_cells)) if n_cells.any() else len(tasks)
    chosen = {*tasks[:n_tasks]}
    return [str(task) for task in scores if task in chosen]


def _ranking(complete: DataFrame) -> Table:
    values = complete.to_numpy()
    found, n_tasks = pairwise_t(values), values.shape[1]
    standing, names = standing_of(found, n_tasks), [*map(str, complete.index)]
    reach = student.ppf(0.975, n_tasks - 1) * values.std(axis=1, ddof=1) / math.sqrt(n_tasks)
    ends = [*zip(found.scores - reach, found.scores + reach, strict=True)]
    mean = Column("mean", found.scores.tolist(), ends)
    heads = [("rank", [rank_text(*ends) for ends in standing.ranks]), ("encoder", names)]
    notes = [standing_note(standing, names)]
    return Table(f"Mean over {count(n_tasks, 'task')}", heads, [mean], notes=notes)


def _by_task(heading: str, scores: DataFrame) -> Table:
    columns = [Column(str(task), scores[task].tolist()) for task in scores]
    return Table(heading, [("encoder", [*map(str, scores.index)])], columns, is_folded=True)


def _finding(complete: DataFrame) -> str:
    """Describe how many pairs a paired bootstrap over tasks can separate, without correction.

    Args:
        complete: Scores of the ranked encoders, best first.
    """
    values = complete.to_numpy()
    n_encoders, n_tasks = values.shape
    apart = _separated(values)
    n_adjacent = int(np.diagonal(apart, 1).sum())
    n_pairs = n_encoders * (n_encoders - 1) // 2
    n_apart = int(np.triu(apart, 1).sum())
    n_tied = n_encoders - 1 - int(apart[0].sum())
    return (
        f"{count(n_encoders, 'encoder')}, {count(n_tasks, 'task')}. A paired bootstrap over the "
        f"tasks ({N_PAIRED_SAMPLES:,} samples, 5 %, not corrected for the number of pairs) cannot "
        f"separate {n_encoders - 1 - n_adjacent} of {n_encoders - 1} pairs of neighbours in the "
        f"ranking. It separates {n_apart:,} of {n_pairs:,} pairs "
        f"({percent(n_apart / n_pairs, 1)} %), and {count(n_tied, 'encoder')} cannot be separated "
        "from the first."
    )


def _separated(values: FloatArray) -> BoolArray:
    """Return the pairs whose difference has one sign in at least 97.5 % of the samples, (n, n).

    Args:
        values: Scores, (n, t).
    """
    n_tasks = values.shape[1]
    generator = np.random.default_rng(SEED)
    counts = generator.multinomial(n_tasks, np.full(n_tasks, 1 / n_tasks), N_PAIRED_SAMPLES)
    samples = values @ (counts / n_tasks).T
    is_above = np.array([(own > samples).mean(axis=1) for own in samples]) >= 1 - LEVEL / 2
    return np.asarray(is_above | is_above.T)
