"""Two encoders on one task: pairs or none, the difference and its test, the command."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from standins import QUERIES, QUICK, SOURCES, BagEncoder, Bench, Done, Workshop, write_task

from polarity_bench.compare.alignment import Alignment, align
from polarity_bench.compare.encoder_ranks import pairwise
from polarity_bench.compare.measure import measure_of
from polarity_bench.compare.paired_comparison import compare, contenders, pair_up
from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.metrics.significance import detectable_difference, sign_flip_p
from polarity_bench.results.result_files import Result, read_arrays, read_result, write_result
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.catalogue import load_task, read_task
from polarity_bench.tasks.senteval.presets import choose_preset
from polarity_bench.tasks.types.base import Settings, Task
from polarity_bench.tasks.types.polarity.scoring import derived
from polarity_bench.values import FloatArray

MARKUP = "<img src=x onerror=alert(1)>|[x](javascript:1) *warm*"
QUERIES_TOO = [*QUERIES, (MARKUP, "1"), ("Nothing but a *dull* | tense walk.", "0")]
K = ("polarity", "similarity", "joint", "retention", "front")


@pytest.fixture
def task(task_dir: Path) -> Task:
    """The task `mini` with ten queries, one of them markup."""
    write_task(task_dir, queries=QUERIES_TOO)
    return read_task(task_dir / "mini.toml").load(DataAccess(offline=True), Settings())


def put(
    task: Task, name: str, folder: Path = Path("results"), reference: str | None = "base"
) -> Result:
    """Evaluate an encoder of words, by a reference of another name, and store its result."""
    other = BagEncoder(reference) if reference else None
    return read_result(write_result(evaluate(BagEncoder(name), task, reference=other), folder))


@pytest.fixture
def pair(task: Task, tmp_path: Path) -> tuple[Result, Result]:
    return put(task, "ash", tmp_path / "results"), put(task, "maple", tmp_path / "results")


def digest(result: Result) -> str:
    return result.key.encoder.digest


def rewritten(result: Result, **changed: Any) -> Result:
    """Store a result again with another key, its arrays kept."""
    key = replace(result.key, **changed)
    written = replace(result, key=key, arrays=read_arrays(result.path))
    return replace(written, path=write_result(written, result.path.parents[2]))


# What is aligned


def test_a_name_in_its_own_case_is_taken_before_others(pair: tuple[Result, Result]) -> None:
    one, _ = pair
    keys = {part: ScoreKey("polarity", 4, part=part) for part in ("US", "us", "UK")}
    of_parts = dict.fromkeys(keys.values(), one.scores[ScoreKey("polarity", 4)])
    of_group = {ScoreKey("Joint", 4): one.scores[one.main_score]}
    result = replace(one, scores={**one.scores, **of_parts, **of_group})
    for part in keys:
        assert measure_of(result, f"P, {part}") == measure_of(result, str(keys[part])) == keys[part]
    assert measure_of(result, "p, uk") == keys["UK"]
    with pytest.raises(InputError, match=r"several such scores \(P, US, P, us\); give the name in"):
        measure_of(result, "p, Us")
    assert measure_of(result, None) == measure_of(result, "joint") == one.main_score
    assert measure_of(result, "Joint") == ScoreKey("Joint", 4)


@pytest.mark.parametrize("name", [*K, "knn_accuracy", "overlap", "polarity_oracle"])
def test_scores_are_those_that_are_stored(pair: tuple[Result, Result], name: str) -> None:
    for weighting in ("linear", "uniform"):
        key = measure_of(pair[0], name, weighting)
        aligned = align(pair, key)
        stored = [result.scores[key].mean for result in pair]
        assert aligned.scores == pytest.approx(stored, abs=1e-6)
        assert aligned.n_queries == aligned.n_units == 10
        if aligned.is_mean:
            assert aligned.values.mean(axis=1) == pytest.approx(stored, abs=1e-6)


@pytest.mark.parametrize("name", K)
def test_both_are_resampled_alike(pair: tuple[Result, Result], name: str) -> None:
    """The first sample by a loop, from the generator's own draw."""
    key = measure_of(pair[0], name)
    resampled = align(pair, key).resampled(3, seed=11)
    assert resampled.shape == (2, 3)
    first = np.random.default_rng(11).integers(10, size=(3, 10))[0]
    for found, result in zip(resampled, pair, strict=True):
        arrays = read_arrays(result.path)
        means = {
            each: np.array(np.mean([float(arrays[str(each)][i]) for i in first]))
            for each in result.scores
            if str(each) in arrays
        }
        slow = means.get(key)
        assert key.k is not None
        expected = derived(means, key.metric, key.k) if slow is None else slow
        assert found[0] == pytest.approx(float(expected), abs=1e-6)


