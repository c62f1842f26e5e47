"""Tables of a sweep, in the layout of the margins paper.

Rows are losses with their parameters. Each column is a base encoder and the data set on which it
was trained and scored. If training runs differ in other settings, there is a section for each
combination. If they differ in the number of examples, these tables show one number, and a separate
table shows all numbers, averaged over the configurations.

References:
    Jørgensen and Breitung (2025), Margins in Contrastive Learning, tables 4, 5 and 6.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarity_bench.boards.config import SweepFile, board_file
from polarity_bench.boards.rank_notes import unpaired_note
from polarity_bench.boards.sweep_charts import size_charts, sweep_planes
from polarity_bench.compare.unpaired_power import error_of, least_unpaired
from polarity_bench.render.chart import Drawn
from polarity_bench.render.format import percent, shown
from polarity_bench.render.markdown import escape
from polarity_bench.render.table import Board, Column, Detail, Role, Table
from polarity_bench.results.aggregate import scores_of, seed_means
from polarity_bench.results.published import footnote
from polarity_bench.results.score_names import NOTES
from polarity_bench.sweeps.grid import SHIPPED
from polarity_bench.sweeps.plan import read_plan
from polarity_bench.sweeps.to_frame import (
    METRICS,
    TOLD_BY,
    columns_of,
    given_settings,
    group_by_settings,
    read_frame,
    select,
    word,
)
from polarity_bench.training.examples.spec import DEFAULT_COUNT
from polarity_bench.training.parameters import declared
from polarity_bench.training.recipes.margins.losses import LOSSES
from polarity_bench.training.recipes.margins.recipe import Margins

if TYPE_CHECKING:
    from pandas import DataFrame

_GRID = "grid.toml"
"""Name of the copy of the grid in the folder of a published sweep."""
_PLACED = frozenset({"recipe", "model", "task", "seed"})
"""Settings that define neither rows nor sections."""

_NOTHING = "-"
_P = next(iter(METRICS))


@dataclass(frozen=True)
class Sweep:
    """Scores of a sweep, with the configuration of its board.

    Attributes:
        records: The table of records, see `sweeps.to_frame`.
        config: The content of `board.toml`, completed from the plan. Its `models` are the base
            encoders with a column, including bases that have published numbers only.
        folder: Folder of the sweep, to which paths of result files are relative.
        command: The command that reproduces the sweep.
    """

    records: DataFrame
    config: SweepFile
    folder: Path
    command: str

    @property
    def weighting(self) -> str:
        """Weighting of the ranks."""
        return self.config.weighting

    def of_kind(self, kind: str) -> DataFrame:
        """Return the records of a kind: `training`, `evaluation` (bases) or `published`."""
        return self.records[self.records["kind"] == kind]

    def bases_of(self, trainings: DataFrame) -> DataFrame:
        """Return the records of the base encoders from which training runs started."""
        items = set[int]().union(*trainings["twins"])
        return self.records[self.records["item"].isin(items)]


def read_sweep(
    folder: Path,
    weighting: str | None = None,
    where: Sequence[str] = (),
    title: str | None = None,
) -> Sweep:
    """Read the scores of a sweep's training runs and base encoders.

    Encoders are scored on the tasks on which they were trained.

    Args:
        folder: Folder of the sweep, with an optional `board.toml` (see `SweepFile`).
        weighting: Weighting of the ranks; overrides `board.toml`.
        where: Settings of the training runs to keep, see `sweeps.to_frame.select`.
        title: Title of the board; overrides `board.toml`. The default is the title of the plan.

    Raises:
        InputError: If the folder contains no sweep, the sweep has no training runs or no results,
            no training run matches `where`, or two results cannot be compared. The message names
            the files.
    """
    plan, config = read_plan(folder), board_file(folder / "board.toml", SweepFile)
    weighting, models = weighting or config.weighting, list(config.models)
    records = read_frame(folder, plan, weighting, models)
    if where:
        records, models = select(records, models, where)
    title = title or config.title or plan.title
    shown = {"title": title, "weighting": weighting, "models": tuple(models)}
    return Sweep(records, config.model_copy(update=shown), folder, _command(plan.grid, folder))


def _command(grid: str, folder: Path) -> str:
    """Return the command that reproduces a sweep from its grid.

    Args:
        grid: Path of the grid file in the plan; '' if the plan has none.
        folder: Folder of the sweep. If the folder contains a copy of the grid, the command uses
            the copy.
    """
    if not grid or (folder / _GRID).is_file():
        return f"polarity-bench sweep {_GRID}"
    file = Path(grid)
    is_ours = file.parent.name == "grids" and file.stem in SHIPPED
    return shlex.join(["polarity-bench", "sweep", file.stem if is_ours else file.name])


def sweep_as_json(sweep: Sweep) -> dict[str, Any]:
    """Return the scores of a sweep as JSON values: fractions, or null if undefined."""
    measured = sweep.records[sweep.records["kind"] != "published"]
    of_p, of_s = (_of_metric(measured, metric) for metric in METRICS)
    scores = zip(of_p.to_dict("records"), of_s.to_dict("records"), strict=True)
    items = []
    for settings, (p, s) in zip(given_settings(of_p), scores, strict=True):
        item = {"kind": p["kind"], "settings": settings, "encoder": p["encoder"], "task": p["task"]}
        item["k"] = None if math.isnan(p["k"]) else int(p["k"])
        item |= {"P": p["value"], "P_std": p["std"], "S": s["value"], "S_std": s["std"]}
        item["state"] = p["state"]
        items.append({name: None if value != value else value for name, value in item.items()})
    return {
        "unit": "fraction",
        "title": sweep.config.title,
        "weighting": sweep.weighting,
        "records": items,
    }


def sweep_board(sweep: Sweep) -> Board:
    """Build the board of a sweep, with its tables and charts."""
    trainings, published = sweep.of_kind("training"), sweep.of_kind("published")
    recipe, keys, sections = _axes(trainings)
    is_main = trainings["recipe"] == recipe
    what = "Losses" if recipe == Margins.name else recipe
    tables: list[Table] = []
    drawn: list[Drawn] = []
    details: dict[str, Detail] = {}
    for values, section in group_by_settings(trainings[is_main], sections):
        ending = "".join(f", {text}" for text in _settings_as_text(sections, values))
        sizes = dict(group_by_settings(section, ["examples"] if recipe == Margins.name else []))
        size = _shown_size(sizes)
        shown = trainings.loc[[*sizes[size].index, *trainings[~is_main].index]]
        measured = _measured_rows(sweep.bases_of(shown), shown, recipe, keys)
        n = f"N = {_examples_of(sizes[size])}, " if size else ""
        counted = _counted(shown)
        if n_hidden := section["item"].nunique() - sizes[size]["item"].nunique():
            counted += f" {n_hidden:,} with other numbers of examples are not shown."
        columns = _shown_columns(shown, sweep.config.models)
        for metric in METRICS:
            table, of_rows = _loss_table(
                sweep, metric, what + ending, keys, measured, columns, n, counted
            )
            tables.append(table)
            details |= of_rows
        runs = measured[measured["shown_as"] != "base"]
        names = [" ".join(head for head in heads if head != _NOTHING) for heads in runs["heads"]]
        runs, bases = runs.assign(name=names), sweep.bases_of(section)
        drawn += sweep_planes(runs, bases, published, sweep.weighting, ending)
        for (task,), alike in section.groupby(["task"], sort=False) if len(sizes) > 1 else ():
            tables.append(_size_table(sweep, f"Numbers of examples, {task}{ending}", alike))
            drawn += size_charts(what + ending, alike, str(task))
    notes = [NOTES["sweep"], *([NOTES["minus_published"]] if any(published["base"]) else ())]
    return Board(
        sweep.config.title,
        sweep.config.introduction,
        tables,
        notes,
        drawn,
        details,
        finding=_finding(*tables[:2]),
        origin=sweep.config.details,
    )


def _finding(of_p: Table, of_s: Table) -> str:
    """Return sentences on the loss with the highest P in each column, with its S and the base.

    Args:
        of_p: The table of P.
        of_s: The table of S, which has the same columns.
    """
    sentences = []
    names, names_of_s = ([*zip(*dict(each.heads).values(), strict=True)] for each in (of_p, of_s))
    for p, s in zip(of_p.columns, of_s.columns, strict=True):
        values = [math.nan if value is None else value for value in p.values]
        known = [row for row, value in enumerate(values) if not math.isnan(value)]
        competing = [row for row in known if of_p.role(row) == "encoder"]
        if not competing:
            continue
        best = max(competing, key=values.__getitem__)
        bases = [row for row in known if of_p.role(row) == "base"]
        p_cells = shown(p)
        # Rows are matched by their names, because the tables may have different published rows.
        s_cells = dict(zip(names_of_s, shown(s), strict=True))
        p_and_s = [
            " with S ".join(
                " ".join(filter(None, [cell.number, cell.interval]))
                for cell in (p_cells[row], s_cells[names[row]])
            )
            for row in [best, *bases[:1]]
        ]
        name = " ".join(text for text in names[best] if text != _NOTHING)
        text = f"**{escape(name)}** has the highest P on {escape(p.title)}: "
        sentences.append(f"{text}{'; the base has '.join(p_and_s)}.")
    where = f"({escape(of_p.heading)}) " if of_p.heading != "Losses" and sentences else ""
    return where + " ".join(sentences)


def _axes(trainings: DataFrame) -> tuple[str, list[str], list[str]]:
    """Return the main recipe, the settings that define its rows, and those that define sections.

    For the recipe `margins`, the loss and its parameters define rows, and other settings define
    sections. For other recipes, all settings define rows.
    """
    recipes = [*trainings["recipe"]]
    main = Margins.name if Margins.name in recipes else recipes[0]
    main_runs = trainings[trainings["recipe"] == main]
    differ = _differing(main_runs)
    if main != Margins.name:
        return main, differ or ["recipe"], []
    of_losses = {each.name for loss in LOSSES.values() for each in declared(loss)}
    pairs = [values for values, _ in group_by_settings(main_runs, ["examples", "batch_size"])]
    # If each number of examples has one batch size, the batch size defines no sections.
    follows = len(pairs) == len({n for n, _ in pairs})
    free = {"examples", *(["batch_size"] if follows else [])}
    rows = ["loss", *(key for key in differ if key in of_losses)]
    return main, rows, [key for key in differ if key not in {*rows, *free}]


def _differing(trainings: DataFrame) -> list[str]:
    """Return the settings in the grid that have several values, except those in `_PLACED`."""
    varied = dict.fromkeys(key for keys in trainings["given"] for key in keys if key not in _PLACED)
    return [key for key in varied if len(group_by_settings(trainings, [key])) > 1]


def _shown_size(sizes: Mapping[tuple[Any, ...], DataFrame]) -> tuple[Any, ...]:
    """Choose the number of examples to show.

    The papers' number is preferred, then the largest number. Numbers with missing training runs are
    chosen only if no number is complete.
    """
    complete = [n for n, records in sizes.items() if all(records["state"] == "done")]
    known = complete or [*sizes]
    return (DEFAULT_COUNT,) if (DEFAULT_COUNT,) in known else max(known, key=_size_order)


def _size_order(examples: tuple[int | None, ...]) -> int:
    """Return the sort key of a number of examples; () stands for a recipe without examples."""
    return (examples[0] or DEFAULT_COUNT) if examples else 0


def _measured_rows(
    bases: DataFrame, trainings: DataFrame, recipe: str, keys: Sequence[str]
) -> DataFrame:
    """Return the records of bases, other recipes and the main recipe, with their rows in tables.

    Only rows of the main recipe compete for bold print.

    Returns:
        The records with the columns of `_in_row`.
    """
    import pandas as pd

    is_main = trainings["recipe"] == recipe
    apart: list[tuple[str, Role, Sequence[str], DataFrame]] = [
        ("reference", "base", TOLD_BY, bases)
    ]
    for other, alike in trainings[~is_main].groupby("recipe", sort=False):
        apart.append((str(other), "other", _differing(alike), alike))
    rows = []
    for title, role, names, alike in apart:
        for values, records in group_by_settings(alike, names):
            name = ", ".join([title, *_settings_as_text(names, values)])
            rows.append(_in_row(records, role, _padded(name, len(keys))))
    for values, records in group_by_settings(trainings[is_main], keys):
        heads = [_NOTHING if value is None else word(value) for value in values]
        rows.append(_in_row(records, "encoder", heads))
    return pd.concat(rows)


def _in_row(records: DataFrame, role: Role, heads: Sequence[str]) -> DataFrame:
    """Return records with the leading cells (`heads`) and the role (`shown_as`) of their row."""
    cells: list[Any] = [tuple(heads)] * len(records)
    return records.assign(heads=cells, shown_as=role)


def _with_published(measured: DataFrame, published: DataFrame) -> DataFrame:
    """Return measured and published records, with the number of their row in the column `row`.

    Each published row is below the measured row with the same settings. A published row without
    such a measured row follows the previous published row. If there is no previous row, it comes
    first.
    """
    import pandas as pd

    places = {heads: place for place, heads in enumerate(dict.fromkeys(measured["heads"]))}
    place_of = {item: places[heads] for item, heads in _pairs(measured, "item", "heads")}
    parts, place = [measured], -1
    for (name, number), alike in published.groupby(["encoder", "footnote"], sort=False):
        twins = set[int]().union(*alike["twins"])
        place = min((place_of[item] for item in twins if item in place_of), default=place)
        heads = _padded(f"{name}, as published [{number}]", len(next(iter(places))))
        parts.append(_in_row(alike, "published", heads))
        places[tuple(heads)] = place
    row_of = {heads: row for row, heads in enumerate(sorted(places, key=places.__getitem__))}
    records = pd.concat(parts)
    return records.assign(row=[row_of[heads] for heads in records["heads"]])


def _loss_table(
    sweep: Sweep,
    metric: str,
    heading: str,
    keys: Sequence[str],
    measured: DataFrame,
    columns: Sequence[tuple[str, str, str]],
    n: str,
    counted: str,
) -> tuple[Table, dict[str, Detail]]:
    """Return a table of P or S with a row for each loss.

    Args:
        sweep: The sweep.
        metric: The metric of the table.
        heading: Heading of the tables of P and S.
        keys: Settings in the leading cells of rows.
        measured: Records of the bases and training runs to show, see `_measured_rows`.
        columns: Title, base encoder and task of each column.
        n: Text with the number of examples; '' if it does not apply.
        counted: Sentences on the numbers of training runs.

    Returns:
        The table, and the provenance of each row by its key.
    """
    name, short = METRICS[metric]
    published = sweep.of_kind("published")
    is_own = (published["metric"] == metric) & (published["base"] != "")
    records = _with_published(_of_metric(measured, metric), published[is_own])
    means = seed_means(records, ["row", "base", "task"])
    over, interval = "queries", "over queries"
    if means["n_planned"].max() > 1:
        over = "seeds, or over queries for a single encoder"
        interval = "for other seeds and queries, or over queries for a single encoder"
    details = {
        f"{heading}, {short}, row {row}": _detail(of_row, sweep)
        for row, of_row in records.groupby("row")
    }
    table = _table(
        heading if metric == _P else "",
        keys,
        records,
        [_column(means, records, *column) for column in columns],
        f"**{name} {short}**: {n}{_at_k(measured)}ranks weighted {sweep.weighting}ly; mean and std "
        f"over {over}. {counted} In brackets: the 95 % interval {interval}.",
        _unpaired(columns, records),
    )
    return replace(table, details=[*details]), details


def _table(
    heading: str,
    titles: Sequence[str],
    records: DataFrame,
    columns: Sequence[Column],
    lead: str,
    notes: Sequence[str] = (),
) -> Table:
    """Return a table with the rows of records, and with the footnotes of published numbers.

    Args:
        heading: Heading of the table.
        titles: Titles of the leading columns.
        records: Records with the number of their row, see `_with_published`.
        columns: Columns of numbers.
        lead: Markdown above the table.
        notes: Notes above the footnotes.
    """
    rows = records.drop_duplicates("row").sort_values("row")
    heads = [(title, [cells[i] for cells in rows["heads"]]) for i, title in enumerate(titles)]
    published = rows[rows["role"] == "published"].drop_duplicates("footnote")
    cited = published.sort_values("footnote")[["footnote", "source", "note"]]
    footnotes = [footnote(*each) for each in cited.itertuples(index=False)]
    roles = rows["shown_as"].tolist()
    return Table(heading, heads, columns, roles, lead=lead, notes=[*notes, *footnotes])


def _column(means: DataFrame, records: DataFrame, title: str, base: str, task: str) -> Column:
    """Return the column of a base and task. The two best rows of the main recipe are bold."""
    is_rival = {row: role == "encoder" for row, role in _pairs(records, "row", "shown_as")}
    cells = _in_column(means, base, task).set_index("row").reindex(range(len(is_rival)))
    values = cells["value"].tolist()
    marks = [
        f" ({n:.0f} of {of:.0f} seeds)" if 0 < n < of else ""
        for n, of in _pairs(cells, "n_seeds", "n_planned")
    ]
    row_of = dict(_pairs(records, "item", "row"))
    published = _in_column(records[records["role"] == "published"], base, task)
    for i, twins in _pairs(published, "row", "twins"):
        at = sorted({row_of[item] for item in twins if item in row_of})
        if measured := [values[j] for j in at if not math.isnan(values[j])]:
            marks[i] = f" ({percent(measured[0] - values[i], 1, '+')})"
    return Column(
        title,
        values,
        _pairs(cells, "ci_low", "ci_high"),
        rivals=["" if is_rival[row] else None for row in cells.index],
        spreads=cells["std"].where(cells["n_planned"] == 1, cells["seed_std"]).tolist(),
        marks=marks,
        digits=1,
        n_best=2,
        spread_as="sub",
    )


def _size_table(sweep: Sweep, heading: str, trainings: DataFrame) -> Table:
    """Return a table with the bases, then one row for each number of examples.

    A row shows the mean and the range over all training runs with that number.
    """
    import pandas as pd

    sizes = sorted(
        group_by_settings(trainings, ["examples"]), key=lambda size: _size_order(size[0])
    )
    bases, published = sweep.bases_of(trainings), sweep.of_kind("published")
    measured = [_in_row(bases, "base", ["reference"])]
    measured += [_in_row(records, "encoder", [_count(*n)]) for n, records in sizes]
    items = {*trainings["item"]}
    published = published[published["base"] == ""]
    published = published.loc[[not items.isdisjoint(twins) for twins in published["twins"]]]
    records = _with_published(pd.concat(measured), published)
    means = seed_means(records, ["row", "metric"])
    n_rows = records["row"].nunique()
    columns = []
    for metric, (_, short) in METRICS.items():
        cells = _of_metric(means, metric).set_index("row").reindex(range(n_rows))
        mean, spreads = cells["value"].tolist(), cells["seed_std"].tolist()
        columns.append(Column(f"{short} mean", mean, spreads=spreads, digits=1, spread_as="sub"))
        columns += [
            Column(f"{short} {end}", cells[f"seed_{end}"].tolist(), digits=1)
            for end in ("min", "max")
        ]
    runs = _of_metric(records[records["role"] != "published"], _P).groupby("row")["value"].count()
    n_runs = runs.reindex(range(n_rows)).astype(float).tolist()
    columns.append(Column("n", n_runs, unit="count"))
    lead = "P and S of n training runs, over losses, encoders and seeds: "
    lead += f"{_at_k(bases, trainings)}ranks weighted {sweep.weighting}ly; std with n - 1. "
    return _table(heading, ["N"], records, columns, lead + _counted(trainings))


def _detail(records: DataFrame, sweep: Sweep) -> Detail:
    """Return the provenance of a row: its encoders, settings, command and result files."""
    role = records["shown_as"].iloc[0]
    if role == "published":
        return Detail({}, source=", ".join(dict.fromkeys(records["source"])))
    facts = {"encoder": ", ".join(dict.fromkeys(records["encoder"]))}
    done = records[records["state"] == "done"].sort_values("date")
    if role != "base":
        given = [setting for each in given_settings(records) for setting in each.items()]
        settings = dict.fromkeys(f"{key} {word(value)}" for key, value in given)
        facts = {"settings": ", ".join(settings), "training runs": f"{len(done)} of {len(records)}"}
    if done.empty:
        return Detail(facts)
    facts |= done["made_by"].iloc[-1]
    files = sorted(Path(file).relative_to(sweep.folder).as_posix() for file in done["file"])
    return Detail(facts, sweep.command, files)


def _unpaired(columns: Sequence[tuple[str, str, str]], records: DataFrame) -> list[str]:
    """Return a note on the minimum detectable difference between the encoders of each column."""
    smallest = {}
    is_alone = len({model for _, model, _ in columns}) == 1
    measured = records[records["role"] != "published"]
    for title, model, task in columns:
        scores = scores_of(_in_column(measured, model, task))
        least = least_unpaired([error_of(score) for score in scores if not math.isnan(score.mean)])
        if not math.isnan(least):
            smallest[task if is_alone else " on ".join(title.split(", "))] = least
    return [unpaired_note(smallest)] if smallest else []


def _pairs(records: DataFrame, one: str, other: str) -> list[tuple[Any, Any]]:
    """Return the values of two columns, in pairs."""
    return [*zip(records[one], records[other], strict=True)]


def _of_metric(records: DataFrame, metric: str) -> DataFrame:
    return records[records["metric"] == metric]


def _in_column(records: DataFrame, model: str, task: str) -> DataFrame:
    return records[(records["base"] == model) & (records["task"] == task)]


def _shown_columns(trainings: DataFrame, models: Collection[str]) -> list[tuple[str, str, str]]:
    """Return the title, base encoder and task of each column.

    The encoders in `models` come first, in that order, even without training runs. Other encoders
    follow in order of first occurrence. Titles use the last part of an encoder's name if these
    parts are unique.
    """
    trained = dict.fromkeys(columns_of(trainings))
    tasks = dict.fromkeys(task for _, task in trained)
    known = dict.fromkeys([*models, *(model for model, _ in trained)])
    columns = [(m, task) for m in known for task in tasks if m in models or (m, task) in trained]
    last = {model: Path(model).name for model, _ in columns}
    short = last if len(set(last.values())) == len(last) else {model: model for model in last}
    return [(f"{short[model]}, {task}", model, task) for model, task in columns]


def _at_k(*records: DataFrame) -> str:
    """Return a text with the k of the tasks, such as `k = 16, `; tasks are named if k differs."""
    pairs = [pair for each in records for pair in _pairs(each, "task", "k")]
    ks = {task: f"k = {k:.0f}" for task, k in pairs if not math.isnan(k)}
    if len(set(ks.values())) > 1:
        return "".join(f"{k} of {escape(task)}, " for task, k in ks.items())
    return "".join(f"{k}, " for k in set(ks.values()))


def _counted(trainings: DataFrame) -> str:
    """Return a text with the numbers of all, missing, failed and undefined training runs."""
    runs = _of_metric(trainings, _P)
    undefined = (runs["state"] == "done") & runs["value"].isna()
    numbers = {"missing": runs["state"] == "left", "failed": runs["state"] == "failed"}
    numbers["undefined"] = undefined
    lacking = ", ".join(f"{n.sum():,} {what}" for what, n in numbers.items() if n.any())
    noun = "training run" if len(runs) == 1 else "training runs"
    return f"{len(runs):,} {noun}{': ' if lacking else ''}{lacking}."


def _padded(title: str, n_heads: int) -> list[str]:
    return [title, *[_NOTHING] * (n_heads - 1)]


def _settings_as_text(keys: Sequence[str], values: Sequence[Any]) -> list[str]:
    return [f"{k} {word(v)}" for k, v in zip(keys, values, strict=True) if v is not None]


def _count(n: int | None) -> str:
    """Return a number of examples as text; None stands for the default number."""
    return f"{DEFAULT_COUNT:,} or all if there are fewer" if n is None else f"{n:,}"


def _examples_of(trainings: DataFrame) -> str:
    """Return a text on the examples that training runs share: their number or their origin."""
    names = ["dropout", "examples_from", "examples"]
    (dropout, source, examples), _ = group_by_settings(trainings, names)[0]
    if dropout is not None:
        return "by dropout"
    return "as given" if source is not None and examples is None else _count(examples)
