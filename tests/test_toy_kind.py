"""A new kind of task, one module of another package, from command line to board."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from standins import QUERIES, SOURCES, call_several, csv_text, write_task

from polarity_bench.encoders.load import load_encoder
from polarity_bench.errors import InputError
from polarity_bench.results.result_files import read_results
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import load_tasks
from polarity_bench.values import FloatArray

ENTRY_POINTS = """[polarity_bench.task_types]
toy = toy_kind:ToySpec
[polarity_bench.metrics]
put_right = toy_kind:PUT_RIGHT
"""
ROWS = [
    row for pair in zip(SOURCES[:12], SOURCES[12:], strict=True) for row in (*pair, *pair[::-1])
]
ROWS += QUERIES


Run = Callable[..., list[str]]


@pytest.fixture
def bench(tmp_path: Path) -> Run:
    """Return a function that runs command lines beside an installed package with the kind."""
    info = tmp_path / "site" / "toys-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    paths = [
        str(info.parent),
        str(Path(__file__).parent / "toys"),
        os.environ.get("PYTHONPATH", ""),
    ]

    def bench(*lines: Sequence[str | Path], codes: Sequence[int] | None = None) -> list[str]:
        env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        done = call_several(lines, Path.cwd(), env)
        assert [each.code for each in done] == list(codes or [0] * len(lines)), done
        return [each.out + each.err * bool(each.code) for each in done]

    return bench


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "toy.csv").write_text(csv_text(ROWS))
    (folder / "toy.toml").write_text(
        'name = "toy"\nkind = "toy"\ntitle = "Bricks"\n[data]\npath = "toy.csv"\n'
    )
    write_task(folder)
    return folder


def put_right(model: str) -> float:
    """The accuracy, one text at a time."""
    vectors = load_encoder(model).encode([text for text, _ in ROWS])
    sums: dict[str, list[FloatArray]] = {}
    for (_, label), vector in list(zip(ROWS, vectors, strict=True))[::2]:
        sums.setdefault(label, []).append(vector)
    rights = []
    for (_, label), vector in list(zip(ROWS, vectors, strict=True))[1::2]:
        distance = {y: float(((vector - np.mean(v, axis=0)) ** 2).sum()) for y, v in sums.items()}
        rights.append(min(distance, key=distance.__getitem__) == label)
    return sum(rights) / len(rights)


def test_a_toy_kind_runs_from_the_command_line_to_a_board(
    bench: Run, tasks: Path, tmp_path: Path
) -> None:
    wanted = put_right("random")
    assert 0 < wanted < 1
    out = tmp_path / "results"
    place = ("--task-dir", tasks, "--output", out, "--workers", "1")
    random, constant = (("run", "--model", model, *place) for model in ("random", "constant"))
    both = ("--tasks", "toy,mini", "--k", "4")
    compare = ("compare", "constant", "random", "--task", "toy", "--results", out, "--json")
    table, shown, other, board, compared, explained, tested, tested_package, listed = bench(
        (*random, *both),
        (*random, "--tasks", "toy", "--json"),
        (*constant, *both),
        ("leaderboard", out),
        (*compare, "--task-dir", tasks),
        ("explain-score", "put right"),
        ("test", tasks / "toy.toml"),
        ("test", "toys"),
        ("tasks", "--task-dir", tasks),
    )
    assert "put right" in table
    assert "put right" in other
    assert f"{100 * wanted:.1f}" in table
    (again,) = json.loads(shown)["results"]
    assert again["scores"]["put_right"] == pytest.approx(wanted)
    assert again["reused"]
    stored = [result for result in read_results(out) if result.kind == "toy"]
    (result,) = (result for result in stored if result.key.encoder.name == "random")
    assert result.main_score == ScoreKey("put_right")
    assert result.main.mean == pytest.approx(wanted)
    assert result.result_name == "Toy"
    assert result.key.protocol["name"] == "nearest-mean"

    lines = [line for line in board.splitlines() if line[:1] == "|"]
    head, _, *rows = ([cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines)
    column = head.index("Toys (share put right, nearest-mean, 1 task)")
    values = {row[head.index("encoder")]: row[column] for row in rows if row[column] != "-"}
    assert values == {"random": f"{100 * wanted:.2f}", "constant": "50.00"}

    said = json.loads(compared)
    assert said["measure"] == "put_right"
    assert said["difference"] == pytest.approx(wanted - 0.5)
    assert said["method"].startswith("permutation")
    assert "share of texts put into their class" in explained

    assert "| toy " in tested
    assert "put_right | passed" in " ".join(tested_package.split())
    assert any("toy" in line and "Bricks" in line for line in listed.splitlines())


class Broken(NamedTuple):
    """A fault of the toy task type: a text of its module, what stands there, and what is said."""

    text: str
    instead: str
    problem: str


NO_COUNTS = Broken(
    "    def counts(",
    "    def sizes(",
    "the package 'toys' does not work: TypeError: Can't instantiate abstract class ToyTask ",
)
MOVING_DIGEST = Broken(
    "digest_of([self.rows.texts, self.rows.labels])",
    "digest_of(str(hash(tuple(self.rows.texts))))",
    "`digest` or `protocol` differs in another process, so that no result is reused",
)


@pytest.mark.parametrize("broken", [NO_COUNTS, MOVING_DIGEST], ids=["no-counts", "moving-digest"])
def test_faults_of_a_task_type_are_named(
    bench: Run, tasks: Path, tmp_path: Path, broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    module = Path(__file__).parent / "toys" / "toy_kind.py"
    text = module.read_text(encoding="utf-8")
    assert text.count(broken.text) == 1
    (tmp_path / "site" / "toy_kind.py").write_text(text.replace(broken.text, broken.instead))
    lines: list[tuple[str | Path, ...]] = [("test", tasks / "toy.toml")]
    if broken is NO_COUNTS:
        lines.append(("run", "-m", "random", "--task-dir", tasks, "--tasks", "toy"))
    tested, *ran = bench(*lines, codes=[1, 2][: len(lines)])
    assert broken.problem in " ".join(tested.replace("\\", "").split())
    assert all(broken.problem in each for each in ran)


def test_an_unregistered_kind_is_refused_with_the_known_ones(tasks: Path) -> None:
    with pytest.raises(
        InputError, match=r"toy\.toml: unknown kind 'toy'; known: opposite, polarity, pro"
    ):
        load_tasks(tasks)