def test_twins_are_units(tmp_path: Path) -> None:
    contrast = load_task("contrast")
    two = put(contrast, "ash", tmp_path, None), put(contrast, "maple", tmp_path, None)
    aligned = align(two, ScoreKey("polarity", 16))
    assert (aligned.n_queries, aligned.n_units) == (610, 305)
    assert aligned.resampling is not None
    found = compare(aligned)
    whole = sign_flip_p(aligned.values[1] - aligned.values[0], aligned.resampling.units)
    assert found.test.p == whole
    assert found.test.p != sign_flip_p(aligned.values[1] - aligned.values[0])
    of_part = align(two, measure_of(two[0], "P, negation"))
    assert of_part.key == ScoreKey("polarity", 16, part="negation")
    assert of_part.n_queries < 610
    assert of_part.scores == pytest.approx(
        [result.scores[of_part.key].mean for result in two], abs=1e-6
    )
    assert of_part.resampling is not None
    whole = sign_flip_p(of_part.contributions(), of_part.resampling.units)
    assert compare(of_part).test.p == whole


def test_a_query_that_is_undefined_for_one_encoder_counts_for_neither(
    pair: tuple[Result, Result],
) -> None:
    """Both encoders are equal, except that the first has no value for its worst query."""
    key = ScoreKey("polarity", 4)
    aligned = align(pair, key)
    values = np.linspace(0, 1, 10)
    one, other = np.where(values == 0, np.nan, values), values
    found = compare(replace(aligned, arrays=({str(key): one}, {str(key): other})))
    assert (found.test.difference, found.test.interval, found.test.p) == (0, (0, 0), 1)


def test_queries_that_are_repeated_make_no_difference_significant(tmp_path: Path) -> None:
    once = [(f"Number {i} was {'warm' if i % 3 else 'cold'}.", str(i % 2)) for i in range(30)]
    p = []
    for name, queries in (("once", once), ("twice", [row for row in once for _ in range(2)])):
        spec = read_task(write_task(tmp_path, name, queries=queries))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            task = spec.load(DataAccess(offline=True), Settings())
        two = [put(task, encoder, tmp_path / name) for encoder in ("ash", "maple")]
        aligned = align(two, ScoreKey("polarity", 4))
        assert aligned.n_units == 30
        p.append(compare(aligned).test.p)
    assert p[0] < 1
    assert p[1] == pytest.approx(p[0], abs=0.02)  # other flips are drawn


def of_kind(spec: Any, workshop: Workshop, folder: Path) -> tuple[Result, Result]:
    task = workshop.load(spec, QUICK)
    return put(task, "ash", folder, None), put(task, "maple", folder, None)


def test_transfer_is_compared_sample_by_sample(workshop: Workshop, tmp_path: Path) -> None:
    two = of_kind(workshop.trec(), workshop, tmp_path)
    key = measure_of(two[0], None)
    aligned = align(two, key)
    assert key == ScoreKey("accuracy")
    exact = [result.scores[ScoreKey("exact_accuracy")].mean for result in two]
    assert aligned.scores == pytest.approx(exact)
    one, other = (read_arrays(result.path)["prediction"] for result in two)
    gold = read_arrays(two[0].path)["label"]
    n_won, n_lost = (((x == gold) & (y != gold)).sum() for x, y in ((other, one), (one, other)))
    assert n_won + n_lost > 0
    exact_p = stats.binomtest(int(n_won), int(n_won + n_lost)).pvalue
    assert compare(aligned).test.p == pytest.approx(exact_p)
    with pytest.raises(InputError, match="`measure` macro_f1: the values per query of this score"):
        measure_of(two[0], "macro_f1")


