"""Every cell of the committed boards: `python tests/cells.py` writes `golden/cells.csv.gz`.

Each line is a number on a board. Numbers of one encoder on one task are identified by task,
encoder, digests, and the score's metric, k, weighting and part. All other numbers of tables (means,
differences, p-values) have the role `table` and are identified by their position. `test_cells.py`
compares today's boards with the file: each cell must exist with its number, or be listed with a
reason in `golden/cells_excused.csv`. Write the file again only after an intended change, and then
empty that list.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from statistics import stdev

from polarity_bench.boards.board import find_board, sections_of
from polarity_bench.boards.board_folder import OpenBoard, open_board
from polarity_bench.boards.records import main_key
from polarity_bench.cross_validation.fold_results import read_experiments
from polarity_bench.cross_validation.records import fold_records, published_folds
from polarity_bench.metrics.register import titled_metrics
from polarity_bench.results.comparability import cells_of
from polarity_bench.results.frame import Record
from polarity_bench.results.means import score_of
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.sweeps.records import TITLES

GOLDEN = Path(__file__).parent / "golden"
FILE = GOLDEN / "cells.csv.gz"
EXCUSED = GOLDEN / "cells_excused.csv"
LEADERBOARDS = Path(__file__).parent.parent / "leaderboards"


@dataclass(frozen=True, order=True)
class Key:
    """Unique key of a cell.

    Attributes:
        role: `measured`, `published`, `curve`, `oracle`, `random`, or `table` for cells identified
            by their position: `task` is the table, `encoder` the row, `metric` the column.
        digest: Digest of the encoder; for a published number, of its twin, if it has one.
        reference: Digest of the encoder that S was measured with; '' is the encoder itself.
    """

    board: str
    role: str
    task: str
    encoder: str
    digest: str = ""
    reference: str = ""
    metric: str = ""
    k: str = ""
    weighting: str = ""
    part: str = ""


@dataclass(frozen=True)
class Numbers:
    """The number of a cell, not rounded, with its interval, its spread and its sample size."""

    value: float
    low: float = math.nan
    high: float = math.nan
    std: float = math.nan
    n: float = math.nan


Cells = dict[Key, Numbers]
KEYS = [each.name for each in fields(Key)]
NUMBERS = [each.name for each in fields(Numbers)]


def numbers_of(score: Score) -> Numbers:
    n = math.nan if score.n is None else score.n
    return Numbers(score.mean, *score.ci95, score.std, n)


def of_results(opened: OpenBoard) -> Iterator[tuple[Key, Numbers]]:
    """Yield the scores of a board of results: encoders, curves, bounds and published numbers."""
    found, board = find_board(opened.folder), opened.folder.name
    config, weighting = found.config, found.config.weighting
    titled = {title: metric.name for title, metric in titled_metrics().items()}
    metrics = [titled[title] for title in config.columns] or list(titled.values())
    for result, k_of_cell in cells_of(sorted(found.results, key=lambda result: str(result.path))):
        encoder, reference = result.key.encoder, result.key.reference
        used = reference.digest if k_of_cell and reference else ""
        whose = (result.task, encoder.label, encoder.digest, used)
        keys = [main_key(result, config)]
        if k_of_cell:  # some scores have no k
            own = [(ScoreKey(m), ScoreKey(m, k_of_cell, weighting)) for m in metrics]
            keys = [key for several in own for key in several]
        for key in filter(result.scores.get, keys):
            metric, k, weights, part = score_key(key)
            protocol = "" if k_of_cell else result.key.protocol_label
            cell = Key(board, "measured", *whose, metric, k, weights, part or protocol)
            yield cell, numbers_of(result.shown(key))
    sections = sections_of(found)
    for task in sections.ranked:
        curves = (row for row in sections.singles([task]) if row["role"] == "curve")
        for row, metric in itertools.product(curves, metrics):
            (front,), at_point = row["fronts"].values(), sections.cells[row["members"][0], task]
            if record := front if metric == "front" else at_point.get(metric):
                said = score_key(ScoreKey(metric, row["k"], weighting))
                digest = row["point"]["encoder"]
                curve = Key(board, "curve", task, row["name"], digest, row["reference"], *said)
                yield curve, numbers_in(record)
    for record in sections.further:
        if record["role"] != "published" and record["metric"] in metrics:
            said = score_key(ScoreKey(record["metric"], record["k"], weighting))
            whose = (record["place"], record["name"], "", record["reference"])
            yield Key(board, record["role"], *whose, *said), replace(numbers_in(record), n=math.nan)
    for each in found.published:
        metric, k, weights, own_part = score_key(each["key"])
        part = ", ".join(filter(None, [own_part, each["protocol"], each["note"]]))
        whose = (each["task"], f"{each['encoder']} [{each['source']}]", each["twin"], "")
        cell = Key(board, "published", *whose, metric, k, weights, part)
        yield cell, Numbers(each["value"], std=each["std"])


def numbers_in(record: Record) -> Numbers:
    """Return the numbers of a record as boards show them: joint and front are at least 0."""
    return numbers_of(replace(score_of(record), n=record["n"]))


def score_key(key: ScoreKey) -> tuple[str, str, str, str]:
    return key.metric, str(key.k or ""), key.weighting, key.part or ""


def of_sweep(opened: OpenBoard) -> Iterator[tuple[Key, Numbers]]:
    """Yield the scores of each training run and base of a sweep, and the published numbers."""
    assert opened.sweep
    records, board = opened.sweep.records, opened.folder.name
    for row in (record for record in records if record["metric"] in TITLES):
        weighting, value, std = row["weighting"], row["value"], row["std"]
        if row["kind"] != "published":
            if not math.isnan(value):
                whose = (row["task"], row["encoder"], row["encoder_digest"], row["reference"])
                said = score_key(ScoreKey(row["metric"], int(row["k"]), weighting))
                yield (
                    Key(board, "measured", *whose, *said),
                    Numbers(value, row["ci_low"], row["ci_high"], std, row["n"]),
                )
        elif row["base"]:
            name = f"{row['encoder']}, {row['base']} [{row['source']}]"
            key = Key(
                board, "published", row["task"], name, metric=row["metric"], weighting=weighting
            )
            yield key, Numbers(value, std=std)
        else:
            examples, *others = row["twin"].split(",")
            part = ", ".join([examples, f"task={row['task']}", *others])
            name = f"{row['encoder']} [{row['footnote']}]"
            ends = row["seed_min"], row["seed_max"], row["seed_std"]
            yield (
                Key(board, "published", "", name, metric=row["metric"], part=part),
                Numbers(value, *ends),
            )


def of_folds(opened: OpenBoard) -> Iterator[tuple[Key, Numbers]]:
    """Yield the scores of each method on a board of cross-validations, and published numbers."""
    folder, board = opened.folder, opened.folder.name
    published = published_folds(folder / "published.csv")
    records = fold_records(read_experiments(folder), published=published)
    for row in (record for record in records if record["role"] == "measured"):
        whose = (row["task"], row["encoder"], row["encoder_digest"])
        part, values = f"{row['table']}: {row['method']}", [*row["folds"].values()]
        yield (
            Key(board, "measured", *whose, metric=row["metric"], part=part),
            Numbers(row["value"], std=stdev(values), n=len(values)),
        )
    for row in (record for record in records if record["role"] == "published"):
        sizes = dict(part.split("=") for part in row["protocol"].split(",") if part)
        sample, rows = sizes.get("sample", "all"), sizes.get("rows", "all")
        part = f"{row['method']}, sample {sample}, rows {rows}"
        name = f"{row['encoder']} [{row['source']}]"
        key = Key(board, "published", row["task"], name, metric=row["metric"], part=part)
        yield key, Numbers(row["value"], std=row["std"])


def of_tables(opened: OpenBoard, known: Iterable[Numbers]) -> Iterator[tuple[Key, Numbers]]:
    """Yield the numbers of a board's tables that are not among the known ones, by position."""
    board, values = opened.board, {each.value for each in known}
    for name, table in board.named_tables:
        for row in range(table.n_rows):
            said = " | ".join(cells[row] for title, cells in table.heads if title != "rank")
            detail = board.details.get(table.details[row]) if table.details else None
            digest = detail.facts.get("digest", "") if detail else ""
            for column in table.columns:
                value = column.values[row]
                if value is None or math.isnan(value) or value in values:
                    continue
                ends = (column.intervals[row] if column.intervals else None) or (math.nan, math.nan)
                std = column.spreads[row] if column.spreads else None
                yield (
                    Key(opened.folder.name, "table", name, said, digest, metric=column.title),
                    Numbers(float(value), *ends, math.nan if std is None else std),
                )


