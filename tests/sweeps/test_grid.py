"""Grids: what a TOML file expands to, and what it is refused for."""

from __future__ import annotations

import json
import re
import runpy
from functools import cache
from pathlib import Path

import pytest

from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError
from polarity_bench.sweeps.grid import SHIPPED, Grid, grid_file, read_grid
from polarity_bench.sweeps.items import CrossValidation, Evaluation, Setup, Training
from polarity_bench.sweeps.plan import PlanItem, SweepPlan, write_plan
from polarity_bench.tasks.senteval.presets import PRESETS, Preset, choose_preset
from polarity_bench.training.objective import OBJECTIVES
from polarity_bench.training.recipes.axis.recipe import Axis
from polarity_bench.training.recipes.margins.losses import Contrastive, Triplet
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.training.recipes.scl.recipe import Scl

GRID = """
title = "Losses"
tasks = ["stsb", "contrast"]

[all]
task = "contrast"
epochs = 1

[[train]]
model = ["minilm", "./here"]
loss = ["triplet", "contrastive"]
margin = [0.1, 0.5]
skip = [{ loss = "contrastive", margin = 0.1 }]

[[train]]
recipe = "axis"
head = "tuned"
prompt = "query: "

[[evaluate]]
model = ["random", "minilm"]
"""


def read(folder: Path, text: str = GRID) -> Grid:
    (folder / "grid.toml").write_text(text)
    return read_grid(folder / "grid.toml", Setup(folder / "out", EncoderOptions()))


def test_a_grid_is_every_combination_but_those_to_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    grid = read(tmp_path)
    assert grid.title == "Losses"
    here = str(tmp_path / "here")
    first, *others = grid.trainings
    assert isinstance(first.job.recipe, Margins)
    assert first.job.recipe.epochs == 1
    assert first.tasks == ["contrast", "stsb"]
    made = [
        (each.job.model, each.job.recipe.loss)
        for each in grid.trainings
        if isinstance(each.job.recipe, Margins)
    ]
    assert made == [
        (model, loss)
        for model in ("minilm", here)
        for loss in (Triplet(margin=0.1), Triplet(margin=0.5), Contrastive(margin=0.5))
    ]
    last = others[-1].job
    assert isinstance(last.recipe, Axis)
    assert (last.recipe.head, last.recipe.epochs, last.options.prompt) == ("tuned", 1, "query: ")


def test_evaluations_are_encoders_by_suites_and_protocols(tmp_path: Path) -> None:
    block = """
[[evaluate]]
model = ["random", "minilm"]
suite = ["sts", "transfer"]
preset = ["papers", "literature"]

[[evaluate]]
model = "minilm"
tasks = ["SentEvalMR", "stsb", "mr"]
kfold = 3
"""
    items = [item for item in read(tmp_path, block).items if isinstance(item, Evaluation)]
    assert len(items) == 2 * 2 * 2 + 1 == len({item.digest for item in items})
    first, last = items[0], items[-1]
    assert first.name == "random as it is, preset papers"
    assert {"sts12", "stsb"} <= set(first.tasks)
    assert first.protocols.of(Preset) == PRESETS["papers"]
    assert items[1].protocols.of(Preset) == PRESETS["literature"]
    assert last.tasks == ["mr", "stsb"]
    assert last.protocols.of(Preset) == choose_preset(kfold=3) != PRESETS["exact"]
    assert last.given == {"kfold": 3}


def test_a_task_may_go_by_its_name_in_mteb(tmp_path: Path) -> None:
    mteb = read(tmp_path, GRID.replace('task = "contrast"', 'task = "ContrastPolarityRetrieval"'))
    assert {item.digest for item in mteb.items} == {item.digest for item in read(tmp_path).items}