@pytest.mark.parametrize("part", ["all", "mean", "wmean", None])
@pytest.mark.parametrize("metric", ["spearman", "pearson"])
def test_sts_is_compared_pair_by_pair(
    workshop: Workshop, tmp_path: Path, metric: str, part: str | None
) -> None:
    two = of_kind(workshop.sts(), workshop, tmp_path)
    names = list(two[0].counts)
    assert len(names) > 1
    key = ScoreKey(metric, part=part or names[-1])
    aligned = align(two, key)
    assert aligned.scores == pytest.approx([result.scores[key].mean for result in two])
    assert aligned.values.mean(axis=1) == pytest.approx(aligned.scores)
    assert aligned.contributions().mean() == pytest.approx(aligned.scores[1] - aligned.scores[0])
    resampled = aligned.resampled(400)
    assert (resampled.std(axis=1) > 0.01).all()
    np.testing.assert_allclose(resampled.mean(axis=1), aligned.scores, atol=0.1)
    n_covered = two[0].counts.get(part or names[-1], sum(two[0].counts.values()))
    assert aligned.n_queries == aligned.n_units == n_covered
    assert (aligned.resampling is None) == (part == "all")
    if aligned.resampling is not None:  # subsets are the design, not a draw
        assert np.bincount(aligned.resampling.strata).tolist() == [*two[0].counts.values()]


def test_relatedness_is_compared_pair_by_pair(workshop: Workshop, tmp_path: Path) -> None:
    two = of_kind(workshop.sick(relatedness=True), workshop, tmp_path)
    aligned = align(two, measure_of(two[0], None))
    assert aligned.key == ScoreKey("pearson")
    assert aligned.scores == pytest.approx([result.main.mean for result in two])
    found = compare(aligned)
    assert found.test.interval[0] <= found.test.difference <= found.test.interval[1]


def test_items_are_what_values_are_of(workshop: Workshop, task: Task) -> None:
    assert [each["text"] for each in task.items] == [text for text, _ in QUERIES_TOO]
    assert task.items[0]["label"] == "good"
    specs = (workshop.trec(), workshop.labelled_lines(), workshop.mrpc(), workshop.sts())
    for spec in (*specs, workshop.probing()):
        loaded = workshop.load(spec, QUICK)
        arrays = evaluate(BagEncoder(), loaded).arrays
        gold = arrays["gold" if "gold" in arrays else "label"]
        assert [float(each["label"]) for each in loaded.items] == pytest.approx(gold.tolist())
        titles = ["text"] if "text" in loaded.items[0] else None
        assert list(loaded.items[0])[:-1] == (titles or ["first text", "second text"])


# What is no pair


def test_results_of_other_questions_are_no_pairs(pair: tuple[Result, Result]) -> None:
    one, two = pair
    of_task, of_data, protocol = (
        rewritten(two, task="0" * 16),
        rewritten(two, data="1" * 16),
        rewritten(two, protocol={**two.key.protocol, "version": 1}),
    )
    for other, what in (
        (of_task, f"task's digest is '{one.key.task}' and '{'0' * 16}'"),
        (of_data, f"data's digest is '{one.key.data}' and '{'1' * 16}'"),
        (protocol, "protocol's version is 2 and 1; evaluate one of them again"),
    ):
        said = re.escape(f"{one.path} and {other.path} cannot be paired: the {what}")
        with pytest.raises(InputError, match=said):
            align([one, other], ScoreKey("polarity", 4))
        with pytest.raises(InputError, match=said):
            pair_up([one], [other])


