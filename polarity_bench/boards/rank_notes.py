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

    def standing(self, standings: Standings, tasks: Sequence[str] = ()) -> Standing | None:
        """Compare the encoders by the mean over the given tasks, by default all."""
        chosen = tasks or list(self.results)
        return standings.of([self.results[t] for t in chosen], [self.keys[t] for t in chosen])

    def is_kept(self, standings: Standings) -> bool:
        """Return whether the standing over all tasks is stored for this order of entries."""
        return standings.keeps(list(self.results.values()), list(self.keys.values()))

    @property
    def is_open(self) -> bool:
        """Whether two or more encoders compete and all have a score on every task."""
        scores = [
            result.scores.get(self.keys[task])
            for task, stored in self.results.items()
            for _, result in stored
        ]
        defined = all(score is not None and not math.isnan(score.mean) for score in scores)
        return len(self.entries) > 1 and defined

    @property
    def is_comparable(self) -> bool:
        """Whether results store values per query of the score, on every task."""
        return all(
            is_comparable(self.keys[task], result)
            for task, stored in self.results.items()
            for _, result in stored
        )

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
class KnownRanks:
    """A competition with known ranks.

    Attributes:
        contest: The competition.
        standing: Ranks and ties by the mean over all tasks.
        by_task: Ranks and ties on each task alone, for tables with a column for each task.
    """

    contest: Competition
    standing: Standing
    by_task: Mapping[str, Standing]

    @property
    def ranks(self) -> dict[Entry, str]:
        """The rank of each entry; a range if tests cannot separate it from other entries."""
        ranges = zip(self.contest.entries, self.standing.ranks, strict=True)
        return {
            entry: str(best) if best == worst else f"{best}\N{EN DASH}{worst}"
            for entry, (best, worst) in ranges
        }


@dataclass(frozen=True)
class UnknownRanks:
    """A competition without ranks, because values per query are missing.

    Attributes:
        contest: The competition.
        smallest: The minimum detectable difference of unpaired scores, a fraction, by the mean
            over all tasks or for each task.
    """

    contest: Competition
    smallest: Mapping[str, float]


def tell(
    contest: Competition, standings: Standings, by_task: bool = False
) -> KnownRanks | UnknownRanks | None:
    """Rank the encoders of a competition.

    Returns:
        Known ranks if values per query are available or the ranks are stored, else unknown ranks.
        None if fewer than two encoders compete, or one has no score.
    """
    standing = contest.standing(standings)
    if standing is None:
        return (
            UnknownRanks(contest, contest.smallest_unpaired(by_task)) if contest.is_open else None
        )
    found = {task: contest.standing(standings, [task]) for task in contest.results if by_task}
    return KnownRanks(contest, standing, {task: each for task, each in found.items() if each})


def rank_notes(told: Sequence[KnownRanks | UnknownRanks]) -> list[str]:
    """Return the notes below a table: which encoders tie, and which differences are detectable."""
    return [_note(each) if isinstance(each, KnownRanks) else _note_of_untold(each) for each in told]


def _note_of_untold(untold: UnknownRanks) -> str:
    contest = untold.contest
    under = f" ({escape(contest.under)})" if contest.under else ""
    why = "the values per query are missing" if contest.is_comparable else _NO_VALUES
    said = f"Ranks by {escape(contest.measure)}{under} are unknown: {why}."
    return f"{said} {unpaired_note(untold.smallest)}" if untold.smallest else said


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


def _note(told: KnownRanks) -> str:
    contest, standing = told.contest, told.standing
    under = f" ({escape(contest.under)})" if contest.under else ""
    ties = [tie for tie in standing.ties if len(tie) > 1]
    said = [f"Ranks by {escape(contest.measure)}{under}."]
    if not ties:
        said.append("All differ significantly.")
    elif len(ties[0]) == len(contest.names):
        said.append("No two differ significantly.")
    elif len(ties) > _LISTED:
        said.append("Some that share a rank do not differ significantly.")
    else:
        said.append(
            f"No significant difference within: {'; '.join(_tied(tie, contest) for tie in ties)}."
        )
    shown = told.by_task or {"": standing}
    smallest = [_smallest(task, each) for task, each in shown.items()]
    said.append(f"Minimum detectable difference (80 % power): {', '.join(smallest)}.")
    return " ".join(said)


def _tied(tie: Sequence[int], contest: Competition) -> str:
    names = [escape(contest.names[i]) for i in tie]
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{names[0]} to {names[-1]} ({count(len(names), 'encoder')})"


def _smallest(task: str, standing: Standing) -> str:
    least = standing.detectable
    said = "none" if math.isnan(least) else f"{percent(least, 1)} points"
    return " ".join(filter(None, [escape(task), f"{said} (n = {standing.n:,})"]))
