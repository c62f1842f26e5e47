"""Plug-ins: what one module of another package registers is known everywhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from standins import QUERIES, SOURCES, Bench

from polarity_bench import registers
from polarity_bench.conformance import _wrong_weights, check_objects
from polarity_bench.encoders.load import load_encoder
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.metrics.register import METRICS, Metric
from polarity_bench.registers import Register
from polarity_bench.results.result_files import read_results
from polarity_bench.scores import WEIGHTINGS, ScoreKey, Weighting
from polarity_bench.sweeps import execute
from polarity_bench.tasks.catalogue import KINDS
from polarity_bench.training.recipes import RECIPES

TOYS = Path(__file__).parent / "toys"
REGISTERS: tuple[Register[Any], ...] = (METRICS, WEIGHTINGS, KINDS, RECIPES)
Install = Callable[[str], None]


def unread(registers: tuple[Register[Any], ...] = REGISTERS) -> None:
    """Let registers look for plug-ins again."""
    for register in registers:
        register.__dict__.pop("entry_points", None)
        register._is_complete = False


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package with these entry points; its modules are in `toys` or in the folder."""
    for register in REGISTERS:
        monkeypatch.setattr(register, "_known", dict(register._known))
        monkeypatch.setattr(register, "packages", dict(register.packages))
    before = {*sys.modules}

    def put(entry_points: str) -> None:
        info = tmp_path / "site" / "toy_scores-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-scores\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        for path in (TOYS, tmp_path / "site"):
            monkeypatch.syspath_prepend(str(path))
        unread()

    yield put
    monkeypatch.undo()
    unread()
    for name in {*sys.modules} - before:
        if name.startswith(("toy_", "broken_")):
            del sys.modules[name]


SCORES = """[polarity_bench.metrics]
first_hit = toy_scores:FIRST_HIT
gain = toy_scores:GAIN
miss_rate = toy_scores:MISS_RATE
[polarity_bench.weightings]
steep = toy_scores:STEEP
"""


def nearest_hits(model: str) -> list[list[bool]]:
    """Whether each source has the label of the query, in order of rank."""
    encoder = load_encoder(model)
    sources = encoder.encode([text for text, _ in SOURCES])
    hits = []
    for text, label in QUERIES:
        query = encoder.encode([text])[0]
        cosine = sources @ query / np.linalg.norm(sources, axis=1)
        hits.append([SOURCES[i][1] == label for i in np.argsort(-cosine)])
    return hits


def cells(text: str, column: str, stripped: str = " *") -> list[str]:
    lines = [line for line in text.splitlines() if line[:1] == "|"]
    head, _, *rows = (
        [cell.strip(stripped) for cell in line.strip("|").split("|")] for line in lines
    )
    return [row[head.index(column)] for row in rows]


def test_a_metric_and_a_weighting_of_one_module_are_known_everywhere(
    bench: Bench, task_dir: Path, tmp_path: Path, install: Install
) -> None:
    run = ("run", "--tasks", "mini", "--task-dir", task_dir, "--output", "board/results", "-m")
    assert "hit@1" not in bench(*run, "random").out
    install(SCORES)
    hits = np.array(nearest_hits("random"))
    table = bench(*run, "random").out
    assert "reused" not in table
    assert cells(table, "hit@1")[0].startswith(f"{100 * hits[:, 0].mean():.2f}")
    assert cells(table, "misses")[0].startswith(f"{100 - 100 * hits[:, :4].mean():.2f}")
    steep = float((hits[:, :4] @ np.array([8, 4, 2, 1]) / 15).mean())
    assert cells(bench(*run, "random", "--columns", "all").out, "P steep") == [f"{100 * steep:.2f}"]
    shown = json.loads(bench(*run, "random", "--json", "--weighting", "steep").out)["results"][0]
    assert shown["reused"]
    assert shown["scores"]["polarity_steep_at_4"] == pytest.approx(steep)
    assert (
        "weights that halve from rank to rank" in bench(*run, "tfidf", "--weighting", "steep").out
    )
    (result, _) = read_results(tmp_path / "board" / "results")
    assert {ScoreKey("first_hit", 4), ScoreKey("joint", 4, "steep")} <= {*result.scores}

    (tmp_path / "board" / "board.toml").write_text('weighting = "steep"\n')
    board = bench("leaderboard", "board").out
    assert "Ranks are weighted by 'steep': weights that halve from rank to rank." in board
    assert f"{100 * steep:.2f}" in {cell.split(" ")[0].strip("*") for cell in cells(board, "P")}
    assert f"{100 * hits[:, 0].mean():.2f}" in {cell.split()[0] for cell in cells(board, "hit@1")}
    misses = [cell for cell in cells(board, "misses", " ") if cell != "-"]
    (best,) = (cell for cell in misses if "**" in cell)
    assert best == min(misses, key=lambda cell: float(cell.split()[0].strip("*")))
    assert bench("leaderboard", "build", "board").code == 0
    page = (tmp_path / "board" / "index.html").read_text(encoding="utf-8")
    assert "Share of queries whose nearest source has their label." in page

    words = ("compare", "random", "tfidf", "-t", "mini", "--task-dir", task_dir)
    compare = (*words, "--results", "board/results", "--measure", "hit@1", "--json")
    compared = json.loads(bench(*compare).out)
    assert compared["measure"] == "first_hit_at_4"
    assert compared["method"].startswith("permutation")
    assert "hit@1 of A" in bench(*compare[:-1]).out
    shown = bench(*words, "--results", "board/results", "--measure", "gain").out
    assert "P of A" in shown  # the component of the score that has a column
    assert bench("explain-score", "hit@1").out.strip() == (
        "hit@1: share of queries whose nearest source has their label"
    )
    explained = bench("explain-score", "P steep").out
    assert "weighted by rank; weights that halve from rank to rank" in explained
    assert bench("explain-score", "steep").out == "steep: weights that halve from rank to rank\n"