def test_without_a_common_score_other_data_is_named(pair: tuple[Result, Result]) -> None:
    one, two = pair
    with pytest.raises(InputError, match="a paired test needs the same; evaluate both on the same"):
        align([one, rewritten(two, data="1" * 16)], ScoreKey("polarity", 4))
    other = replace(rewritten(two, data="1" * 16), path=two.path, scores={})
    with pytest.raises(
        InputError, match="do not share this score at the same k; their data sets differ"
    ):
        pair_up([one], [other])


def test_what_depends_on_the_reference_needs_a_common_one(task: Task, tmp_path: Path) -> None:
    one, two = put(task, "ash", tmp_path), put(task, "maple", tmp_path, "other")
    for metric in ("similarity", "joint", "retention", "front", "overlap"):
        with pytest.raises(
            InputError, match=r"cannot be paired: the reference is 'base \(\w+\)' and"
        ):
            pair_up([one], [two], metric)
    aligned, remark = pair_up([one], [two])
    assert aligned.key == ScoreKey("polarity", 4)
    assert remark.startswith("joint depends on the reference encoder, and these results do not")
    assert pair_up([one], [two], "P")[1] == ""
    base = put(task, "base", tmp_path, None)  # which is its own reference
    aligned, remark = pair_up([base], [one, two])
    assert (aligned.key.metric, remark) == ("joint", "")
    assert [result.path for result in aligned.results] == [base.path, one.path]


def test_one_of_several_protocols_is_not_guessed(workshop: Workshop, tmp_path: Path) -> None:
    found = [
        put(workshop.load(workshop.trec(), settings), name, tmp_path, None)
        for name in ("ash", "maple")
        for settings in (Settings(of_types=(choose_preset(kfold=n),)) for n in (3, 5))
    ]
    with pytest.raises(InputError, match="several results match; name two of these files"):
        pair_up(found[:2], found[2:])
    assert pair_up(found[:1], found[2:])[0].results == (found[0], found[2])


def test_one_of_several_results_is_not_guessed(task: Task, tmp_path: Path) -> None:
    ones = [put(task, "ash", tmp_path, reference) for reference in ("base", "other")]
    twos = [put(task, "maple", tmp_path, reference) for reference in ("base", "other")]
    with pytest.raises(InputError, match="several results match; name two of these files"):
        pair_up(ones, twos)
    assert pair_up(ones, twos, "P")[0].key.metric == "polarity"
    assert pair_up(ones[:1], twos)[0].results[1].path == twos[0].path
    own = [put(task, name, tmp_path, None) for name in ("ash", "maple")]
    aligned = pair_up([*ones, own[0]], [*twos, own[1]], "P")[0]
    assert [result.path for result in aligned.results] == [result.path for result in own]


def test_arrays_must_be_there_and_of_the_result(pair: tuple[Result, Result]) -> None:
    one, two = pair
    key, file = ScoreKey("joint", 4), two.path.with_suffix(".queries.safetensors")
    arrays, content = read_arrays(two.path), file.read_bytes()
    assert align(pair, key)
    for bit in (content.index(arrays["polarity_at_4"].tobytes()), len(content) - 1):
        file.write_bytes(content[:bit] + bytes([content[bit] ^ 1]) + content[bit + 1 :])
        said = rf"^{re.escape(str(file))}: the file is damaged or a Git LFS pointer \(its checksum"
        with pytest.raises(InputError, match=said):
            align(pair, key)
    without = {name: each for name, each in arrays.items() if name != "similarity_at_4"}
    write_result(replace(two, arrays=without), two.path.parents[4])
    with pytest.raises(InputError, match="lack 'similarity_at_4'; evaluate mini again"):
        align(pair, key)
    assert align(pair, ScoreKey("polarity", 4))
    file.unlink()
    with pytest.raises(InputError, match=r"the values per query are missing; run \w+ again"):
        align(pair, key)
    with pytest.raises(
        InputError, match=rf"^{re.escape(str(one.path))}: the result has no score joint_at_3"
    ):
        align(pair, ScoreKey("joint", 3))


