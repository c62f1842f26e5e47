"""`polarity-bench test`: checks of a plug-in, or of your own task files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from polarity_bench.cli.options import DataDir
from polarity_bench.cli.output import OutputFlags, progress_bar, remark
from polarity_bench.values import count, grouped


def check_plugin(
    plugin: Annotated[
        str, "Folder of task files, one task file, or name of an installed plug-in.", "PLUGIN"
    ],
    data_dir: DataDir = None,
    model: Annotated[str, "Encoder to train with the recipes of the plug-in.", "-m"] = "minilm",
    *,
    out: OutputFlags,
) -> None:
    """Check that a plug-in keeps what the objects of this project promise.

    Each task is read, loaded and scored with the baseline `random`. It must be read under a free
    name, have its data, not exceed chance, resume, and repeat its scores. Metrics and weightings
    are scored on the task contrast, and recipes train on it. The exit code is 1 if a check does not
    pass.
    """
    from polarity_bench.conformance import Check, check_objects, check_tasks
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.render.markdown import table
    from polarity_bench.tasks.catalogue import task_files

    access = DataAccess.from_environment(data_dir)
    checks = [*check_tasks(task_files(plugin), access, bar=progress_bar)]
    if not Path(plugin).exists():
        checks += check_objects(plugin, model, bar=progress_bar)
    failed = [check for check in checks if check.problem]

    def text() -> str:
        rows = [
            (name, f"{check.check}: {check.problem}")
            for name, own in grouped(checks, lambda check: check.name).items()
            for check in [each for each in own if each.problem]
            or [Check(name, "passed", count(len(own), "check"))]
        ]
        names, outcomes = zip(*rows, strict=True)
        return table([("name", names), ("outcome", outcomes)], [], width=out.width)

    out.show(lambda: {"checks": [asdict(check) for check in checks]}, text)
    if failed:
        remark(f"{len(failed)} of {count(len(checks), 'check')} did not pass")
        raise typer.Exit(1)
