"""What a run leaves where packages or figures are missing, and the code that its card shows."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standins import Bench
from standins.training import SMALL, run

from polarity_bench import evaluate, load_task
from polarity_bench.errors import InputWarning
from polarity_bench.training.recipes import RECIPES
from polarity_bench.training.recipes.axis.recipe import Axis
from polarity_bench.training.recipes.base import Recipe
from polarity_bench.training.recipes.scl.recipe import Scl
from polarity_bench.training.recipes.setfit.recipe import SetFit
from polarity_bench.training.recipes.triple_entropy import TripleEntropy

RUNS: dict[str, Recipe] = {
    "margins": replace(SMALL, epochs=1, held_out=0, checkpoint="last"),
    "axis linear": Axis(),
    "axis tuned": Axis(head="tuned", epochs=1, batch_size=12),
    "axis stretched": Axis(stretch=2.0),
    "setfit": SetFit(samples_per_class=3, pairs=20, batch_size=8),
    "scl": Scl(batch_size=3, rate=1e-3),
    "triple-entropy": TripleEntropy(epochs=1, batch_size=12),
}


def test_every_recipe_is_among_the_runs() -> None:
    assert {recipe.name for recipe in RUNS.values()} == set(RECIPES)


@pytest.mark.parametrize("named", RUNS)
def test_the_code_of_a_card_loads_the_encoder(
    named: str, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    from test_scl import write_pairs

    recipe = RUNS[named]
    if isinstance(recipe, Scl):
        recipe = replace(recipe, pairs=str(write_pairs(tmp_path / "pairs.jsonl")))
    folder = run(tiny_model, task_dir, tmp_path / "x", recipe).folder
    card = (folder / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^## Use\n.*?^```python\n(.*?)^```$", card, flags=re.M | re.S)
    assert "path/to/this/folder" in code
    values: dict[str, Any] = {}
    exec(code.replace("path/to/this/folder", str(folder)), values)
    if named in {"axis linear", "axis tuned"}:
        assert values["documents"].shape == (2, 34)
        assert values["similarities"].shape == (2,)
        assert np.isfinite(values["similarities"]).all()
    else:
        assert values["vectors"].shape == (2, 32)


def test_a_result_of_evaluate_says_how_the_encoder_was_trained(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    folder = run(tiny_model, task_dir, tmp_path / "x", RUNS["margins"]).folder
    result = evaluate(folder, load_task("mini", task_dir=task_dir))
    assert result.training is not None
    assert result.training["recipe"]["name"] == "margins"
    assert result.training["seed"] == SMALL.seed


def test_a_missing_package_for_the_figure_stops_no_training(
    tiny_model: Path, task_dir: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make run` installs no altair, and the README's dial is trained after it."""
    monkeypatch.setitem(sys.modules, "altair", None)
    words = ["--model", tiny_model, "--task", "mini", "--task-dir", task_dir, "--no-store"]
    done = bench("train", "--recipe", "axis", *words, "--output", "axis")
    assert done.code == 0, done.err
    assert "warning: history.svg is not drawn: altair and vl-convert are not installed" in done.err
    assert Path("axis/history.csv").is_file()
    assert not Path("axis/history.svg").exists()
    assert "history.svg" not in Path("axis/README.md").read_text(encoding="utf-8")
    with pytest.warns(InputWarning, match=r"not installed; .*pip install -e '\.\[report\]'"):
        run(tiny_model, task_dir, Path("margins"), RUNS["margins"])