def test_twins_without_their_units_are_refused(tmp_path: Path) -> None:
    contrast = load_task("contrast", Settings(limit=40))
    two = put(contrast, "ash", tmp_path, None), put(contrast, "maple", tmp_path, None)
    arrays = read_arrays(two[0].path)
    del arrays["resampled_units"]
    write_result(replace(two[0], arrays=arrays), tmp_path)
    with pytest.raises(InputError, match="lack 'resampled_units'; evaluate contrast again"):
        align(two, ScoreKey("polarity", 16))


# Many at once


def test_pairs_of_many_are_those_of_two(task: Task, tmp_path: Path) -> None:
    several = [put(task, name, tmp_path) for name in ("ash", "maple", "cedar")]
    # Joint is not linear in P and S: its bootstrap of eight queries is less normal than that of P.
    for name, tolerance in (("polarity", 0.1), ("joint", 0.2)):
        aligned = align(several, measure_of(several[0], name))
        found = pairwise([aligned])
        assert found.scores == pytest.approx([r.scores[aligned.key].mean for r in several])
        for i, j in ((0, 1), (0, 2), (1, 2)):
            two = compare(align([several[i], several[j]], aligned.key))
            assert found.difference[j, i] == pytest.approx(two.test.difference)
            assert found.p[i, j] == pytest.approx(two.test.p, abs=tolerance)


def test_of_few_queries_no_bootstrap_tells_encoders_apart(task_dir: Path, tmp_path: Path) -> None:
    write_task(task_dir, queries=[*QUERIES[:2], *QUERIES[-3:]])
    few = read_task(task_dir / "mini.toml").load(DataAccess(offline=True), Settings())
    aligned = align([put(few, name, tmp_path) for name in ("ash", "maple")], ScoreKey("joint", 4))
    assert pairwise([aligned]).p.tolist() == [[1, 1], [1, 1]]
    found = compare(aligned)
    assert np.isnan([found.test.p, *found.test.interval]).all()
    assert not found.is_significant


def synthetic(rows: Sequence[FloatArray], pair: tuple[Result, ...]) -> Alignment:
    key = ScoreKey("polarity", 4)
    return Alignment(pair, key, tuple({str(key): row} for row in rows))


def test_what_changed_most_comes_first(pair: tuple[Result, Result]) -> None:
    one, two = np.array([0.5, 0.25, 1, 0, 0.5]), np.array([0.5, 0.75, 0, 0.25, 0.5])
    found = compare(synthetic([one, two], pair), n_changed=2)
    assert [(c.query, c.moved, c.values) for c in found.changed] == [
        (2, -1.0, {"P": (1.0, 0.0)}),
        (1, 0.5, {"P": (0.25, 0.75)}),
    ]
    assert [c.query for c in compare(synthetic([one, two], pair)).changed] == [2, 1, 3]
    assert (found.test.p, found.method) == (1.0, "permutation, all 2^3 flips")
    assert found.detectable == pytest.approx(detectable_difference((two - one).std(ddof=1), 5))
    same = compare(synthetic([one, one], pair))
    assert (same.test.p, same.changed, same.is_significant) == (1, (), False)
    assert np.isnan(same.detectable)


def test_rounding_is_no_difference(pair: tuple[Result, Result]) -> None:
    one = np.linspace(0.2, 0.8, 40)
    again = one - np.linspace(1e-9, 1e-7, 40)
    found = compare(synthetic([one, again], pair), alternative="less")
    assert (found.test.difference, found.test.p, found.n_changed) == (0, 1, 0)
    lower = one - np.linspace(2e-6, 1e-5, 40)
    assert compare(synthetic([one, lower], pair), alternative="less").is_significant


def test_values_of_several_results_are_rounded_query_by_query(pair: tuple[Result, Result]) -> None:
    rows = np.array([[0.5 + 6e-7, 0.1, np.nan], [0.2, 0.1 + 5e-6, 0.3], [0.5, np.nan, 0.3 + 4e-7]])
    wanted = [[0.5, 0.1, np.nan], [0.2, 0.1 + 5e-6, 0.3], [0.5, np.nan, 0.3]]
    given = rows.copy()
    aligned = synthetic(list(given), (*pair, pair[0]))
    np.testing.assert_array_equal(aligned.values, wanted)
    np.testing.assert_array_equal(given, rows)


