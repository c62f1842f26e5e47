"""Notes on ranks below a table: rank ranges, ties and the minimum detectable difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polarity_bench.compare.encoder_ranks import Standing, Standings
from polarity_bench.compare.measure import is_comparable
from polarity_bench.compare.power import least_unpaired, standard_error
from polarity_bench.render.format import percent
from polarity_bench.render.markdown import escape
from polarity_bench.results.comparability import Entry, count
from polarity_bench.results.result_files import Stored
from polarity_bench.scores import ScoreKey

_NAMED = 5
"""A tie of up to this many encoders names all; a larger tie names the first and the last."""
_LISTED = 24
"""The greatest number of ties that a note lists; with more, only the ranks show them."""
_NOT_HERE = "the values per query are missing"
_NO_VALUES = "results hold no value per query of this score"


@dataclass(frozen=True)
class Competition:
    """Encoders that compete by a score, on one task or on the mean over several tasks.

    Attributes:
        measure: Name of the score, such as `P` or `accuracy`.
        under: The reference and k that the encoders share; '' if all on the board share them.
        entries: The competing entries.
        names: Names of the entries.
        results: For each task, the result of each entry, in the order of the entries.
        keys: For each task, the key of the score.
    """

    measure: str
    under: str
    entries: Sequence[Entry]
    names: Sequence[str]
    results: Mapping[str, Sequence[Stored]]
    keys: Mapping[str, ScoreKey]

    def standing(self, standings: Standings, tasks: Sequence[str]) -> Standing | None:
        """Compare the encoders by the mean over the given tasks."""
        return standings.of([self.results[t] for t in tasks], [self.keys[t] for t in tasks])

    def is_kept(self, standings: Standings) -> bool:
        """Return whether the standing over all tasks is stored for this order of entries."""
        return standings.keeps(list(self.results.values()), list(self.keys.values()))

    def smallest_unpaired(self, by_task: bool) -> dict[str, float]:
        """Return the minimum detectable difference of unpaired scores, without undefined ones.

        Args:
            by_task: Whether to return it for each task, or for the mean, under the key ''.
        """
        errors = {
            task: [standard_error(result, self.keys[task]) for _, result in stored]
            for task, stored in self.results.items()
        }
        if not by_task:
            n_tasks = len(errors)
            of_each = zip(*errors.values(), strict=True)
            errors = {"": [math.hypot(*own) / n_tasks for own in of_each]}
        found = {task: least_unpaired(several) for task, several in errors.items()}
        return {task: least for task, least in found.items() if not math.isnan(least)}


@dataclass(frozen=True)
class Ranking:
    """Ranks of the encoders of a competition, or the reason why they are unknown.

    Attributes:
        contest: The competition.
        standing: Ranks and ties by the mean over all tasks; None if values per query are missing.
        by_task: Ranks and ties on each task alone, for tables with a column for each task.
        smallest: If the ranks are unknown, the minimum detectable difference of unpaired scores, a
            fraction, by the mean over all tasks or for each task.
    """

    contest: Competition
    standing: Standing | None
    by_task: Mapping[str, Standing]
    smallest: Mapping[str, float]

    @property
    def ranks(self) -> dict[Entry, tuple[int, int]]:
        """The best and the worst rank of each entry; empty if ranks are unknown."""
        ranks = self.standing.ranks if self.standing else ()
        return dict(zip(self.contest.entries, ranks, strict=False))


def rank_encoders(contest: Competition, standings: Standings, by_task: bool = False) -> Ranking:
    """Rank the encoders of a competition, if values per query are available or ranks are stored.

    Args:
        contest: At least two encoders, with a defined score on every task.
        standings: The known ranks and ties of encoders.
        by_task: Whether to rank the encoders on each task, too.
    """
    standing = contest.standing(standings, list(contest.results))
    if standing is None:
        return Ranking(contest, None, {}, contest.smallest_unpaired(by_task))
    found = {task: contest.standing(standings, [task]) for task in contest.results if by_task}
    return Ranking(contest, standing, {task: each for task, each in found.items() if each}, {})


def rank_text(best: int, worst: int) -> str:
    """Return a rank, or a range if tests cannot separate the encoder from others."""
    return str(best) if best == worst else f"{best}\N{EN DASH}{worst}"


def rank_note(ranking: Ranking) -> str:
    """Return the note below a table: which encoders tie, and which differences are detectable."""
    contest = ranking.contest
    under = f" ({escape(contest.under)})" if contest.under else ""
    ranks = f"Ranks by {escape(contest.measure)}{under}"
    if ranking.standing is not None:
        shown = ranking.by_task or {"": ranking.standing}
        smallest = ", ".join(_smallest(task, each) for task, each in shown.items())
        detectable = f"Minimum detectable difference (80 % power): {smallest}."
        return f"{ranks}. {_ties(ranking.standing, contest)} {detectable}"
    is_stored = all(
        is_comparable(contest.keys[task], result)
        for task, stored in contest.results.items()
        for _, result in stored
    )
    note = f"{ranks} are unknown: {_NOT_HERE if is_stored else _NO_VALUES}."
    return f"{note} {unpaired_note(ranking.smallest)}" if ranking.smallest else note


def unpaired_note(smallest: Mapping[str, float]) -> str:
    """Return a note on the minimum detectable difference of unpaired scores, by task."""
    said = [
        " ".join(filter(None, [escape(task), f"{percent(least, 1)} points"]))
        for task, least in smallest.items()
    ]
    return (
        f"Minimum detectable difference of unpaired scores (80 % power): {', '.join(said)}. "
        "A paired test detects smaller differences."
    )


def _ties(standing: Standing, contest: Competition) -> str:
    ties = [tie for tie in standing.ties if len(tie) > 1]
    if not ties:
        return "All differ significantly."
    if len(ties[0]) == len(contest.names):
        return "No two differ significantly."
    if len(ties) > _LISTED:
        return "Some that share a rank do not differ significantly."
    return f"No significant difference within: {'; '.join(_tied(tie, contest) for tie in ties)}."


def _tied(tie: Sequence[int], contest: Competition) -> str:
    names = [escape(contest.names[i]) for i in tie]
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{names[0]} to {names[-1]} ({count(len(names), 'encoder')})"


def _smallest(task: str, standing: Standing) -> str:
    least = standing.detectable
    said = "none" if math.isnan(least) else f"{percent(least, 1)} points"
    return " ".join(filter(None, [escape(task), f"{said} (n = {standing.n:,})"]))
