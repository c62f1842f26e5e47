"""Write what never changes: `python tests/golden/make_unchanged.py [DATA]`.

`unchanged.json` holds digests (tasks, encoders, jobs, runs, grids, experiments), and what commands
print with `--json`. Modules and classes may be renamed and moved; these values may not move with
them. Run the script only when one of them is meant to change, and say in the commit which and why.
With the folder of the real data sets as an argument, the section `real` is written again too; that
needs MiniLM, from the extra `demo`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from polarity_bench.cross_validation.fold_results import Experiment
from polarity_bench.cross_validation.methods import KNOWN, make_method
from polarity_bench.cross_validation.protocol import PROTOCOLS
from polarity_bench.data.nli import load_nli
from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import EncoderOptions, load_encoder
from polarity_bench.sweeps.grid import SHIPPED, Grid, read_grid
from polarity_bench.sweeps.items import Setup
from polarity_bench.tasks.catalogue import load_task, load_tasks
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.tasks.types.opposite import OppositeSpec
from polarity_bench.tasks.types.polarity.task import PolaritySpec
from polarity_bench.tasks.types.probing import ProbingSpec
from polarity_bench.training.data import load_training_data
from polarity_bench.training.job import Job
from polarity_bench.training.recipes import RECIPES
from polarity_bench.training.run_folder import RunIdentity
from polarity_bench.values import digest_of

FILE = Path(__file__).with_name("unchanged.json")
CHECKOUT = Path(__file__).parents[2]
TIMES = {"seconds", "date", "evaluation_time"}
ENCODER = EncoderId("any/name", "0123456789abcdef")
_NEEDED: dict[str, dict[str, Any]] = {"scl": {"pairs": "/data/nli.jsonl.gz"}}
"""What a recipe has no default for."""

COMMANDS = {
    "tasks": ["tasks"],
    **{f"tasks show {name}": ["tasks", "show", name] for name in ("contrast", "mr", "sick-r")},
    "tasks show stsb": ["tasks", "show", "stsb"],
    "tasks show sts12": ["tasks", "show", "sts12"],
    "explain-score": ["explain-score"],
    "neighbours": ["neighbours", "The food was good.", "--model", "tfidf"],
    "examples": ["examples", "-t", "contrast", "--model", "tfidf", "-o", "examples"],
    "run random": ["run", "-t", "contrast", "--model", "random"],
    "run tfidf": ["run", "-t", "contrast", "--model", "tfidf", "--k", "4,16"],
}
RUN_MINILM = ["run", "-t", "contrast", "--model", "minilm", "--device", "cpu"]


def digests(folder: Path) -> dict[str, Any]:
    """Return the digests that need no data set, but those of the grids that are shipped.

    Args:
        folder: An empty folder.
    """
    words = folder / "glove.txt"
    words.write_text("good 1 0 0.5\nbad -1 0 0.25\n", encoding="utf-8")
    models = ("random", "constant", "tfidf", f"glove:{words}")
    encoders = {model.partition(":")[0]: load_encoder(model).id for model in models}
    recipes = {name: recipe(**_NEEDED.get(name, {})) for name, recipe in RECIPES.items()}
    jobs = {n: Job(recipe, "any/name", "sst2", Path("/runs/x")) for n, recipe in recipes.items()}
    runs = {
        n: RunIdentity(recipe, ENCODER, {}, "task", "inputs", "judged").digest
        for n, recipe in recipes.items()
    }
    return {
        "tasks": {name: spec.digest for name, spec in load_tasks().items()},
        "encoders": {n: [each.digest, each.to_dict()["weights"]] for n, each in encoders.items()},
        "recipes": {name: recipe.to_dict() for name, recipe in recipes.items()},
        "jobs": {name: job.digest for name, job in jobs.items()},
        "runs": runs,
        "experiments": _experiments(),
        "job.toml": jobs["margins"].to_toml(),
    }


def grid_digest(grid: Grid) -> list[int | str]:
    """Return the number of items of a grid, and the digest of their digests."""
    return [len(grid.items), digest_of([each.digest for each in grid.items])]


def _experiments() -> dict[str, str]:
    """Return the folders of experiments by method and protocol: their names hold the digests."""
    data = LabelledTexts("any", ["a", "b", "c"], np.array([0, 1, 1]), ["no", "yes"])
    found = {}
    for name in KNOWN:
        for said, protocol in PROTOCOLS.items():
            experiment = Experiment(make_method(name, {}), data, protocol, "any/name")
            found[f"{name}, {said}"] = experiment.result(ENCODER).experiment
    return found


def data_digests(data_dir: Path) -> dict[str, Any]:
    """Return the digests of the real data sets that the folder holds, and MiniLM's."""
    access = DataAccess(data_dir, offline=True)
    specs = load_tasks()
    minilm = load_encoder("minilm", EncoderOptions(device="cpu")).id
    nli = data_dir / "nli" / "snli_1.0_train_subset.jsonl.gz"
    trained = {n: s for n, s in specs.items() if isinstance(s, PolaritySpec) and n != "emotion"}
    return {
        "minilm": [minilm.digest, minilm.weights],
        "tasks": {
            name: load_task(name, access=access).digest
            for name, spec in specs.items()
            if not isinstance(spec, ProbingSpec | OppositeSpec)  # their data could not be had
        },
        "pools": {
            name: load_training_data(spec, access, held_out=None, seed=0).pool.digest
            for name, spec in trained.items()
            if not name.endswith("-unseen")
        },
        "cross-validated": {
            name: LabelledTexts.of(name, access).digest
            for name in ("mr", "cr", "subj", "mpqa", "trec", "mrpc", "sst2-transfer")
        },
        "nli": load_nli([str(nli)], access).digest,
    }


def printed(words: list[str], folder: Path) -> Any:
    """Return what a command prints with `--json`, without times and places."""
    command = [sys.executable, "-m", "polarity_bench", *words, "--json"]
    cache = {"POLARITY_BENCH_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    environment = os.environ | cache | {"PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return masked(json.loads(done.stdout), folder)


def masked(value: Any, folder: Path) -> Any:
    """Replace times and places by words."""
    if isinstance(value, dict):
        return {
            key: "TIME" if key in TIMES else masked(each, folder) for key, each in value.items()
        }
    if isinstance(value, list):
        return [masked(each, folder) for each in value]
    if isinstance(value, str):
        text = value.replace(str(folder), "FOLDER").replace(str(CHECKOUT), "CHECKOUT")
        return re.sub(r"^/\S*/(tasks/\S+\.toml)$", r"CHECKOUT/\1", text)
    return value


if __name__ == "__main__":
    before = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    with tempfile.TemporaryDirectory() as made:
        place = Path(made).resolve()
        setup = Setup(place / "out", EncoderOptions())
        grids = {name: grid_digest(read_grid(file, setup)) for name, file in SHIPPED.items()}
        content = {
            "digests": digests(place) | {"grids": grids},
            "commands": {name: printed(words, place) for name, words in COMMANDS.items()},
            "real": before.get("real"),
        }
        if sys.argv[1:]:
            minilm = printed(RUN_MINILM, place)
            content["real"] = data_digests(Path(sys.argv[1])) | {"run minilm": minilm}
    FILE.write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
