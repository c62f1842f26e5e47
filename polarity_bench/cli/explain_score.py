"""`polarity-bench explain-score`: one-line definitions of columns and scores."""

from __future__ import annotations

from typing import Annotated

from polarity_bench.cli.options import TaskDir
from polarity_bench.cli.output import JsonFlags


def explain_score(
    name: Annotated[
        list[str] | None, "Title of a column, or name of a score [default: all].", "NAME"
    ] = None,
    task_dir: TaskDir = None,
    *,
    out: JsonFlags,
) -> None:
    """Explain P, S and all other columns and scores."""
    from polarity_bench.results.score_names import WORDS, explain, titles
    from polarity_bench.tasks.catalogue import load_tasks
    from polarity_bench.tasks.types.polarity.task import PolaritySpec

    specs = load_tasks(task_dir).values()
    groups = {
        group for spec in specs if isinstance(spec, PolaritySpec) for group in spec.protocol.groups
    }
    names = [" ".join(name)] if name else [*titles(), *sorted(groups), *WORDS]
    meanings = {name: explain(name, groups) for name in names}
    lines = (f"{name}: {meaning}" for name, meaning in meanings.items())
    out.show(lambda: meanings, lambda: "\n".join(lines))