def test_an_unknown_weighting_is_answered_with_the_known_ones(bench: Bench) -> None:
    done = bench("run", "--weighting", "unifrom")
    assert done.code == 2
    assert "Invalid value for '--weighting': unknown value 'unifrom'; did you mean 'un" in done.err


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("metrics]\njoint = toy_scores:FIRST_HIT", "'joint' of .*: the name is taken"),
        ("metrics]\nother = toy_scores:FIRST_HIT", "'other' of .*: its `name` is 'first_hit'"),
        ("metrics]\nfirst = toy_scores:STEEP", "'first' of .*: expected a Metric, got Weighting"),
        ("metrics]\nfirst = toy_scores:NOTHING", "'first' of .*: module 'toy_scores' has no attr"),
        (
            "weightings]\na_b = broken_names:AB",
            "'a_b' of .*: its name must have only lower-case letters and digits",
        ),
        ("task_types]\ntoy = toy_scores:STEEP", "'toy' of .*: expected a TaskSpec"),
        ("recipes]\ntoy = broken_names:gone", "'toy' of .*: module 'broken_names' has no attr"),
        ("metrics]\nhit_of_a = broken_names:OF", "'hit_of_a' of .*: .* another score has the"),
        ("metrics]\npositive = broken_names:P", "'positive' of .*: the title 'P' is taken; cho"),
        ("metrics]\nsum = broken_names:SUM", "'sum' of .*: unknown component 'polarty'; did you"),
        ("recipes]\nbare = broken_names:Bare", "'bare' of .*: `sources`, .*, is missing; add it"),
    ],
    ids=[
        *("taken", "other-name", "other-type", "missing", "bad-name", "task-type", "recipe"),
        *("name-of-part", "title", "component", "no-sources"),
    ],
)
def test_a_broken_plug_in_is_named_and_takes_nothing_down(
    tmp_path: Path, install: Install, entry: str, problem: str
) -> None:
    install(
        f"[polarity_bench.{entry}\n[polarity_bench.metrics]\nfirst_hit = toy_scores:FIRST_HIT\n"
        if "metrics]" not in entry
        else f"[polarity_bench.{entry}\nfirst_hit = toy_scores:FIRST_HIT\n"
    )
    module = """from dataclasses import dataclass
from polarity_bench.metrics.register import Metric
from polarity_bench.scores import Weighting
from polarity_bench.training.recipes.base import Recipe
AB = Weighting("a_b", "no", lambda k: k)
OF = Metric("hit_of_a", "no")
P = Metric("positive", "no", title="P")
SUM = Metric("sum", "no", components=("polarty",))
@dataclass(frozen=True, kw_only=True)
class Bare(Recipe):
    name = "bare"
"""
    (tmp_path / "site" / "broken_names.py").write_text(module)
    with pytest.warns(InputWarning, match=f"{problem}"):
        known = [name for register in REGISTERS for name in register]
    assert {"first_hit", "joint", "linear", "polarity", "margins"} <= {*known}
    assert isinstance(METRICS["joint"].of_means, type(METRICS["retention"].of_means))


