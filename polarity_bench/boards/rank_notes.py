"""Ranks of encoders, and the notes on ties and the minimum detectable difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from polarity_bench.boards.records import Row
from polarity_bench.compare.encoder_ranks import Standing, Standings
from polarity_bench.compare.measure import is_comparable
from polarity_bench.compare.unpaired_power import least_unpaired, standard_error
from polarity_bench.render.format import percent
from polarity_bench.render.markdown import escape
from polarity_bench.results.result_files import Result
from polarity_bench.scores import ScoreKey
from polarity_bench.values import count

_NAMED = 5
"""Ties of up to this size are listed in full; larger ties show the first and the last encoder."""
_LISTED = 24
"""Maximum number of ties in a note. If there are more, only the ranks show them."""
_NOT_HERE = "the values per query are missing"
_NO_VALUES = "the results have no values per query of this score"


@dataclass(frozen=True)
class Ranking:
    """Ranks of comparable encoders by a score on one task, or by its mean over several tasks.

    Attributes:
        rows: Rows of the encoders, which have a defined score on every task.
        title: Title of the score.
        under: The reference and k of these encoders; '' if the table has no others.
        results: Results of the encoders on each task, in the order of the rows.
        keys: Key of the score on each task.
        is_mean: Whether only the mean over tasks has a minimum detectable difference.
        standings: Ranks and ties of encoders, computed or stored.
    """

    rows: Sequence[Row]
    title: str
    under: str
    results: Sequence[Sequence[Result]]
    keys: Sequence[ScoreKey]
    is_mean: bool
    standings: Standings

    @cached_property
    def standing(self) -> Standing | None:
        """Ranks and ties by the mean over all tasks; None if they are unknown."""
        return self.standings.of(self.results, self.keys)

    @property
    def ranks(self) -> dict[str, tuple[int, int]]:
        """Best and worst possible rank of each row; empty if ranks are unknown."""
        ranks = self.standing.ranks if self.standing else ()
        return dict(zip((row["row"] for row in self.rows), ranks, strict=False))

    @property
    def by_task(self) -> dict[str, Standing]:
        """Known standing on each task; empty for retrieval tasks."""
        of_tasks = zip(self.results, self.keys, strict=True) if not self.is_mean else ()
        standings = {of[0].task: self.standings.of([of], [key]) for of, key in of_tasks}
        return {task: standing for task, standing in standings.items() if standing}

    @property
    def smallest_unpaired(self) -> dict[str, float]:
        """Minimum detectable difference of unpaired scores, by task.

        Retrieval tasks have a single difference, for the mean over tasks, under the key ''.
        Undefined differences are left out.
        """
        errors = {
            results[0].task: [standard_error(result, key) for result in results]
            for results, key in zip(self.results, self.keys, strict=True)
        }
        if self.is_mean:
            of_each = zip(*errors.values(), strict=True)
            errors = {"": [math.hypot(*of_encoder) / len(errors) for of_encoder in of_each]}
        smallest = {task: least_unpaired(several) for task, several in errors.items()}
        return {task: least for task, least in smallest.items() if not math.isnan(least)}


def rank_text(best: int, worst: int) -> str:
    """Return a rank as text, or a range if tests cannot separate the encoder from others."""
    return str(best) if best == worst else f"{best}\N{EN DASH}{worst}"


def rank_note(ranking: Ranking) -> str:
    """Return the note below a table on ties and the minimum detectable difference."""
    under = f" ({escape(ranking.under)})" if ranking.under else ""
    ranks = f"Ranks by {escape(ranking.title)}{under}"
    if ranking.standing:
        names = [row["name"] for row in ranking.rows]
        return f"{ranks}. {standing_note(ranking.standing, names, ranking.by_task)}"
    is_stored = all(
        is_comparable(key, result)
        for results, key in zip(ranking.results, ranking.keys, strict=True)
        for result in results
    )
    note = f"{ranks} are unknown: {_NOT_HERE if is_stored else _NO_VALUES}."
    smallest_unpaired = ranking.smallest_unpaired
    return f"{note} {unpaired_note(smallest_unpaired)}" if smallest_unpaired else note


def standing_note(
    standing: Standing, names: Sequence[str], by_task: Mapping[str, Standing] | None = None
) -> str:
    """Return a note on the ties of encoders and the minimum detectable difference.

    Args:
        standing: Ranks and ties of the encoders.
        names: Names of the encoders, as plain text.
        by_task: Standing on each task, whose differences are shown instead of that of `standing`.
    """
    shown = by_task or {"": standing}
    smallest = ", ".join(_smallest(task, each) for task, each in shown.items())
    ties = _ties(standing, [escape(name) for name in names])
    return f"{ties} Minimum detectable difference (80 % power): {smallest}."


def unpaired_note(smallest: Mapping[str, float]) -> str:
    """Return a note on minimum detectable differences of unpaired scores.

    Args:
        smallest: Minimum detectable difference of each task, as a fraction.
    """
    differences = [
        " ".join(filter(None, [escape(task), f"{percent(least, 1)} points"]))
        for task, least in smallest.items()
    ]
    return (
        f"Minimum detectable difference of unpaired scores (80 % power): {', '.join(differences)}. "
        "A paired test detects smaller differences."
    )


def _ties(standing: Standing, names: Sequence[str]) -> str:
    ties = [tie for tie in standing.ties if len(tie) > 1]
    if not ties:
        return "All differ significantly."
    if len(ties[0]) == len(names):
        return "No two differ significantly."
    if len(ties) > _LISTED:
        return "Some encoders with overlapping ranks do not differ significantly."
    tied = "; ".join(_tied([names[i] for i in tie]) for tie in ties)
    return f"No significant difference within: {tied}."


def _tied(names: Sequence[str]) -> str:
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{names[0]} to {names[-1]} ({count(len(names), 'encoder')})"


def _smallest(task: str, standing: Standing) -> str:
    least = standing.detectable
    difference = "none" if math.isnan(least) else f"{percent(least, 1)} points"
    return " ".join(filter(None, [escape(task), f"{difference} (n = {standing.n:,})"]))