def test_columns_of_a_correlation_are_equal_as_a_whole_or_kept(pair: tuple[Result, Result]) -> None:
    draw = np.random.default_rng(0)
    gold = draw.random(50)
    one = 1 - 1e-7 * gold
    again, other = one + 1e-9 * draw.random(50), one.copy()
    other[0] -= 1e-5

    def aligned(*columns: FloatArray) -> Alignment:
        results = tuple(pair[i % 2] for i in range(len(columns)))
        arrays = tuple({"cosine": column, "gold": gold} for column in columns)
        return Alignment(results, ScoreKey("spearman"), arrays)

    assert compare(aligned(one, again)).test.p == 1
    alone = [float(aligned(column).scores[0]) for column in (one, again, other)]
    assert alone[0] == pytest.approx(-1)
    assert len(set(alone)) == 3
    assert aligned(one, other).scores.tolist() == [alone[0], alone[2]]
    assert len(set(aligned(one, other, again).scores.tolist())) == 2


def test_what_moved_joint_is_what_it_would_lack_without_a_query(
    pair: tuple[Result, Result],
) -> None:
    aligned = align(pair, ScoreKey("joint", 4))
    for i in range(10):
        kept = [{n: np.delete(a, i) for n, a in each.items()} for each in aligned.arrays]
        scores = Alignment(pair, aligned.key, tuple(kept)).scores
        full = aligned.scores[1] - aligned.scores[0]
        assert aligned.contributions()[i] == pytest.approx(
            9 * (full - (scores[1] - scores[0])), abs=1e-9
        )


# By name


def test_an_encoder_is_found_by_name_digest_file_or_folder(pair: tuple[Result, Result]) -> None:
    one, two = pair
    folder = one.path.parents[4]
    assert folder.name == "results"
    whole, short = digest(one), digest(one)[:8]
    for name in ("ash", whole, short, str(one.path), str(one.path.parent), str(folder / "ash")):
        assert [result.path for result in contenders(folder, name, "mini")] == [one.path]
    assert contenders(folder, "maple", "MiniPolarityRetrieval")[0].path == two.path


def test_a_name_of_several_encoders_is_refused_with_their_digests(
    task: Task, tmp_path: Path
) -> None:
    one = put(task, "ash", tmp_path)
    encoder = replace(one.key.encoder, prompt="query: ")
    other = rewritten(one, encoder=encoder)
    said = sorted([f"{digest(one)} (ash)", f"{digest(other)} (ash (prompt 'query: '))"])
    for name in ("ash", str(tmp_path / "ash")):
        with pytest.raises(InputError, match=re.escape(f"choose one of {', '.join(said)}")):
            contenders(tmp_path, name, "mini")
    assert contenders(tmp_path, digest(other), "mini")[0].key.encoder.prompt == "query: "


# The command


def ran(bench: Bench, task_dir: Path, *arguments: str) -> Done:
    return bench("compare", "ash", "maple", "-t", "mini", "--task-dir", task_dir, *arguments)


