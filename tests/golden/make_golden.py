"""Write the golden scores of the hash encoder: `python tests/golden/make_golden.py`.

Run it only when a score is meant to change, and say in the commit which and why.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from standins import HashEncoder, write_task

from polarity_bench.data.sources import DataAccess
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.results.result_files import Result
from polarity_bench.tasks.catalogue import read_task
from polarity_bench.tasks.types.base import Settings

FILE = Path(__file__).with_name("polarity.json")


def result_of(folder: Path) -> Result:
    """Evaluate the hash encoder on the task `mini`, at two k, against another hash encoder."""
    task = read_task(write_task(folder)).load(DataAccess(offline=True), Settings(ks=(2, 4)))
    return evaluate(HashEncoder(), task, reference=HashEncoder("reference"))


def golden(result: Result) -> dict[str, object]:
    """Lay out what must not change: the texts' digest, every score, what was retrieved."""
    scores = {name: None if math.isnan(v) else v for name, v in sorted(result.flat.items())}
    return {
        "data": result.key.data,
        "retrieved": result.arrays["retrieved_index"].tolist(),
        "scores": scores,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        content = json.dumps(golden(result_of(Path(folder))), indent=1)
    FILE.write_text(content + "\n", encoding="utf-8")
