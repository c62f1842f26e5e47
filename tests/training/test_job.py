"""Jobs: one value that pickles, is written and read back, and says what it is about."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError
from polarity_bench.training.job import Job
from polarity_bench.training.recipes.margins.losses import Ranking, Triplet
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.training.recipes.scl.recipe import Scl
from polarity_bench.training.recipes.setfit.recipe import SetFit

JOB = Job(Margins(), "minilm", "sst2", Path("runs/x"))
EVERYTHING = Job(
    recipe=Margins(
        loss=Ranking(temperature=0.2),
        warm_up="as-released",
        rate=1e-7,
        examples_from=Path('a "quoted"\\path'),
        report_to="tab\tand \x7f and 😀",
    ),
    model="org/model",
    task="emotion",
    output=Path("out"),
    options=EncoderOptions(prompt="", device="cpu", max_tokens=64, trust_remote_code=True),
    data_dir=Path("/data"),
    task_dir=Path("tasks"),
    store=True,
)


@pytest.mark.parametrize(
    "job", [JOB, EVERYTHING, replace(JOB, recipe=SetFit(samples_per_class="all"))]
)
def test_a_job_is_the_same_after_a_pickle_and_after_toml(job: Job) -> None:
    assert pickle.loads(pickle.dumps(job)) == job
    assert Job.from_toml(job.to_toml()) == job.resolve_paths(Path.cwd())
    assert Job.from_toml(job.to_toml()).digest == job.digest


def test_paths_in_a_file_are_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "jobs"
    for name in ("base", "minilm"):
        (folder / name).mkdir(parents=True)
    file = folder / "job.toml"
    file.write_text(
        'model = "base"\ntask = "sst2"\noutput = "../x"\ntask_dir = "/tasks"\ndata_dir = "~/data"\n'
        '[recipe]\nexamples_from = "made"\n'
    )
    monkeypatch.chdir(tmp_path)
    read = Job.read(Path("jobs/job.toml"))
    assert (read.model, read.output) == (str(folder / "base"), folder / "../x")
    assert (read.task_dir, read.data_dir) == (Path("/tasks"), Path.home() / "data")
    assert read.recipe == Margins(examples_from=folder / "made")
    for name in ("minilm", "org/model", "random", "glove"):
        file.write_text(f'model = "{name}"\ntask = "sst2"\noutput = "x"\n[recipe]\n')
        assert Job.read(file).model == name, "no folder, though one may be called so"


def test_a_job_that_is_written_is_the_same_wherever_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here/base", "there"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    recipe = Margins(example_encoder="glove:vectors.txt")
    job = Job(recipe, "base", "sst2", Path("x"), task_dir=Path("tasks"))
    file = tmp_path / "there" / "job.toml"
    file.write_text(job.to_toml())
    digest = job.digest
    monkeypatch.chdir(tmp_path)
    read = Job.read(file)
    here = tmp_path / "here"
    assert (read.model, read.output, read.task_dir) == (
        str(here / "base"),
        here / "x",
        here / "tasks",
    )
    assert read.recipe == Margins(example_encoder=f"glove:{here / 'vectors.txt'}")
    assert read.digest == digest


def test_files_of_pairs_are_relative_to_the_file_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "a.jsonl").touch()
    file = folder / "job.toml"
    names = "a.jsonl, ./b.jsonl,../c.jsonl,hub:org/nli,nli/of-the-data-folder.jsonl"
    begun = 'model = "minilm"\ntask = "sst2"\noutput = "x"\n[recipe]\nname = "scl"\n'
    file.write_text(f'{begun}pairs = "{names}"\n')
    monkeypatch.chdir(tmp_path)
    read = Job.read(Path("jobs/job.toml"))
    places = [str(folder / name) for name in ("a.jsonl", "b.jsonl", "../c.jsonl")]
    expected = ",".join([*places, "hub:org/nli", "nli/of-the-data-folder.jsonl"])
    assert read.recipe == Scl(pairs=expected)
    assert Job.from_toml(read.to_toml()).recipe == read.recipe
    file.write_text(begun)
    assert Job.read(file).recipe == Scl()


def test_a_folder_that_is_to_come_is_one_by_its_dot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, it could as well be a repository of the hub."""
    monkeypatch.chdir(tmp_path)
    job = Job(Margins(), "./runs/a", "sst2", Path("runs/b"))
    digest, written = job.digest, Job.from_toml(job.to_toml())
    assert written.model == str(tmp_path / "runs" / "a")
    (tmp_path / "runs" / "a").mkdir(parents=True)
    assert (job.digest, written.digest) == (digest, digest)
    assert Job.from_toml(Job(Margins(), "org/a", "sst2", Path("b")).to_toml()).model == "org/a"


