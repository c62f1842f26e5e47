"""The gate of `run --fail-under`: a fall beyond chance, what it is held against, CI's example."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from standins import QUERIES, SOURCES, BagEncoder, Bench, Done, HashEncoder, write_task
from test_pages import ROOT, parse

from polarity_bench.compare import gate, gate_baseline
from polarity_bench.compare.alignment import Alignment, align
from polarity_bench.compare.paired_comparison import Comparison, compare
from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.base import ABSENT, AbsentEncoder, Encoder
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.metrics.significance import detectable_difference, sign_flip_p
from polarity_bench.metrics.statistics import N_PAIRED_SAMPLES
from polarity_bench.results.result_files import Result, read_result, read_results, write_result
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.catalogue import load_suites, read_task
from polarity_bench.tasks.types.base import Settings, Task
from polarity_bench.values import FloatArray

P, JOINT = ScoreKey("polarity", 4), ScoreKey("joint", 4)
MARKUP = "<img src=x onerror=alert(1)>|[x](javascript:1) *warm*"


def load(task_dir: Path, name: str = "mini", **settings: Any) -> Task:
    task = read_task(task_dir / f"{name}.toml")
    return task.load(DataAccess(offline=True), Settings(**settings))


def put(
    task: Task,
    encoder: Encoder | str,
    folder: Path | str,
    polarity: FloatArray | None = None,
    reference: Encoder | str | None = None,
) -> Result:
    """Store a result of an encoder, with other values of P where they are given."""
    result = evaluate(encoder, task, reference=reference)
    if polarity is not None:
        arrays = {**result.arrays, str(P): polarity.astype(np.float32)}
        scores = {**result.scores, P: Score.single(float(polarity.mean()), len(polarity))}
        result = replace(result, arrays=arrays, scores=scores)
    return read_result(write_result(result, folder))


@pytest.fixture
def task(task_dir: Path) -> Task:
    return load(task_dir)


@pytest.fixture
def stored(task: Task, tmp_path: Path) -> Result:
    return put(task, BagEncoder("ash"), tmp_path / "results")


def synthetic(old: FloatArray, new: FloatArray, stored: Result) -> Alignment:
    return Alignment((stored, stored), P, ({str(P): old}, {str(P): new}))


def fall_of(pair: Alignment) -> Comparison:
    return compare(pair, 0, alternative="less")


# The test


def test_a_fall_is_tested_for_and_a_gain_is_none(stored: Result) -> None:
    generator = np.random.default_rng(0)
    old = generator.random(40)
    new = old - 0.1 + 0.3 * generator.standard_normal(40)
    found = fall_of(synthetic(old, new, stored))
    assert found.test.difference == pytest.approx(np.mean(new - old))
    assert found.test.p == sign_flip_p(new - old) / 2
    low, high = found.test.interval
    assert low < found.test.difference < high
    assert (found.test.p < 0.05) == (high < 0)
    gain = fall_of(synthetic(new, old, stored))
    assert gain.test.p == 1 - found.test.p
    assert gain.test.interval == pytest.approx((-high, -low))
    assert found.detectable == pytest.approx(
        detectable_difference(float(np.std(new - old)), 40, alpha=0.1), rel=0.05
    )
    same = fall_of(synthetic(old, old, stored))
    assert (same.test.difference, same.test.p, same.falls) == (0, 1, False)
    assert np.isnan(same.detectable)


def test_joint_falls_where_few_samples_do_not(task: Task, tmp_path: Path) -> None:
    one = put(task, BagEncoder("ash"), tmp_path, reference=BagEncoder("base"))
    two = put(task, BagEncoder("maple"), tmp_path, reference=BagEncoder("base"))
    for pair in (align([one, two], JOINT), align([two, one], JOINT)):
        found = fall_of(pair)
        first, second = pair.resampled(N_PAIRED_SAMPLES)
        n_not = sum(b >= a for a, b in zip(first.tolist(), second.tolist(), strict=True))
        assert found.method.startswith("bootstrap")
        assert found.test.p == (n_not + 1) / (N_PAIRED_SAMPLES + 1)
        assert found.test.interval == pytest.approx(tuple(np.percentile(second - first, [5, 95])))


def test_false_alarms_are_seldom_and_what_can_be_seen_is_seen(stored: Result) -> None:
    """200 pairs of equal versions, and of ones that are worse by what the gate says it shows."""
    generator = np.random.default_rng(1)
    hard = generator.random(40)
    shows = detectable_difference(0.2 * np.sqrt(2), 40, alpha=0.1)
    n_alarms = n_caught = 0
    for _ in range(200):
        old, new = hard + 0.2 * generator.standard_normal((2, 40))
        held = fall_of(synthetic(old, new, stored))
        n_alarms += held.test.p < 0.05
        n_caught += fall_of(synthetic(old, new - shows, stored)).test.p < 0.05
        assert held.detectable == pytest.approx(shows, rel=0.5)
    assert 0.01 < n_alarms / 200 < 0.09
    assert 0.71 < n_caught / 200 < 0.89


def test_tasks_are_corrected_for_each_other(task_dir: Path, tmp_path: Path) -> None:
    """Five of eight queries fall: p is 1 / 32, enough for one task and not for two."""
    better = np.array([1.0] * 5 + [0.5] * 3)
    worse = better - 0.25 * (better == 1)
    stored: dict[str, list[Result]] = {"old": [], "new": []}
    tasks = []
    for name in ("mini", "other", "third"):
        write_task(task_dir, name)
        tasks.append(load(task_dir, name))
        stored["old"].append(put(tasks[-1], BagEncoder("ash"), tmp_path, better))
        stored["new"].append(put(tasks[-1], BagEncoder("maple"), tmp_path, worse))
    new = BagEncoder("maple").id

    def judged(n: int) -> gate.Gate:
        found = gate_baseline.baselines(stored["old"], tasks[:n], new, p_alone=True)
        return gate.judge(found, stored["new"])

    assert [*judged(3).uncorrected] == [1 / 32] * 3
    assert [each.test.p for each in judged(1).comparisons] == [1 / 32]
    assert [each.test.p for each in judged(3).comparisons] == [3 / 32] * 3
    assert judged(1).fallen == ["mini"]
    assert (judged(3).fallen, judged(3).is_open) == ([], True)
    assert judged(3).comparisons[0].detectable > judged(1).comparisons[0].detectable
    found = gate_baseline.baselines(stored["old"], tasks, new, p_alone=True)
    lacking = gate.judge(found, stored["new"][:2])
    assert (lacking.failed, lacking.fallen, lacking.is_open) == (("third",), [], False)


def test_what_is_no_longer_defined_has_fallen(stored: Result) -> None:
    found = fall_of(synthetic(np.full(8, 0.5), np.full(8, np.nan), stored))
    assert np.isnan(found.test.p)
    assert found.falls


# The command


def stand_in(monkeypatch: pytest.MonkeyPatch, encoder: Encoder) -> None:
    monkeypatch.setattr("polarity_bench.encoders.load.load_encoder", lambda *_: encoder)


def ran(bench: Bench, task_dir: Path, *more: str | Path, tasks: str = "mini") -> Done:
    return bench("run", "-m", "random", "-t", tasks, "--task-dir", task_dir, *more)


def gate_of(done: Done) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.out)["gate"]
    return found


def test_the_same_encoder_passes(bench: Bench, task_dir: Path, task: Task) -> None:
    put(task, "random", "baseline")
    done = ran(bench, task_dir, "--fail-under", "baseline")
    assert done.code == 0
    assert "gate: random is the baseline itself\n" in done.err
    assert "\n**gate: no significant decrease from baseline**\n" in done.out
    assert "The baseline is in `baseline/random/" in done.out
    assert re.search(r"\| mini +\| joint, k = 4 .*\| 0\.00 .*\| 1\.0000 .*\| holds +\|", done.out)


def test_a_fall_ends_with_1_after_all_is_stored_and_said(
    bench: Bench, task_dir: Path, task: Task
) -> None:
    put(task, BagEncoder(MARKUP), "baseline", np.ones(8))
    write_task(task_dir, "other")
    done = ran(bench, task_dir, "--fail-under", "baseline", "--p-alone", tasks="mini,other")
    assert done.code == 1
    made = {result.task: result for result in read_results(Path("results"))}
    assert set(made) == {"mini", "other"}
    new = made["mini"].scores[P].mean
    head, _, text = done.out.partition("## Gate: random ")
    assert "| mini" in head
    assert text.partition(" against ")[2].startswith(
        r"&lt;img src=x onerror=alert(1)&gt;\|\[x\](javascript:1) \*warm\*"
    )
    (row,) = re.findall(r"^\| mini.*", text, flags=re.M)
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    difference = f"{100 * (new - 1):+.2f}"
    assert cells[:5] == ["mini", "P, k = 4", "100.00", f"{100 * new:.2f}", difference]
    assert cells[-1] == "falls"
    assert "gate: the baseline has no results of these tasks: other\n" in done.err
    verdict = "gate: fell below baseline: mini; S not compared: mini; not in the baseline: other"
    assert f"\n**{verdict}**\n" in done.out
    digests = [result.key.encoder.digest for result in made.values()]
    assert digests[0] in text, "two encoders may have one name"


def test_json_is_one_value_with_the_gate(bench: Bench, task_dir: Path, task: Task) -> None:
    path = put(task, BagEncoder("ash"), "baseline", np.ones(8)).path
    done = ran(bench, task_dir, "--fail-under", path, "--p-alone", "--json")
    found = gate_of(done)
    assert (done.code, found["passed"], found["baseline"]) == (1, False, str(path))
    assert (found["s_not_compared"], found["not_compared"]) == (["mini"], [])
    (held,) = found["comparisons"]
    arrays = load_file(Path(held["new"]["file"]).with_suffix(".queries.safetensors"))
    lost = arrays[str(P)].astype(float) - 1
    assert held["difference"] == pytest.approx(lost.mean())
    assert held["p"] == held["p_corrected"] == 0.5 ** np.count_nonzero(lost)
    assert (held["task"], held["measure"], held["falls"]) == ("mini", str(P), True)
    assert (held["baseline"]["encoder"], held["interval_level"]) == ("ash", 0.9)
    assert held["interval"][0] <= held["difference"] <= held["interval"][1] < 0
    refused = ran(bench, task_dir, "--fail-under", "none", "--json")
    assert refused.code == 2
    error = json.loads(refused.out)["error"]
    assert error.startswith("--fail-under none: neither a result file")
    assert error.endswith(
        ". The same command with --output none in place of --fail-under makes a baseline"
    )


def test_joint_is_compared_where_both_have_one_reference(
    bench: Bench, task_dir: Path, task: Task
) -> None:
    put(task, BagEncoder("ash"), "baseline", reference="random")
    put(task, BagEncoder("ash"), "baseline", reference="constant")
    put(task, BagEncoder("ash"), "baseline")
    for words in (["--reference", "random"], []):  # which is its own reference
        (held,) = gate_of(ran(bench, task_dir, "--fail-under", "baseline", *words, "--json"))[
            "comparisons"
        ]
        assert held["measure"] == str(JOINT)
        assert held["method"] == "bootstrap, 10,000 samples"
        assert "reference_random" in held["baseline"]["file"]
    uniform = ("--weighting", "uniform", "--json")
    (held,) = gate_of(ran(bench, task_dir, "--fail-under", "baseline", *uniform))["comparisons"]
    assert held["measure"] == "joint_uniform_at_4"


def test_what_joint_is_made_of_stands_beside_it(bench: Bench, task_dir: Path, task: Task) -> None:
    """A gain of P may hide that meaning was forgotten."""
    put(task, BagEncoder("ash"), "baseline", reference="random")
    words = ("--fail-under", "baseline", "--reference", "random")
    (held,) = gate_of(ran(bench, task_dir, *words, "--json"))["comparisons"]
    results = [read_result(Path(held[side]["file"])) for side in ("baseline", "new")]
    for metric in ("polarity", "retention"):
        stored = [result.scores[ScoreKey(metric, 4)].mean for result in results]
        assert held[metric] == pytest.approx(stored)
    shown = ran(bench, task_dir, *words).out
    assert f"{100 * held['retention'][0]:.2f} to {100 * held['retention'][1]:.2f}" in shown
    assert "joint can stay the same although the encoder loses meaning" in shown


def test_a_baseline_in_the_output_folder_is_read_before_it_is_replaced(
    bench: Bench, task_dir: Path, task: Task
) -> None:
    path = put(task, "random", "results", np.ones(8)).path
    done = ran(bench, task_dir, "--fail-under", "random", "--overwrite", "--json")
    assert read_result(path).scores[P].mean < 1
    (held,) = gate_of(done)["comparisons"]
    assert held["measure"] == str(JOINT)
    assert held["difference"] < 0
    assert (done.code, held["falls"]) == (1, True)


def test_a_task_that_fails_or_is_skipped_does_not_pass(
    bench: Bench, task_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_task(task_dir, "odd", queries=[("A text of its own.", "1"), *QUERIES])
    write_task(task_dir, "gone")
    for name in ("mini", "odd", "gone"):
        put(load(task_dir, name), BagEncoder("ash"), "baseline")
    (task_dir / "gone-query.csv").unlink()
    stand_in(monkeypatch, HashEncoder(spoiled=["A text of its own."], spoil=0.0))
    for tasks, lost in (("odd,mini,gone", ["odd", "gone"]), ("mini,gone", ["gone"])):
        words = ("--fail-under", "baseline", "--skip-missing", "--json", "--p-alone")
        done = ran(bench, task_dir, *words, tasks=tasks)
        assert (done.code, gate_of(done)["passed"], gate_of(done)["failed"]) == (1, False, lost)
        assert [each["task"] for each in gate_of(done)["comparisons"]] == ["mini"]
        said = f"gate: no result: {', '.join(lost)}; S not compared: mini"
        assert gate_of(done)["verdict"].startswith(said)


# What cannot be held against


def refused(bench: Bench, task_dir: Path, *words: str | Path, tasks: str = "mini") -> str:
    """Run with a baseline that must be refused before anything is made; return why."""
    done = ran(bench, task_dir, *words, tasks=tasks)
    assert (done.code, done.out) == (2, "")
    assert not Path("results").exists()
    assert done.err.startswith("error: --fail-under ")
    assert done.err.count("\n") == 1
    return done.err.removeprefix("error: --fail-under ").rstrip("\n")


@pytest.mark.parametrize(
    ("words", "tasks", "message"),
    [
        (
            "none",
            "mini",
            "none: neither a result file nor a folder with results, and the",
        ),
        (
            "empty",
            "mini",
            "empty: neither a result file nor a folder with results, and",
        ),
        (
            "baseline",
            "other",
            "baseline: no task in common: the run has other, and the baseline has mini;",
        ),
        ("two", "mini", "two: matches 2 encoders; choose one of "),
        (
            "baseline --limit 6",
            "mini",
            "the baseline is complete, but the run is cut to 6 queries; use the same",
        ),
        ("baseline --k 2", "mini", "the baseline has no polarity_at_2; use the same --k"),
        ("baseline -m tfidf", "mini", "compares one encoder with a baseline; give only one"),
        ("baseline --strength 0,1", "mini", "give only one --model, and at most one --strength"),
    ],
)
def test_bad_input_is_refused_before_anything_is_made(
    bench: Bench, task_dir: Path, task: Task, words: str, tasks: str, message: str
) -> None:
    put(task, BagEncoder("ash"), "baseline")
    for name in ("ash", "maple"):
        put(task, BagEncoder(name), "two")
    Path("empty").mkdir()
    write_task(task_dir, "other")
    assert message in refused(bench, task_dir, "--fail-under", *words.split(), tasks=tasks)


def test_another_version_of_task_or_data_is_refused(
    bench: Bench, task_dir: Path, task: Task
) -> None:
    result = put(task, BagEncoder("ash"), "baseline", reference=BagEncoder("base"))
    command = "polarity-bench run --model ash --tasks mini"
    made = replace(result, environment={**result.environment, "command": command})
    write_result(made, "baseline")
    folder = Path("baseline", "ash", result.key.encoder.digest)
    again = f"; remove {folder}, and make the baseline again, with the weights that it had; "
    again += f"its command was: {command}"
    write_task(task_dir, head="version = 2")
    said = refused(bench, task_dir, "--fail-under", "baseline")
    assert said.startswith(
        f"{result.path}: cannot be compared with this run: the task's digest is '"
    )
    assert said.endswith(f"in the run (versions 1 and 2){again}")
    write_task(task_dir, queries=[*QUERIES, ("One more warm walk.", "1")])
    said = refused(bench, task_dir, "--fail-under", "baseline")
    assert f"the data's digest is {result.key.data!r} in the baseline and '" in said
    needed = "; the test needs the same queries and sources, so use the baseline's data, or "
    assert said.endswith(f"in the run{needed}{again.removeprefix('; ')}")


def test_values_per_query_must_be_there(bench: Bench, task_dir: Path, task: Task) -> None:
    result = evaluate(BagEncoder("ash"), task)
    without = {name: each for name, each in result.arrays.items() if name != str(P)}
    path = write_result(replace(result, arrays=without), "baseline")
    file = path.with_suffix(".queries.safetensors")
    said = refused(bench, task_dir, "--fail-under", path.parent, "--p-alone")
    assert said.startswith(f"{path}: the values per query lack 'polarity_at_4'")
    file.write_text("version https://git-lfs.github.com/spec/v1\n")
    said = refused(bench, task_dir, "--fail-under", "baseline", "--p-alone")
    assert said.startswith(f"{file}: the file is damaged or a Git LFS pointer (")
    file.unlink()
    said = refused(bench, task_dir, "--fail-under", "baseline", "--p-alone")
    assert said.startswith(f"{file}: the values per query are missing")
    assert said.endswith(f"; its command was: {result.environment['command']}")


def test_the_results_of_a_run_are_not_written_into_its_baseline(
    bench: Bench, task_dir: Path, task: Task
) -> None:
    put(task, BagEncoder("ash"), "baseline")
    for output in ("baseline", "baseline/new"):
        done = ran(bench, task_dir, "--fail-under", "baseline", "--output", output)
        assert done.code == 2
        assert done.err.startswith(f"error: --output {output}: is in the baseline --fail-under b")
    assert {result.key.encoder.name for result in read_results(Path("baseline"))} == {"ash"}


def test_a_reference_that_the_run_has_lost_is_refused(
    bench: Bench, task_dir: Path, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = put(task, "constant", "base").key.encoder
    put(task, BagEncoder("ash"), "tuned", reference="constant")
    put(task, BagEncoder("ash"), "alone")
    gone = AbsentEncoder(replace(base, weights=ABSENT + base.weights), "it is gone")
    for found, lost in ((None, ["tuned"]), (gone, ["tuned", "base"])):
        loaded = found and SimpleNamespace(load=lambda _, found=found: found)
        place = "polarity_bench.encoders.reference_encoder.distinct_base"
        monkeypatch.setattr(place, lambda *_, b=loaded: b)
        for named in lost:
            done = ran(bench, task_dir, "--fail-under", named)
            assert (done.code, Path("results").exists()) == (2, False)
            here = "which is not available in this run" if found else "this run with "
            assert f"measures S with constant ({base.digest}), {here}" in done.err
            remedy = "use the same --reference for both"
            remedy = remedy if found else "evaluate with the --reference of the baseline, constant"
            assert f"; {remedy}" in done.err
            assert ", or compare only P with --p-alone" in done.err


def test_a_gate_without_a_common_reference_lets_no_forgetting_through(
    bench: Bench, task_dir: Path, task: Task
) -> None:
    """An encoder that is its own reference keeps all of S: P alone would let forgetting pass."""
    ash, random = put(task, BagEncoder("ash"), "baseline"), evaluate("random", task)
    for words in ([], ["--reference", "tfidf"]):
        done = ran(bench, task_dir, "--fail-under", "baseline", *words)
        assert (done.code, done.out) == (2, "gate: S not compared\n")
        assert not Path("results").exists()
        there = f"measures S with ash ({ash.key.encoder.digest}), this run with "
        own = f"random ({random.key.encoder.digest}), the encoder itself; "
        own = "tfidf (" if words else own
        assert there + own in done.err
        assert "use the same --reference for both, or compare only P with --p-alone" in done.err
    alone = ran(bench, task_dir, "--fail-under", "baseline", "--p-alone")
    assert alone.code in (0, 1)
    assert "; S not compared: mini**" in alone.out
    useless = ran(bench, task_dir, "--p-alone")
    assert useless.code == 2
    assert "--p-alone has no effect without --fail-under" in useless.err


def test_too_few_queries_are_refused(bench: Bench, task_dir: Path) -> None:
    write_task(task_dir, "few", queries=[*QUERIES[:2], *QUERIES[-2:]], sources=SOURCES)
    put(load(task_dir, "few"), BagEncoder("ash"), "baseline")
    said = refused(bench, task_dir, "--fail-under", "baseline", "--p-alone", tasks="few")
    assert said.endswith("too few queries for a test, got 4; use at least 6")


# The example for GitHub Actions


def steps() -> Sequence[dict[str, Any]]:
    yaml: Any = pytest.importorskip("yaml")
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", page(), flags=re.M | re.S)
    (job,) = yaml.safe_load(text)["jobs"].values()
    found: Sequence[dict[str, Any]] = job["steps"]
    return found


def page() -> str:
    return (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")


def commands(text: str) -> list[list[str]]:
    lines = text.replace("\\\n", " ").splitlines()
    return [line.split("|")[0].split() for line in lines if line.startswith("polarity-bench")]


def test_every_command_of_the_page_is_one() -> None:
    blocks = "\n".join(re.findall(r"^```bash\n(.*?)^```$", page(), flags=re.M | re.S))
    workflow = "\n".join(step["run"] for step in steps() if "run" in step)
    assert any("--fail-under" in words for words in commands(workflow))
    asked = [parse(words) for words in [*commands(workflow), *commands(blocks)]]
    own = [each for each in asked if each.get("task_dir")]
    assert [each["tasks"] for each in own] == ["reviews"]
    asked = [each for each in asked if each not in own]
    known = {task for tasks in load_suites().values() for task in tasks}
    assert {
        name for each in asked for name in (each.get("tasks") or "").split(",") if name
    } <= known
    assert {each.get("tasks", each.get("task")) for each in asked} == {"sst2"}


def test_a_pipe_of_the_workflow_keeps_the_exit_code() -> None:
    """Without `shell: bash`, GitHub runs bash without pipefail, and `tee` would pass a fall."""
    piped = [step for step in steps() if re.search(r"\|\s*tee ", step.get("run", ""))]
    assert len(piped) == 1
    assert all(step["shell"] == "bash" for step in piped)