def test_bases_and_encoders_named_are_evaluated_once(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    items = read(tmp_path).items
    n_first = len([item for item in items if isinstance(item, Evaluation)])
    found = items[:n_first]
    assert all(isinstance(item, Training) for item in items[n_first:])
    assert [(item.model, list(item.tasks)) for item in found if isinstance(item, Evaluation)] == [
        ("minilm", ["contrast", "stsb"]),
        (str(tmp_path / "here"), ["contrast", "stsb"]),
        ("minilm", ["contrast", "stsb"]),  # with the prompt
        ("random", ["stsb", "contrast"]),
    ]
    assert len({item.digest for item in items}) == len(items)


def test_a_base_is_evaluated_once_on_all_that_its_trainings_are(tmp_path: Path) -> None:
    text = """
tasks = ["stsb"]

[[train]]
task = ["contrast", "sst2"]
seed = [0, 1]

[[evaluate]]
model = "minilm"
tasks = ["mr"]
"""
    items = read(tmp_path, text).items
    (base,) = [item for item in items if isinstance(item, Evaluation)]
    assert list(base.tasks) == ["contrast", "stsb", "sst2", "mr"]
    assert {item.after for item in items[1:]} == {base.digest}


def test_a_folder_stays_that_of_a_job_also_when_it_is_gone_or_copied(tmp_path: Path) -> None:
    text = '[[train]]\ntask = "contrast"\nloss = ["triplet", "mnrl"]\n'
    first = read(tmp_path, text).trainings[0].job.output
    (tmp_path / "out").mkdir()
    planned = PlanItem("0", "training", "any", 1.0, {}, first.name)
    write_plan(SweepPlan("any", [planned]), tmp_path / "out")
    grown = read(tmp_path, text + "seed = [0, 1]\n").trainings[0].job.output
    assert grown == first, "its results are called by that name"
    (first.parent / f"copy-of-{first.name}").mkdir(parents=True)
    first.mkdir()
    assert read(tmp_path, text).trainings[0].job.output == first
    (tmp_path / "out" / "sweep.json").write_text("{}")
    with pytest.raises(InputError, match="not written by a sweep"):
        read(tmp_path, text)


def test_trainings_are_named_by_the_settings_in_which_they_differ(tmp_path: Path) -> None:
    grid = read(
        tmp_path, '[[train]]\ntask = "contrast"\nloss = ["triplet", "mnrl"]\nseed = [0, 1]\n'
    )
    assert [each.name for each in grid.trainings] == [
        "loss triplet, seed 0",
        "loss triplet, seed 1",
        "loss mnrl, seed 0",
        "loss mnrl, seed 1",
    ]
    folders = [each.job.output.name for each in grid.trainings]
    assert folders[0] == f"triplet-seed0-{grid.trainings[0].job.digest[:12]}"
    assert len(set(folders)) == 4


def test_a_training_keeps_its_folder_when_the_grid_grows(tmp_path: Path) -> None:
    text = '[[train]]\ntask = "contrast"\nseed = [0, 1]\n'
    first = read(tmp_path, text).trainings[0]
    first.job.output.mkdir(parents=True)
    (first.job.output / "train.json").touch()
    grown = read(tmp_path, text + '[[train]]\ntask = "contrast"\nloss = "mnrl"\n').trainings[0]
    assert grown.name == "seed 0"
    assert grown.job.output == first.job.output
    assert grown.job.digest == first.job.digest
    again = read(tmp_path, f'tasks = ["stsb"]\n{text}').trainings[0]
    assert again.job.output == first.job.output, "it is evaluated on more, and not trained again"
    assert again.digest != first.digest


def test_no_name_becomes_a_path(tmp_path: Path) -> None:
    text = '[[train]]\ntask = "contrast"\nmodel = ["../../etc", "a/b c"]\n'
    for each in read(tmp_path, text).trainings:
        assert each.job.output.parent == tmp_path / "out" / "runs"
        assert re.fullmatch(r"[\w.-]+", each.job.output.name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"triplet"', '"tripplet"'), r"line 11: `loss`: unknown loss 'tripplet'; did you"),
        (("[0.1, 0.5]", "[]"), r"line 12: 'margin' must not be an empty list"),
        (("margin = [0.1, 0.5]\nskip = [", "margin = -1\n#"),
         r"line 12: `margin` must be above 0, got -1"),
        (("[[train]]", "[[trian]]"), r"line 9: unknown key 'trian'; did you mean 'train'\?"),
        (("epochs = 1", "epocs = 1"), r"line 7: `epocs`: the recipe 'margins' has no such"),
        (('"axis"', '"axes"'), r"line 16: `recipe`: unknown recipe 'axes'; did you mean 'axis'\?"),
        (('head = "tuned"', 'head = "tunde"'), r"line 17: `head`: unknown value 'tunde'"),
        (('task = "contrast"\n', ""), r"line 8: `task`: missing; name the task to train on"),
        (("{ loss =", "{ los ="), r"line 13: 'skip': unknown setting 'los'; did you mean 'loss'\?"),
        (("margin = 0.1 }", "margin = [0.1, 0.5] }, {loss = 'triplet'}"), r"line 13: 'skip' excl"),
        (("{ loss = 'contrastive'".replace("'", '"'), '{ loss = "contrastiv"'),
         r"line 13: 'skip': 'contrastiv' is not a value of 'loss' in this block; did"),
        (("margin = 0.1 }", "margin = 0.2 }"), r"line 13: 'skip': 0\.2 is not a value of 'margin'"),
        (("[[train]]", "[all.axi]\nlabels = 9\n[[train]]"), r"line 9: 'all.axi': unknown recipe"),
        (("[[train]]", "[all.scl]\nlamda_ = 9\n[[train]]"),
         r"line 10: \[all\.scl\]: unknown setting 'lamda_'; did you mean 'lambda_'"),
        (("[[train]]\nrec", "[all.margins]\nrate = 1\n[all.axis]\nrate = -1\n[[train]]\nrec"),
         r"line 18: `rate` must be above 0"),
        (("skip = [", "skip = 3 # ["), r"line 13: 'skip' must be a list of tables"),
        (("title =", "tilte ="), r"line 2: unknown key 'tilte'; did you mean 'title'\?"),
        (('["stsb", "contrast"]', '"stsb"'), r"line 3: 'tasks' must be a list, got 'stsb'"),
        (('["random", "minilm"]', "3"), r"line 21: 'model' must be text, got 3"),
        (('["random", "minilm"]', '""'), r"line 21: 'model' must be non-empty"),
        (('["triplet",', '[["triplet"],'), r"line 11: 'loss' must not contain lists or tables"),
        (('["random"', '["random"]\nkk = [4'), r"line 22: unknown key 'kk'; did you mean 'k'"),
        (('["random"', '["random"]\nk = [4'), r"line 22: 'k' must be an integer, got 'minilm'"),
        (('["random", "minilm"]', '"random"\nk = 0'), r"line 22: `k` must be at least 1, got 0"),
        (
            ('["random", "minilm"]', '"random"\nsuite = "stss"'),
            r"line 22: .*unknown suite 'stss'; did you mean 'sts'",
        ),
        (
            ('["random", "minilm"]', '"random"\nsuite = "sts"\ntasks = ["mr"]'),
            r"line 22: `suite`: give `suite` or `tasks`, not both",
        ),
        (
            ('["random", "minilm"]', '"random"\npreset = "paper"'),
            r"line 22: .*`preset` 'paper'; did you mean 'papers'",
        ),
        (
            ('["random", "minilm"]', '"random"\ntasks = ["mmr"]'),
            r"line 22: .*unknown task 'mmr'; did you mean 'mr'",
        ),
        (('"stsb", "contrast"', '"stsbb"'), r"line 3: `tasks`: unknown task 'stsbb'"),
        (('task = "contrast"', 'task = "contras"'), r"line 6: `task`: unknown task 'contras'"),
        (
            ('task = "contrast"', 'task = "mteb:NusaX-senti"'),
            r"line 6: `task`: the task 'mteb:NusaX-senti' has 12 subsets; choose one: mteb:NusaX-",
        ),
        (('prompt = "query: "', "prompt = 3"), r"line 18: 'prompt' must be text, got 3"),
        (("[all]", "[all]\naxis = 1979-05-27"), "no such setting"),
        (("epochs = 1", "epochs = "), r"grid\.toml: not valid TOML"),
        (("epochs = 1", f"epochs = 0x1{'0' * 9000}"), r"grid\.toml: not valid TOML: Exceeds the l"),
        (("epochs = 1", "epochs = " + "[" * 5000), r"grid\.toml: not valid TOML: maximum recursio"),
        (('recipe = "axis"\nhead = "tuned"\nprompt = "query: "', 'loss = "triplet"\nmargin = 0.5'),
         r"two training runs have the same settings: 'model minilm, loss triplet, margin 0\.5' an"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    text = GRID.replace("./here", "glove:x").replace(*change, 1)
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_a_list_on_several_lines_does_not_end_its_block(tmp_path: Path) -> None:
    text = '[[cross-validate]]\ntask = "mr"\nseeds = [\n    [2],\n    [16]\n]\nlos = "cce"\n'
    with pytest.raises(InputError, match="line 7: `los`: no loss in the block"):
        read(tmp_path, text)


def test_an_equal_block_is_refused_before_its_combinations_are_made(tmp_path: Path) -> None:
    block = '[[train]]\ntask = "contrast"\nloss = ["triplet", "mnrl"]\n'
    with pytest.raises(InputError, match=r"line 7: \[\[train\]\] block 3 repeats block 1; delete"):
        read(tmp_path, f'{block}[[train]]\ntask = "sst2"\nloss = "mnrl"\n{block}')


def test_a_block_of_too_many_combinations_is_refused_at_once(tmp_path: Path) -> None:
    many = "".join(f"{key} = {[*range(1, 101)]}\n" for key in ("seed", "epochs", "batch_size"))
    text = f'[[train]]\ntask = "contrast"\n{many}loss = ["triplet", "mnrl"]\n'
    with pytest.raises(InputError, match="has 2,000,000 combinations, at most 1,000,000 fit"):
        read(tmp_path, text)


@pytest.mark.parametrize("text", ["", 'title = "x"\n[all]\ntask = "contrast"\n'])
def test_a_grid_of_nothing_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="the grid has no items; add a"):
        read(tmp_path, text)


def test_thousands_of_trainings_expand(tmp_path: Path) -> None:
    text = (
        f'[[train]]\ntask = "contrast"\nseed = {list(range(50))}\nepochs = {list(range(1, 41))}\n'
    )
    assert len(read(tmp_path, text).trainings) == 2_000


SHIPPED_COUNTS = {
    "margins": (2 * 4 * 8 * 17, 0),
    "margins-best": (2 * 4 * 3 * 6, 0),
    "sample-size": (2 * 8 * 2 * 3 * 3, 0),
    "scl": (6 + 5 + 2 * 2 + 1 + 2, 0),
    "triple-entropy": (0, 7 * (1 + 3 * 5 * 7 * 7 * 5)),
    "fewshot": (0, 6 * 7 * 3),
    "axis": (3 * (6 + 4 + 4), 0),
    "smoke": (2 * (3 * 2 + 2), 0),
}
"""Trainings and cross-validations of each."""
UNCHANGED = runpy.run_path(str(Path(__file__).parents[1] / "golden" / "make_unchanged.py"))


@cache
def shipped(name: str) -> Grid:
    return read_grid(grid_file(name), Setup(Path("/nowhere"), EncoderOptions()))


def validations_of(grid: Grid) -> list[CrossValidation]:
    return [item for item in grid.items if isinstance(item, CrossValidation)]


@pytest.mark.parametrize("name", SHIPPED_COUNTS)
def test_the_grids_that_are_shipped(name: str) -> None:
    grid = shipped(name)
    validations = validations_of(grid)
    assert (len(grid.trainings), len(validations)) == SHIPPED_COUNTS[name]
    assert set(SHIPPED) == set(SHIPPED_COUNTS)
    said = re.findall(r"([\d,]+) (?:train|cross-valid)", SHIPPED[name].read_text())
    whole = {f"{len(several):,}" for several in (grid.trainings, validations) if several}
    if name in ("scl", "triple-entropy", "fewshot"):
        assert set(said) == whole, "the count in its head"
    expected = json.loads(UNCHANGED["FILE"].read_text(encoding="utf-8"))["digests"]["grids"]
    assert UNCHANGED["grid_digest"](grid) == expected[name]
    assert set(expected) == set(SHIPPED_COUNTS)


def test_supervised_contrast_is_that_of_the_papers_tables() -> None:
    grid = shipped("scl")
    recipes = [each.job.recipe for each in grid.trainings if isinstance(each.job.recipe, Scl)]
    assert len(recipes) == len(grid.trainings)
    contrasted = {
        (each.lambda_, each.temperature, each.positives, each.negatives)
        for each in recipes
        if each.lambda_
    }
    tables_4_and_6 = {(share, 1.0, "all", "all") for share in (0.1, 0.3, 0.5, 0.7, 0.9)}
    tables_5_and_7 = {(0.5, t, "all", "all") for t in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)}
    tables_2_and_3 = {(share, 1.0, 3, n) for share in (0.5, 1.0) for n in (3, "all")}
    alone = {(1.0, 1.0, "all", "all")}
    assert contrasted == tables_4_and_6 | tables_5_and_7 | tables_2_and_3 | alone
    baselines = [
        (each.cross_entropy, each.positives, each.negatives) for each in recipes if not each.lambda_
    ]
    assert baselines == [("pairs", "all", "all"), ("augmented", "all", "all"), ("augmented", 3, 3)]
    assert {each.pairs for each in recipes} == {
        "nli/snli_1.0_train_subset.jsonl.gz"  # below no folder: it is looked for in the data's
    }
    evaluated = grid.trainings[0].tasks
    assert [task for task in evaluated if task.startswith("sts")] == [
        f"sts{year}" for year in range(12, 17)
    ]
    assert set(evaluated[6:]) == {
        "mr", "cr", "subj", "mpqa", "sst2-transfer", "sst5", "trec", "mrpc",
    }  # fmt: skip


def test_the_papers_protocols_are_cross_validated() -> None:
    folds = {
        name: {
            (each.protocol.folds, each.protocol.rows, each.protocol.sample, each.protocol.seeds)
            for each in validations_of(shipped(name))
        }
        for name in ("triple-entropy", "fewshot")
    }
    assert folds == {
        "triple-entropy": {(5, None, 1000, (2, 16, 128, 2048))},
        "fewshot": {(40, rows, None, (0,)) for rows in (20, 100, 1000)},
    }
    few = validations_of(shipped("fewshot"))
    assert {each.settings["loss"] for each in few} == set(OBJECTIVES)
    epochs = {(each.protocol.rows, each.method.to_dict()["epochs"]) for each in few}
    assert epochs == {(20, 128), (100, 64), (1000, 8)}


def test_a_grid_that_is_nowhere_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"`grid` margin: no such file or packaged grid; .* 'margins'"
    ):
        grid_file("margin")