@pytest.mark.usefixtures("pair")
def test_the_command_prints_difference_interval_p_and_queries(
    bench: Bench, task_dir: Path, pair: tuple[Result, Result]
) -> None:
    done = ran(bench, task_dir, "--measure", "P")
    assert (done.code, done.err) == (0, "")
    one, two = (result.scores[ScoreKey("polarity", 4)].mean for result in pair)
    arrays = [read_arrays(result.path)["polarity_at_4"].astype(float) for result in pair]
    p = sign_flip_p(arrays[1] - arrays[0])
    n_moving = int((arrays[1] != arrays[0]).sum())
    assert one != two
    assert done.out.startswith("## mini, polarity_at_4\n")
    said = (
        rf"B minus A: {re.escape(f'{100 * (two - one):+.2f}')} points, 95 % interval \S+ to \S+, "
        rf"p = {p:.4f} \(permutation, all 2\^{n_moving} flips\), over 10 queries: "
        r"(not )?significant at 5 %\."
    )
    assert re.search(said, done.out)
    assert re.search(r"Minimum detectable difference \(80 % power.*: \d+\.\d points\.", done.out)
    assert f"{n_moving} of 10 queries differ" in done.out
    rows = [line for line in done.out.splitlines() if re.match(r"\| \d+ ", line)]
    assert len(rows) == n_moving
    gaps = [abs(float(row.split("|")[-2]) - float(row.split("|")[-3])) for row in rows]
    assert gaps == sorted(gaps, reverse=True)
    number, text = (cell.strip() for cell in rows[0].split("|")[1:3])
    assert text == QUERIES_TOO[int(number) - 1][0]


def test_fail_if_worse_ends_with_1_for_a_fall_alone(
    bench: Bench, task_dir: Path, task: Task
) -> None:
    """All of ten queries fall: exact p is 1 / 2^10, one-sided."""
    key = ScoreKey("polarity", 4)
    for name, value in (("ash", 1.0), ("maple", 0.5)):
        result = put(task, name)
        arrays = {**read_arrays(result.path), str(key): np.full(10, value, np.float32)}
        scores = {**result.scores, key: Score.single(value, 10)}
        write_result(replace(result, arrays=arrays, scores=scores), "results")
    words = ("--measure", "P", "--fail-if-worse")
    fallen = ran(bench, task_dir, *words)
    assert fallen.code == 1
    assert "90 % interval -50.00 to -50.00, p = 0.0010" in fallen.out
    assert "over 10 queries: B is worse at 5 %." in fallen.out
    found = json.loads(ran(bench, task_dir, *words, "--json").out)
    assert (found["p"], found["interval_level"], found["significant"]) == (2**-10, 0.9, True)
    gained = bench("compare", "maple", "ash", "-t", "mini", "--task-dir", task_dir, *words)
    assert gained.code == 0
    assert "no significant decrease" in gained.out


def test_fail_if_worse_does_not_compare_p_alone_unasked(
    bench: Bench, task_dir: Path, task: Task
) -> None:
    put(task, "ash", reference="base")
    put(task, "maple", reference=None)
    done = ran(bench, task_dir, "--fail-if-worse")
    assert (done.code, done.out) == (2, "")
    assert "--fail-if-worse: joint depends on the reference encoder" in done.err
    assert "--measure P" in done.err


def test_that_no_query_differs_is_said_of_equal_answers_alone(
    bench: Bench, task_dir: Path, pair: tuple[Result, Result]
) -> None:
    done = ran(bench, task_dir, "--measure", "P", "--changed", "0")
    assert done.code == 0
    assert "B minus A" in done.out
    assert "differs" not in done.out
    first = pair[0]
    same = write_result(replace(first, arrays=read_arrays(first.path)), Path("same"))
    alike = bench("compare", str(first.path), str(same), "-t", "mini", "--task-dir", str(task_dir))
    assert "No query differs." in alike.out


@pytest.mark.usefixtures("pair")
def test_markup_in_texts_is_text(bench: Bench, task_dir: Path) -> None:
    done = ran(bench, task_dir, "--changed", "100", "--measure", "S")
    assert r"&lt;img src=x onerror=alert(1)&gt;\|\[x\](javascript:1) \*warm\*" in done.out
    assert "<img" not in done.out


