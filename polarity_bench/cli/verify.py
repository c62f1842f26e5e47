"""`polarity-bench verify`: comparison of published scores with new measurements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polarity_bench.cli.inputs import split_names, worker_count
from polarity_bench.cli.options import (
    DataFlags,
    EmbeddingFlags,
    Model,
    Output,
    Tasks,
    Workers,
    usable_options,
)
from polarity_bench.cli.output import OutputFlags, progress_bar, remark
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError, check_known

if TYPE_CHECKING:
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.tasks.types.base import Settings, Task, TaskSpec
    from polarity_bench.verify import Publication, ScoreCheck


def verify(
    *,
    model: Model = "minilm",
    only: Annotated[
        str | None, "Check only these publications, separated by commas, e.g. margins-table-1,stsb."
    ] = None,
    tasks: Tasks = None,
    data: Annotated[DataFlags, ("data_dir", "offline")],
    output: Output = Path("results"),
    encoder_flags: Annotated[EncoderOptions, ("device",)],
    embedding: EmbeddingFlags,
    workers: Workers = None,
    out: OutputFlags,
) -> None:
    """Compare published scores with new measurements.

    The exit code is 1 if a score differs or could not be measured.
    """
    from polarity_bench.evaluation.many_encoders import load_model
    from polarity_bench.evaluation.many_tasks import EvaluationPlan, run_suite
    from polarity_bench.tasks.catalogue import choose_tasks, load_tasks
    from polarity_bench.verify import compare

    n_workers = worker_count(workers)
    chosen = _choose(only)
    known = load_tasks()
    allowed = {spec.name for spec in choose_tasks(known, names=split_names(tasks))}
    access = data.access()
    encoder = load_model(model, usable_options(encoder_flags, offline=access.offline), remark)
    checks: list[ScoreCheck] = []
    with embedding.embedder(encoder) as embedder:
        contest = EvaluationPlan(encoder, None, embedder, n_workers, progress_bar)
        for publication in chosen:
            names = [t for t in publication.tasks_for(encoder.id) if not allowed or t in allowed]
            if not names:
                continue
            specs, settings = choose_tasks(known, names=names), publication.settings(n_workers)
            report = run_suite(contest, list(_with_data(specs, access, settings)), output)
            for task, message in report.failures.items():
                remark(f"error: {task} failed: {message}")
            rows = compare(publication, encoder.id, report.results)
            checks += [row for row in rows if row.task in names]
    if not checks:
        published = {f"{row.encoder} on {row.task}" for each in chosen for row in each.rows}
        raise InputError(
            f"`model`: no published scores of {encoder.id.label} on these tasks; known: "
            f"{', '.join(sorted(published))}"
        )
    out.show(
        lambda: [row.model_dump() | {"difference": row.difference} for row in checks],
        lambda: _render(checks, chosen, out.width),
    )
    raise typer.Exit(1 if any(row.verdict in {"differs", "not measured"} for row in checks) else 0)


def _choose(only: str | None) -> list[Publication]:
    from polarity_bench.verify import publications

    known = {publication.name: publication for publication in publications()}
    names = split_names(only) or list(known)
    for name in names:
        check_known(name, known, f"`only`: unknown publication {name!r}")
    return [known[name] for name in names]


def _with_data(specs: Iterable[TaskSpec], access: DataAccess, settings: Settings) -> Iterator[Task]:
    """Yield loaded tasks. Skip tasks whose data is not available, and report the reasons."""
    for spec in specs:
        try:
            yield spec.load(access, settings)
        except InputError as error:
            remark(f"error: {error}")


def _render(checks: list[ScoreCheck], chosen: list[Publication], width: int | None) -> str:
    from polarity_bench.render.format import percent
    from polarity_bench.render.markdown import escape, table

    sections = []
    for publication in chosen:
        rows = [row for row in checks if row.publication == publication.name]
        heads = [
            ("task", [row.task for row in rows]),
            ("score", [row.score for row in rows]),
            ("published", [percent(row.published, 3) for row in rows]),
            ("measured", [percent(row.measured, 3) for row in rows]),
            ("difference", [percent(row.difference, 3, "+") for row in rows]),
            ("verdict", [str(row.verdict) for row in rows]),
        ]
        about = f"{escape(publication.source)}. {escape(publication.note)}"
        if rows:
            sections.append(
                f"## {escape(publication.title)}\n\n{about}\n\n{table(heads, width=width)}"
            )
    return "\n\n".join(sections)