def test_a_metric_without_a_value_per_query_is_refused_by_name(
    bench: Bench, task_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Metric("bad", "no values", of_queries=lambda *_: np.zeros(3))
    monkeypatch.setitem(METRICS, "bad", bad)
    done = bench("run", "-m", "random", "--tasks", "mini", "--task-dir", task_dir)
    assert done.code == 2
    assert (
        "the metric 'bad' must return a finite number or NaN for each of the 8 queries" in done.err
    )


@pytest.mark.parametrize(
    "weights",
    ["np.ones(k)", "np.ones(1)", "np.full(k, np.nan)", "np.arange(k) - k / 2 + 1 / 2 + 1 / k"],
)
def test_wrong_weights_are_refused_where_they_are_used(
    bench: Bench, task_dir: Path, tmp_path: Path, install: Install, weights: str
) -> None:
    install("[polarity_bench.weightings]\nheavy = broken_heavy:HEAVY\n")
    (tmp_path / "site" / "broken_heavy.py").write_text(
        "import numpy as np\nfrom polarity_bench.scores import Weighting\n"
        f"HEAVY = Weighting('heavy', 'no', lambda k: {weights})\n"
    )
    done = bench("run", "-m", "random", "--tasks", "mini", "--task-dir", task_dir)
    assert done.code == 2
    named = "the weighting 'heavy' of the package 'toy-scores': for k = 4, expected 4 weights"
    assert named in done.err


def test_an_error_of_a_metric_names_its_package_and_the_line(
    bench: Bench, task_dir: Path, tmp_path: Path, install: Install
) -> None:
    install("[polarity_bench.metrics]\nodd = broken_odd:ODD\n")
    (tmp_path / "site" / "broken_odd.py").write_text(
        "from polarity_bench.metrics.register import Metric\n"
        "ODD = Metric('odd', 'no', of_queries=lambda found, _:\n    found.hit)\n"
    )
    done = bench("run", "-m", "random", "--tasks", "mini", "--task-dir", task_dir)
    assert done.code == 2
    assert "the package 'toy-scores' does not work: AttributeErr" in done.err
    assert "broken_odd.py, line 3)" in done.err
    assert "Traceback" not in done.err


BROKEN_TYPE = """
from polarity_bench.tasks.types.polarity.task import PolaritySpec
class Stuck(PolaritySpec):
    kind: str
    def load(self, access, settings):
        raise KeyError("nothing here")
"""
BROKEN_RECIPE = """
from dataclasses import dataclass
from toy_recipe import Nudge
@dataclass(frozen=True, kw_only=True)
class Stuck(Nudge):
    name = "stuck"
    def fit(self, context, examples, epochs):
        raise KeyError("nothing here")
"""


@pytest.mark.parametrize(
    ("group", "module", "words"),
    [
        ("task_types", BROKEN_TYPE, ["neighbours", "warm", "-m", "random", "-t", "mini"]),
        (
            "task_types",
            BROKEN_TYPE,
            ["explain", "-m", "random", "--against", "tfidf", "-t", "mini"],
        ),
        ("recipes", BROKEN_RECIPE, ["train", "--recipe", "stuck", "-t", "mini", "-o", "x", "-m"]),
        (
            "task_types",
            BROKEN_TYPE.replace("KeyError", "FileNotFoundError"),
            ["neighbours", "warm", "-m", "random", "-t", "mini"],
        ),
        (
            "recipes",
            BROKEN_RECIPE.replace("KeyError", "FileNotFoundError"),
            ["train", "--recipe", "stuck", "-t", "mini", "-o", "x", "-m"],
        ),
    ],
)
def test_an_error_of_a_plug_in_names_its_package_in_every_command(
    bench: Bench,
    task_dir: Path,
    tiny_model: Path,
    tmp_path: Path,
    install: Install,
    group: str,
    module: str,
    words: list[str],
) -> None:
    install(f"[polarity_bench.{group}]\nstuck = broken_stuck:Stuck\n")
    (tmp_path / "site" / "broken_stuck.py").write_text(module)
    if group == "task_types":
        file = task_dir / "mini.toml"
        file.write_text(file.read_text().replace('kind = "polarity"', 'kind = "stuck"'))
    else:
        words = [*words, str(tiny_model)]
    done = bench(*words, "--task-dir", task_dir)
    assert done.code == 2, done.err
    error = "FileNotFoundError: nothing" if "FileNotFound" in module else "KeyError: 'nothing"
    assert f"the package 'toy-scores' does not work: {error} here" in done.err
    assert "broken_stuck.py, line " in done.err
    assert "Traceback" not in done.err


def test_of_packages_in_one_namespace_the_broken_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, the first package of the namespace was named."""
    points = [
        EntryPoint(name, f"broken_space.{name}.of", "polarity_bench.metrics")
        for name in ("one", "two")
    ]
    scope: dict[str, Any] = {"__name__": "broken_space.two.inner"}
    exec("def fail():\n    1 / 0", scope)
    with pytest.raises(ZeroDivisionError) as raised:
        scope["fail"]()
    monkeypatch.setattr(registers, "entry_points", lambda group: points * ("metrics" in group))
    blamed = registers.plugin_failure(raised.value)
    assert str(blamed).startswith("the package 'broken_space.two.of' does not work: ZeroDiv")


def test_an_error_of_a_plug_in_without_a_message_fails_the_item_and_the_check(
    tiny_model: Path, tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a check whose error had no message passed, and a sweep did not name the package."""
    install("[polarity_bench.recipes]\nstuck = broken_stuck:Stuck\n")
    module = BROKEN_RECIPE.replace('raise KeyError("nothing here")', "raise AssertionError")
    (tmp_path / "site" / "broken_stuck.py").write_text(module)
    said = "the package 'toy-scores' does not work: AssertionError: "
    assert problems(str(tiny_model))["stuck"]["trains"].startswith(said)
    nothing: Any = SimpleNamespace(name="one")
    monkeypatch.setattr(execute, "_make", lambda *_: RECIPES["stuck"].fit(*[nothing] * 4))
    assert execute._attempt(nothing, nothing, tmp_path / "log").why.startswith(said)


@pytest.mark.parametrize(("register", "name"), [(METRICS, "first_hit"), (WEIGHTINGS, "steep")])
def test_a_new_version_of_a_metric_or_weighting_is_scored_again(
    bench: Bench,
    task_dir: Path,
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    register: Register[Any],
    name: str,
) -> None:
    install(SCORES)
    run = ("run", "--tasks", "mini", "--task-dir", task_dir, "-m", "random", "--json")

    def reused() -> bool:
        return bool(json.loads(bench(*run).out)["results"][0]["reused"])

    assert (reused(), reused()) == (False, True)
    monkeypatch.setitem(register._known, name, replace(register[name], version=2))
    assert (reused(), reused()) == (False, True)
    monkeypatch.setitem(register._known, name, replace(register[name], version=1))
    assert not reused()


def test_a_wrong_group_is_named_by_the_checks(install: Install) -> None:
    install("[polarity_bench.metric]\nfirst_hit = toy_scores:FIRST_HIT\n")
    wrong = "unknown entry-point group 'polarity_bench.metric'; did you mean 'polarity_bench.metri"
    with pytest.raises(InputError, match=wrong):
        problems()


def test_weightings_of_others_are_named_as_they_are(install: Install) -> None:
    install(SCORES)
    assert [each.words for each in WEIGHTINGS.values()] == [
        "weighted linearly",
        "weighted uniformly",
        "weighted by 'steep': weights that halve from rank to rank",
    ]


RECIPES_OF_TOYS = """[polarity_bench.recipes]
nudge = toy_recipe:Nudge
clashing = toy_recipe:Clashing
"""
BAD_SCORES = """[polarity_bench.metrics]
lucky = toy_scores:LUCKY
joint = toy_scores:FIRST_HIT
"""


def problems(model: str = "") -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for check in check_objects("toy-scores", model):
        found.setdefault(check.name, {})[check.check] = check.problem
    return found


def test_good_metrics_and_weightings_pass_all_checks(install: Install) -> None:
    install(SCORES)
    passed = dict.fromkeys(["loads", "bounds", "resumes", "repeats"], "")
    names = ["first_hit", "gain", "miss_rate"]
    assert problems() == dict.fromkeys(names, passed) | {"steep": {**passed, "weights": ""}}


def test_bad_metrics_fail_the_checks_that_they_break(install: Install) -> None:
    install(BAD_SCORES)
    with pytest.warns(InputWarning, match="'joint' of .*: the name is taken"):
        found = problems()
    assert found["joint"] == {
        "loads": "its `name` is 'first_hit'; give the entry point the same name"
    }
    assert found["lucky"].pop("bounds") == "expected a score from 0 to 0.6, got 0.75; set `bounds`"
    assert "has 75.00 on lucky_at_16, and chance is 50.00" in found["lucky"].pop("chance")
    assert set(found["lucky"].values()) == {""}


@pytest.mark.parametrize("k", [1, 2, 16])
def test_weights_with_another_sum_are_found(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    heavy = Weighting("heavy", "no sum of 1 at one k", lambda n: np.full(n, 1 / n + (n == k)))
    monkeypatch.setitem(WEIGHTINGS, "heavy", heavy)
    expected = f"the weighting 'heavy': for k = {k}, expected {k} weights of at least 0"
    assert _wrong_weights("heavy").startswith(expected)
    assert _wrong_weights("linear") == ""


def test_recipes_are_trained_by_the_checks(tiny_model: Path, install: Install) -> None:
    install(RECIPES_OF_TOYS)
    found = problems(str(tiny_model))
    assert found["nudge"] == dict.fromkeys(["loads", "options", "trains", "resumes", "repeats"], "")
    failure = found["clashing"].pop("trains")
    assert failure.startswith("the package 'toy-scores' does not work: ValueError: no idea how (")
    assert found["clashing"] == {
        "loads": "",
        "options": "other options are named task; rename the parameters",
    }