@pytest.mark.usefixtures("pair")
def test_the_command_prints_json(bench: Bench, task_dir: Path) -> None:
    found = json.loads(ran(bench, task_dir, "--json", "--changed", "3").out)
    assert found["measure"] == "joint_at_4"
    assert found["difference"] == pytest.approx(found["b"]["score"] - found["a"]["score"], abs=1e-6)
    assert found["interval"][0] <= found["difference"] <= found["interval"][1]
    assert 0 < found["p"] <= 1
    assert found["significant"] == (found["p"] < 0.05)
    assert (found["n"], found["units"], len(found["changed"])) == (10, 10, 3)
    assert found["method"] == "bootstrap, 10,000 samples"
    first = found["changed"][0]
    assert set(first) == {"query", "text", "label", "moved", "P", "S"}
    assert first["text"] == QUERIES_TOO[first["query"]][0]
    uniform = json.loads(ran(bench, task_dir, "--json", "--weighting", "uniform").out)
    assert uniform["measure"] == "joint_uniform_at_4"


@pytest.mark.usefixtures("pair")
def test_without_the_data_numbers_of_queries_are_shown_and_said(
    bench: Bench, task_dir: Path
) -> None:
    done = bench("compare", "ash", "maple", "-t", "mini")  # the task itself is not known
    assert done.code == 0
    assert done.err.startswith("queries are shown by number, without texts: unknown task 'mini'")
    assert re.search(r"\| query +\| P of A", done.out)
    with (task_dir / "mini-query.csv").open("a") as file:
        file.write("One more warm walk.,1\n")
    done = ran(bench, task_dir)
    assert (done.code, done.err.count("\n")) == (0, 1)
    assert "mini.toml or its data has changed since the results were stored" in done.err
    assert re.search(r"\| query +\| P of A", done.out)
    (task_dir / "mini-query.csv").unlink()
    done = ran(bench, task_dir)
    assert done.code == 0
    assert "the data of mini is not on this machine; name its folder with --data-dir" in done.err


def test_a_quick_look_is_said(bench: Bench, task_dir: Path, tmp_path: Path) -> None:
    write_task(task_dir, sources=SOURCES)
    task = read_task(task_dir / "mini.toml").load(DataAccess(offline=True), Settings(limit=6))
    for name in ("ash", "maple"):
        put(task, name, tmp_path / "results")
    done = ran(bench, task_dir)
    assert done.err == "mini: the results cover only 6 queries or rows\n"
    assert "over 6 queries" in done.out
    assert "good" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "mape maple -t mini",
            "and results has no results of an encoder with this name; did you mean 'maple'",
        ),
        ("ash maple -t mni", "--task mni: no results of ash for this task; did you mean 'mini'?"),
        ("ash ash -t mini", "both names refer to this result; name two encoders"),
        (
            "ash maple -t mini --measure polarty",
            "--measure polarty: mini has no such score; did",
        ),
        (
            "ash maple -t mini --measure sgts",
            "--measure sgts: the values per query of this score are not",
        ),
        ("ash maple -t mini --changed -1", "--changed must be at least 0, got -1"),
        ("ash maple -t mini --results none", "the results folder none does not exist"),
        ("ash maple -t mini --results empty", "empty: contains no results; run"),
        ("ash other -t mini --measure joint", "cannot be paired: the reference is 'base ("),
        (
            "results/x.json maple -t mini",
            "x.json: not a complete result: its .provenance.json is missing",
        ),
    ],
)
def test_bad_input_ends_with_one_message(
    bench: Bench, task: Task, arguments: str, message: str
) -> None:
    for name, reference in (("ash", "base"), ("maple", "base"), ("other", "another")):
        put(task, name, reference=reference)
    Path("empty").mkdir()
    Path("results/x.json").write_text("{}")
    done = bench("compare", *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_committed_results_without_their_arrays_say_what_to_run(
    bench: Bench, tmp_path: Path
) -> None:
    """Values per query are not in the repository."""
    board = Path(__file__).parents[1] / "leaderboards" / "polarity" / "results"
    copied = shutil.copytree(
        board, tmp_path / "results", ignore=shutil.ignore_patterns("*.safetensors")
    )
    done = bench("compare", "tfidf", "random", "-t", "contrast", "--results", copied)
    assert (done.code, done.out) == (2, "")
    assert "tfidf" in done.err
    assert "the values per query are missing; run ContrastPolarityRetrieval again" in done.err
