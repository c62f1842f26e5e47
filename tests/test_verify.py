"""Published numbers beside measured ones: verdicts, exit codes, and what the project ships."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from standins import BagEncoder, Workshop, write_task

from polarity_bench import verify
from polarity_bench.cli import app
from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.base import EncoderId
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.results.result_files import Result, ResultKey
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.catalogue import load_tasks, read_task
from polarity_bench.tasks.senteval.presets import choose_preset
from polarity_bench.tasks.types.base import Settings, TaskSpec
from polarity_bench.verify import Publication, PublishedScores, compare, publications

HERE = EncoderId("hub/Small-Encoder", "1")


def publication(
    *rows: tuple[str, str, dict[str, float]], tolerance: float = 0.05, close: float = 0.5
) -> Publication:
    return Publication(
        name="made",
        title="A table | made up",
        source="Nobody (2025), Table 0",
        note="By hand.",
        tolerance=tolerance,
        close=close,
        rows=tuple(PublishedScores(encoder=e, task=t, scores=s) for e, t, s in rows),
    )


def result(task: str, **scores: float) -> Result:
    key = ResultKey("t", "d", HERE, None, {"name": "sts-cosine"})
    made = {ScoreKey.parse(name): Score.single(value, 1) for name, value in scores.items()}
    return Result(task, "sts", task, 1, ("eng-Latn",), next(iter(made)), key, made, {})


# Verdicts


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (0.6, "reproduced"),
        (0.6005, "reproduced"),  # by exactly the tolerance
        (0.5995, "reproduced"),
        (0.60051, "close"),
        (0.59949, "close"),
        (0.605, "close"),
        (0.595, "close"),
        (0.60501, "differs"),
        (0.59499, "differs"),
        (0.0, "differs"),
        (float("nan"), "not measured"),
    ],
)
def test_verdicts_at_their_borders(measured: float, verdict: str) -> None:
    made = publication(("small-encoder", "sts12", {"spearman_all": 60.0}))
    (found,) = compare(made, HERE, [result("sts12", spearman_all=measured)])
    assert found.verdict == verdict


def test_what_is_not_there_is_not_measured() -> None:
    made = publication(("small-encoder", "sts12", {"spearman_all": 60.0, "other": 1.0}))
    for results in ([], [result("sts13", spearman_all=0.6)], [result("sts12", pearson_all=0.6)]):
        found = list(compare(made, HERE, results))
        assert [(row.measured, row.difference, row.verdict) for row in found] == [
            (None, None, "not measured")
        ] * 2


def test_differences_are_measured_minus_published() -> None:
    made = publication(("small-encoder", "sts12", {"spearman_all": 60.0}))
    (found,) = compare(made, HERE, [result("sts12", spearman_all=0.58)])
    assert found.difference == pytest.approx(-0.02)
    assert (found.publication, found.task, found.score) == ("made", "sts12", "spearman_all")


@pytest.mark.parametrize(
    ("encoder", "same"),
    [
        (EncoderId("hub/Small-Encoder", "1"), True),
        (EncoderId("small-encoder", "2"), True),
        (EncoderId("hub/small-encoder-v2", "1"), False),
        (EncoderId("hub/small-encoder", "1", prompt="query: "), False),
    ],
)
def test_encoders_are_known_by_the_last_part_of_their_name(encoder: EncoderId, same: bool) -> None:
    made = publication(("small-encoder", "sts12", {"spearman_all": 60.0}))
    assert made.tasks_for(encoder) == (["sts12"] if same else [])
    assert bool(list(compare(made, encoder, []))) == same


def test_a_publication_says_by_which_protocol_it_was_made() -> None:
    made = publication()
    assert made.settings(3) == Settings(of_types=(choose_preset(),), workers=3)
    papers = made.model_copy(update={"preset": "papers"}).settings(2)
    assert papers == Settings(of_types=(choose_preset("senteval-torch", "papers"),), workers=2)


# What is shipped


def test_publications_are_found() -> None:
    assert {p.name for p in publications()} >= {"margins-table-1", "margins-senteval", "stsb"}


@pytest.mark.parametrize("shipped", publications(), ids=lambda p: p.name)
def test_every_publication_cites_its_source_and_names_what_exists(
    shipped: Publication, tmp_path: Path
) -> None:
    assert re.search(r"\(\d{4}\)", shipped.source), "names no year"
    assert re.search(r"Table \d|released", shipped.source), "names no place in its source"
    assert shipped.rows
    assert shipped.tolerance < shipped.close
    known = load_tasks()
    seen = set()
    for row in shipped.rows:
        assert row.task in known, row.task
        assert (row.encoder, row.task) not in seen
        seen.add((row.encoder, row.task))
        unknown = set(row.scores) - score_names(
            known[row.task], tmp_path / f"{row.encoder} {row.task}"
        )
        assert not unknown, row.task
        assert all(-100 <= value <= 100 for value in row.scores.values())


_LITTLE: dict[str, Callable[[Workshop], TaskSpec]] = {
    "labelled-lines": lambda w: w.labelled_lines(),
    "sst-binary": lambda w: w.sst_binary(),
    "sst-fine": lambda w: w.sst_fine(),
    "trec": lambda w: w.trec(),
    "mrpc": lambda w: w.mrpc(),
    "sick-entailment": lambda w: w.sick(relatedness=False),
    "sick-relatedness": lambda w: w.sick(relatedness=True),
    "stsb": lambda w: w.stsb(relatedness=False),
}


def score_names(spec: TaskSpec, folder: Path) -> set[str]:
    """The scores that a task of this sort has, by a little one of the same reader."""
    workshop = Workshop(folder)
    if spec.kind == "polarity":
        workshop.tasks.mkdir(parents=True)
        k = getattr(spec, "protocol").k  # noqa: B009
        little = read_task(write_task(workshop.tasks, k=k))
    else:
        little = _LITTLE[getattr(spec, "reader")](workshop)  # noqa: B009
    quick = Settings(of_types=(choose_preset("senteval-sklearn", kfold=2),))
    access = DataAccess(workshop.data, offline=True) if workshop.data.is_dir() else DataAccess()
    made = evaluate(BagEncoder(), little.load(access, quick))
    return set(made.flat)


@pytest.mark.parametrize(
    "change",
    [{"tolerance": 0}, {"close": -1}, {"preset": "paper"}, {"title": None}, {"tolerence": 1}],
)
def test_a_wrong_file_is_refused(change: dict[str, Any]) -> None:
    values = publication().model_dump() | change
    with pytest.raises(ValidationError):
        Publication.model_validate(values)


# The command


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    made = Workshop(tmp_path / "made")
    made.sts()
    made.sst_binary()
    known = load_tasks(made.tasks)
    monkeypatch.setattr("polarity_bench.tasks.catalogue.load_tasks", lambda *_: known)
    encoder = BagEncoder("hub/Small-Encoder")
    monkeypatch.setattr("polarity_bench.encoders.load.load_encoder", lambda *_: encoder)
    monkeypatch.chdir(tmp_path)
    return made


Verify = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Verify:
    def command(made: Sequence[Publication], *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(verify, "publications", lambda: list(made))
        words = ["polarity-bench", "verify", "--data-dir", str(workshop.data), *arguments]
        monkeypatch.setattr(sys, "argv", [*words, "--workers", "1"])
        with pytest.raises(SystemExit) as exit_:
            app.main()
        captured = capsys.readouterr()
        code = exit_.value.code
        assert code is None or isinstance(code, int)
        return code or 0, captured.out, captured.err

    return command


@pytest.fixture
def spearman(workshop: Workshop) -> float:
    """What the stand-in scores on the little STS, in percent."""
    task = workshop.specs["little-sts"].load(DataAccess(workshop.data), Settings())
    return 100 * evaluate(BagEncoder("hub/Small-Encoder"), task).flat["spearman_all"]


@pytest.mark.parametrize(
    ("offset", "verdict", "code"),
    [(0.04, "reproduced", 0), (-0.3, "close", 0), (2.0, "differs", 1)],
)
def test_the_verdict_decides_the_exit_code(
    command: Verify, spearman: float, offset: float, verdict: str, code: int
) -> None:
    made = publication(("small-encoder", "little-sts", {"spearman_all": spearman + offset}))
    found, out, _ = command([made])
    assert found == code
    assert out.startswith("## A table \\| made up\n\nNobody (2025), Table 0. By hand.\n\n| task")
    row = [cell.strip() for cell in out.splitlines()[-1].strip("|").split("|")]
    assert row[-1] == verdict
    assert row[2:4] == [f"{spearman + offset:.3f}", f"{spearman:.3f}"]
    assert row[4] == f"{-offset:+.3f}"


def test_a_task_is_loaded_once(
    command: Verify, workshop: Workshop, spearman: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(workshop.specs["little-sts"])
    load, loaded = kind.load, []

    def counted(spec: TaskSpec, *arguments: Any) -> Any:
        loaded.append(spec.name)
        return load(spec, *arguments)

    monkeypatch.setattr(kind, "load", counted)
    command([publication(("small-encoder", "little-sts", {"spearman_all": spearman}))])
    assert loaded == ["little-sts"]


def test_what_could_not_be_measured_fails(command: Verify, spearman: float) -> None:
    scores = {"spearman_all": spearman, "no_such_score": 1.0}
    code, out, _ = command([publication(("small-encoder", "little-sts", scores))], "--json")
    assert code == 1
    rows = json.loads(out)
    assert [row["verdict"] for row in rows] == ["reproduced", "not measured"]
    assert (rows[1]["measured"], rows[1]["difference"]) == (None, None)
    assert rows[0]["measured"] == pytest.approx(spearman / 100)
    assert rows[0]["published"] == pytest.approx(spearman / 100)
    assert set(rows[0]) == {
        "publication",
        "task",
        "score",
        "published",
        "measured",
        "difference",
        "verdict",
    }


def test_publications_and_tasks_can_be_chosen(command: Verify, spearman: float) -> None:
    one = publication(("small-encoder", "little-sts", {"spearman_all": spearman}))
    two = publication(
        ("small-encoder", "little-sts", {"spearman_all": spearman}),
        ("small-encoder", "little-sst2", {"accuracy": 1.0}),
    ).model_copy(update={"name": "other"})
    assert {r["publication"] for r in json.loads(command([one, two], "--json")[1])} == {
        "made",
        "other",
    }
    only = json.loads(command([one, two], "--json", "--only", "other")[1])
    assert [(r["publication"], r["task"]) for r in only] == [
        ("other", "little-sts"),
        ("other", "little-sst2"),
    ]
    code, out, _ = command([one, two], "--json", "--tasks", "little-sts")
    assert code == 0
    assert {row["task"] for row in json.loads(out)} == {"little-sts"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "mad"], "--only: unknown publication 'mad'; did you mean 'made'?"),
        (["--tasks", "little-st"], "unknown task 'little-st'; did you mean 'little-sts'"),
        (
            ["--tasks", "little-sst2"],
            "--model: no published scores of hub/Small-Encoder on these tasks; known: ",
        ),
    ],
)
def test_bad_input_ends_with_2(command: Verify, arguments: list[str], message: str) -> None:
    made = publication(
        ("small-encoder", "little-sts", {"spearman_all": 1.0}),
        ("other", "little-sst2", {"accuracy": 1.0}),
    )
    code, out, err = command([made], *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")


def test_missing_data_of_one_publication_leaves_the_others(
    command: Verify, workshop: Workshop, spearman: float
) -> None:
    for path in workshop.data.rglob("sentiment-test"):
        path.unlink()
    rows = [
        publication(("small-encoder", "little-sst2", {"accuracy": 50.0})),
        publication(("small-encoder", "little-sts", {"spearman_all": spearman})).model_copy(
            update={"name": "other"}
        ),
    ]
    code, out, err = command(rows, "--json", "--offline")
    assert code == 1
    assert [(r["task"], r["verdict"]) for r in json.loads(out)] == [
        ("little-sst2", "not measured"),
        ("little-sts", "reproduced"),
    ]
    assert "error: little-sst2: downstream/SST/binary/sentiment-test is not in" in err