OF_KIND = {"results": of_results, "sweep": of_sweep, "cross-validation": of_folds}


def export(root: Path = LEADERBOARDS) -> Cells:
    """Return all cells of all boards, sorted.

    Raises:
        ValueError: If two cells have the same key and different numbers.
    """
    cells: Cells = {}
    for folder in sorted(file.parent for file in root.glob("*/board.toml")):
        own: Cells = {}
        opened = open_board(folder)
        add(own, OF_KIND[opened.kind](opened))
        add(own, of_tables(opened, [*own.values()]))
        cells |= own
    return dict(sorted(cells.items()))


def add(cells: Cells, more: Iterable[tuple[Key, Numbers]]) -> None:
    for key, numbers in more:
        if not math.isnan(numbers.value) and not is_close(cells.setdefault(key, numbers), numbers):
            raise ValueError(f"two cells have one key, {key}: {cells[key]} and {numbers}")


def to_bytes(cells: Mapping[Key, Numbers]) -> bytes:
    """Return cells as compressed CSV. Equal cells give equal bytes."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*KEYS, *NUMBERS])
    for key, numbers in cells.items():
        said = ["" if math.isnan(value) else repr(float(value)) for value in astuple(numbers)]
        writer.writerow([*astuple(key), *said])
    return gzip.compress(out.getvalue().encode(), 9, mtime=0)


def read(file: Path = FILE) -> Cells:
    """Read the file that `to_bytes` wrote."""
    text = gzip.decompress(file.read_bytes()).decode()
    return {
        Key(*(line[name] for name in KEYS)): Numbers(
            *(float(line[name]) if line[name] else math.nan for name in NUMBERS)
        )
        for line in csv.DictReader(io.StringIO(text))
    }


def is_close(one: Numbers, other: Numbers) -> bool:
    """Return whether two cells hold the same numbers, up to the order of sums."""
    return all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))
        for a, b in zip(astuple(one), astuple(other), strict=True)
    )


def differences(before: Cells, now: Cells) -> dict[Key, str]:
    """Return a description of each cell that is missing or has another number."""
    found = {}
    for key, numbers in before.items():
        if key not in now:
            found[key] = f"lost, it was {numbers.value!r}"
        elif not is_close(numbers, now[key]):
            found[key] = f"changed from {numbers} to {now[key]}"
    return found


@dataclass(frozen=True)
class Excuse:
    """Cells that may be missing or changed: those whose keys match all patterns.

    A pattern is the exact text, or a prefix followed by `*`. A field without a pattern matches any
    text.
    """

    patterns: Mapping[str, str]
    reason: str

    def fits(self, key: Key) -> bool:
        return all(
            getattr(key, name).startswith(said.removesuffix("*"))
            if said.endswith("*")
            else getattr(key, name) == said
            for name, said in self.patterns.items()
        )


def read_excuses(file: Path = EXCUSED) -> list[Excuse]:
    """Read the list of cells that are missing or changed on purpose, each with its reason."""
    with file.open(encoding="utf-8", newline="") as stream:
        return [
            Excuse({name: line[name] for name in KEYS if line[name]}, line["reason"])
            for line in csv.DictReader(stream)
        ]


if __name__ == "__main__":
    target = Path(sys.argv[1]) if sys.argv[1:] else FILE
    made = export()
    target.write_bytes(to_bytes(made))
    print(f"{target}: {len(made):,} cells")