def test_no_prompt_and_the_default_one_are_told_apart() -> None:
    none = replace(JOB, options=EncoderOptions(prompt=""))
    assert Job.from_toml(none.to_toml()).options.prompt == ""
    assert Job.from_toml(JOB.to_toml()).options.prompt is None
    assert none.digest != JOB.digest


def test_what_is_left_out_has_its_default() -> None:
    text = 'model = "minilm"\ntask = "sst2"\noutput = "runs/x"\n[recipe]\nname = "margins"\n'
    assert Job.from_toml(text) == JOB
    assert Job.from_toml(text.replace('name = "margins"', "")) == JOB
    assert Job.from_toml(f"{text}[recipe.loss]\nmargin = 1\n").recipe == Margins(
        loss=Triplet(margin=1.0)
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("model =", "model :", "invalid TOML: "),
        ("seed = 0", "seed = " + "[" * 5000, "invalid TOML: maximum recursion depth exceeded"),
        ('name = "margins"', "name = [1]", "unknown recipe [1]"),
        ('task = "sst2"', "", "the job 'train' needs the parameter 'task'"),
        ('task = "sst2"', "task = 2", "`task` must be text, got 2"),
        ("store = false", 'store = "no"', "`store` must be true or false, got 'no'"),
        (
            "store =",
            "stores =",
            "unknown parameter 'stores' of the job 'train'; did you mean 'store'?",
        ),
        (
            "allow_pickle =",
            "pickle =",
            "[options]: unknown key 'pickle'; did you mean 'allow_pickle",
        ),
        ("seed = 0", "seeds = 0", "unknown parameter 'seeds' of the recipe 'margins'; did you"),
        ("epochs = 5", "epochs = 2.5", "`epochs` must be an integer, got 2.5"),
        ('name = "margins"', 'name = "margin"', "unknown recipe 'margin'; did you mean 'margins'"),
        ('name = "margins"', "name = 5", "unknown recipe 5"),
    ],
)
def test_a_file_that_says_no_job_is_refused_by_its_name(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    text = JOB.to_toml()
    assert old in text
    file = tmp_path / "job.toml"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=f"job.toml: .*{re.escape(said)}"):
        Job.read(file)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('max_tokens = "many"', "'max_tokens' must be an integer, got 'many'"),
        ("prompt = 5", "'prompt' must be text, got 5"),
        ('allow_pickle = "perhaps"', "'allow_pickle' must be true or false"),
        ('dtype = "bfloat16"', "the base must be loaded in float32, got bfloat16"),
    ],
)
def test_options_that_are_not_what_they_should_be_are_refused(line: str, said: str) -> None:
    text = 'model = "m"\ntask = "t"\noutput = "o"\n[recipe]\nname = "margins"\n[options]\n'
    assert Job.from_toml(text + 'trust_remote_code = "false"').options.trust_remote_code is False
    with pytest.raises(InputError, match=re.escape(said)):
        Job.from_toml(text + line)


def test_a_recipe_that_is_no_table_is_refused() -> None:
    with pytest.raises(InputError, match=r"`recipe`: expected a table such as {name"):
        Job.from_toml('recipe = "margins"\nmodel = "m"\ntask = "t"\noutput = "o"\n')


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.toml"):
        Job.read(tmp_path / "nowhere.toml")


def test_the_digest_is_over_what_decides_what_comes_out() -> None:
    moving: list[dict[str, Any]] = [
        {"recipe": Margins(seed=1)},
        {"recipe": SetFit()},
        {"recipe": Margins(loss=Triplet(margin=0.2))},
        {"recipe": Margins(examples_from=Path("a"))},
        {"model": "other"},
        {"task": "emotion"},
        {"options": EncoderOptions(max_tokens=8)},
        {"options": EncoderOptions(revision="main")},
    ]
    digests = {replace(JOB, **change).digest for change in moving}
    assert len(digests | {JOB.digest}) == len(moving) + 1
    aside: list[dict[str, Any]] = [
        {"recipe": Margins(report_to="tensorboard")},
        {"output": Path("elsewhere"), "data_dir": Path("d"), "task_dir": Path("t"), "store": True},
        {"options": EncoderOptions(device="cpu", offline=True)},
    ]
    assert {replace(JOB, **change).digest for change in aside} == {JOB.digest}
