"""`polarity-bench texts`: the distinct texts of tasks, to embed them with any API or library."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

from polarity_bench.cli.inputs import check_file, load_data
from polarity_bench.cli.options import DataFlags, TaskFlags, folder_options
from polarity_bench.cli.output import AsJson, print_json, remark, write_file
from polarity_bench.cli.run import ProtocolFlags


def write_texts(
    *,
    task: TaskFlags,
    protocol: Annotated[ProtocolFlags, ("limit", "protocol", "preset")],
    output: Annotated[Path, "File to write, .jsonl or .parquet.", "-o"] = Path("texts.jsonl"),
    data: DataFlags,
    skip_missing: Annotated[bool, "Skip tasks whose data is missing."] = False,
    as_json: AsJson = False,
) -> None:
    """Write the distinct texts of tasks to a file, to embed them with any API or library.

    By default, the command writes the texts of the suite demo. Save the vectors next to their
    texts, and evaluate them with `polarity-bench run --model vectors:FOLDER`. Options that change
    the texts of a run change them here, too.
    """
    import pandas as pd

    check_file("output", output, [".jsonl", ".parquet"], make_folder=True)
    specs = task.choose(data.task_dir, "demo")
    tasks, _ = load_data(specs, data.access(), protocol.settings(None), skip_missing)
    texts = list(dict.fromkeys(text for each in tasks for text in each.texts))
    if output.suffix == ".parquet":
        write_file(output, pd.DataFrame({"text": texts}).to_parquet(index=False))
    else:
        lines = (json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
        write_file(output, "".join(lines).encode())
    names = ",".join(each.spec.name for each in tasks)
    if as_json:
        print_json({"file": output, "n_texts": len(texts), "tasks": names.split(",")})
    following = ["polarity-bench", "run", "--tasks", names]
    for name, value in vars(protocol).items():
        following += [f"--{name}", str(value)] if value is not None else []
    following += ["--model", f"vectors:{output.parent}"]
    following += folder_options(data.task_dir, data.data_dir)
    remark(
        f"{len(texts):,} texts; save the vectors of all texts, in this order, to "
        f"{output.with_name('vectors.npy')}; next: {shlex.join(following)}"
    )
