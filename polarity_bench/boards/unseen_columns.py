"""Contamination tables: scores over unseen texts, and the share of texts seen in training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from polarity_bench.metrics.register import metric_of
from polarity_bench.render.format import percent
from polarity_bench.render.table import Column, Table
from polarity_bench.results.result_files import Result
from polarity_bench.tasks.catalogue import KINDS

_WAYS = ("exactly", "normalised", "inside", "containing")


def tasks_with_seen_rows(results: Iterable[Result]) -> list[str]:
    """Return the tasks with test rows that an encoder saw, or may have seen.

    Of retrieval tasks, only those with seen queries are returned.
    """
    return sorted({r.task for r in results if seen_parts(r).get(tested_part(r.kind), 0) != 0})


def unseen_table(heads: Sequence[tuple[str, Sequence[str]]], results: Sequence[Result]) -> Table:
    """Return a table of main scores over all test rows and over unseen test rows.

    A row is unseen if it matches no training text of the encoder.

    Args:
        heads: Titles and cells of the leading columns.
        results: Results of one task type and protocol, one for each row of the table.
    """
    kind, protocol = KINDS[results[0].kind], results[0].key.protocol_label
    measure = kind.measure or results[0].main_score.metric
    metric, parts = metric_of(results[0].main_score.metric), ("unseen", "unseen_base")
    own, of_base = ([unseen_score(result, part) for result in results] for part in parts)
    columns = [
        Column.of(
            measure,
            [result.main for result in results],
            stored=[result.scores[result.main_score].mean for result in results],
        ),
        Column("seen", list(map(_share_tested, results))),
        Column(f"{measure}, unseen", metric.shown_values(own), stored=own),
        Column("base, unseen", metric.shown_values(of_base), stored=of_base),
    ]
    of = f"{tested_part(results[0].kind)} seen in training"
    return Table(f"{kind.heading or 'Retrieval'}, {protocol}: {of}", heads, columns)


def unseen_score(result: Result, part: str, k: int | None = None) -> float | None:
    """Return the main score over unseen rows or queries; None if it is unknown.

    Args:
        result: The result.
        part: `unseen` for the encoder's score, `unseen_base` for the score of its base.
        k: If this is not the k of the main score, the score is unknown. None accepts any k.
    """
    if k not in (None, result.main_score.k):
        return None
    if part == "unseen" and _share_tested(result) == 0:
        return result.scores[result.main_score].mean
    stored = (result.unseen or {}).get(str(replace(result.main_score, part=part)))
    return stored["score"] if stored else None


def _share_tested(result: Result) -> float | None:
    """Return the share of test rows seen in training; None if the training data is unknown."""
    return seen_share(result, tested_part(result.kind))


def seen_in_training(results: Sequence[Result]) -> Table:
    """Return the table of the shares of rows seen in training, by part and kind of match.

    Args:
        results: Results of one encoder, one for each task.
    """
    rows = [(result, part) for result in results for part in result.seen or _sizes(result)]
    heads = [
        ("task", [result.task for result, _ in rows]),
        ("of", [_size_text(result, part) for result, part in rows]),
    ]
    columns = [Column(f"seen {way}", [_share(r, part, way) for r, part in rows]) for way in _WAYS]
    return Table("", heads, columns)


def seen_share(result: Result, part: str = "sources") -> float | None:
    """Return the share of a part seen in training; None if the training data is unknown.

    The part `rows` is the test rows of a non-retrieval task. Without a test split, all rows are
    test rows.
    """
    if part == "rows":
        part = "test" if "test" in (result.seen or ()) else "all"
    return _share(result, part, "normalised")


def tested_part(kind: str) -> str:
    """Return the part of a task type's data that is tested."""
    return parts_of(kind)[0]


def parts_of(kind: str) -> tuple[str, ...]:
    """Return the parts of a task type's data whose share seen in training is shown."""
    return ("queries", "sources") if KINDS[kind].retrieves else ("rows",)


def seen_parts(result: Result) -> dict[str, float | None]:
    """Return the share of each part that the encoder saw in training, without shares of 0.

    A share is None if the encoder was trained from a recorded base on unknown texts. Without a
    record of a training, no part is returned.
    """
    if result.seen is None and not result.training:
        return {}
    shares = {part: seen_share(result, part) for part in parts_of(result.kind)}
    return {part: share for part, share in shares.items() if share != 0}


def seen_words(shares: Mapping[str, float | None]) -> str:
    """Return the shares of `seen_parts` in words; '' without shares."""
    if None in shares.values():
        return "training texts unknown"
    words = (f"{percent(share)} % of the {part}" for part, share in shares.items())
    return f"{' and '.join(words)} seen in training" if shares else ""


def _sizes(result: Result) -> Mapping[str, int]:
    """Return the number of rows by part; counts of retrieval tasks have further numbers."""
    is_part = parts_of(result.kind) if KINDS[result.kind].retrieves else result.counts
    return {part: n for part, n in result.counts.items() if part in is_part}


def _size_text(result: Result, part: str) -> str:
    """Return the size of a part of the data as text, such as `1,821 sources`."""
    n = f"{_n_rows(result, part):,}"
    if KINDS[result.kind].retrieves:
        return f"{n} {part}"
    return f"{n} rows" if part == "all" else f"{n} rows of {part}"


def _share(result: Result, part: str, way: str) -> float | None:
    """Return the share of a part's rows seen in training; None if the training data is unknown."""
    seen = (result.seen or {}).get(part)
    return seen[way] / _n_rows(result, part) if seen else None


def _n_rows(result: Result, part: str) -> int:
    """Return the number of rows of a part; the part `all` is the sum of all subsets."""
    sizes = _sizes(result)
    return sizes[part] if part in sizes else sum(sizes.values())
