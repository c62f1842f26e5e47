"""Curves on disk: written whole, read back, and recognised where they are stale."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins import HashEncoder, write_task
from standins.dial import results_at

from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.results.curve import Curve, make_curve
from polarity_bench.results.curve_files import read_curve, read_curves, write_curve, write_curves
from polarity_bench.results.result_files import (
    Result,
    read_result,
    read_results,
    scores_digest,
    write_result,
)
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.catalogue import read_task
from polarity_bench.tasks.types.base import Settings, Task

STRENGTHS = (0.0, 0.5, 1.0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output folder with a curve of three results."""
    folder = tmp_path_factory.mktemp("made")
    output = folder / "results"
    write_curve(
        make_curve("org/dial", "strength", results_at(mini(folder), STRENGTHS, output)), output
    )
    return output


@pytest.fixture
def output(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "results"))


def mini(folder: Path, name: str = "mini", **settings: object) -> Task:
    spec = read_task(write_task(folder, name))
    return spec.load(DataAccess(offline=True), Settings(**settings))  # type: ignore[arg-type]


def results(folder: Path) -> list[Result]:
    return list(read_results(folder))


def file_of(output: Path) -> Path:
    (path,) = (output / "curves").iterdir()
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["fronts"]["front_at_4"].update(mean=0.999),
        lambda c: c["fronts"]["front_at_4"].update(ci95=[0.9, 0.99]),
        lambda c: c["points"][1]["scores"].update(polarity_at_4=0.1),
        lambda c: c.pop("sha256"),
    ],
)
def test_an_edited_curve_is_refused(output: Path, change: Callable[[Any], object]) -> None:
    assert len(list(read_curves(output, results(output)))) == 1
    file = file_of(output)
    stored = json.loads(file.read_text())
    change(stored)
    file.write_text(json.dumps(stored))
    with pytest.raises(InputError, match=r"\.json: the curve was edited or is damaged"):
        list(read_curves(output, results(output)))


def test_encoders_of_one_name_have_a_curve_each(output: Path) -> None:
    curve = make_curve(
        "org/dial", "strength", dict(zip(STRENGTHS, by_strength(output), strict=True))
    )
    other = replace(curve, encoder="another one of that name")
    write_curve(other, output)
    found = list(read_curves(output, results(output)))
    assert sorted(each.encoder for each in found) == sorted([curve.encoder, other.encoder])


def test_what_is_written_is_read(output: Path) -> None:
    stored = dict(zip(STRENGTHS, by_strength(output), strict=True))
    curve = make_curve("org/dial", "strength", stored)
    path = write_curve(curve, output)
    found = read_curve(path)
    assert replace(found, fronts={}) == replace(curve, fronts={})
    assert {k: (f.mean, f.ci95, f.n) for k, f in found.fronts.items()} == {
        k: (f.mean, f.ci95, f.n) for k, f in curve.fronts.items()
    }
    named = f"mini.org__dial.{curve.encoder[:8]}.{curve.question[:8]}.json"
    assert path == output / "curves" / named
    (above,) = read_curves(output.parent, results(output))
    assert above.points == curve.points


def test_an_integer_in_the_identity_of_an_encoder_stays_an_integer(output: Path) -> None:
    """The digests of strengths 4 and 4.0 differ."""
    result = by_strength(output)[0]
    encoder = replace(result.key.encoder, strength=4)
    path = write_result(replace(result, key=replace(result.key, encoder=encoder)), output)
    assert read_result(path).key.encoder.digest == encoder.digest
    curve = replace(read_curve(file_of(output)), name="integer", reference=encoder)
    assert read_curve(write_curve(curve, output)).reference.digest == encoder.digest


def by_strength(output: Path) -> list[Result]:
    """The results in the order of the strengths, by the curve's own account."""
    found = {result.key.encoder.digest: result for result in read_results(output)}
    return [found[point.encoder] for point in read_curve(file_of(output)).points]


def test_undefined_numbers_are_null_in_the_file(output: Path) -> None:
    curve = read_curve(file_of(output))
    key = ScoreKey("front", 4)
    undefined = replace(curve, name="u", fronts={key: Score.single(math.nan, 8)})
    path = write_curve(undefined, output)
    assert json.loads(path.read_text())["fronts"]["front_at_4"]["mean"] is None
    front = read_curve(path).fronts[key]
    assert math.isnan(front.mean)
    assert front.n_undefined == 1


def test_the_file_says_all_in_words(output: Path) -> None:
    content = json.loads(file_of(output).read_text())
    assert content["dial"] == "strength"
    assert content["name"] == "org/dial"
    assert content["reference"]["name"] == "bag"
    assert [point["strength"] for point in content["points"]] == list(STRENGTHS)
    assert {"polarity_at_4", "lift_uniform_at_4"} < set(content["points"][0]["scores"])
    assert set(content["fronts"]) == {"front_at_4", "front_uniform_at_4"}


def test_a_curve_that_was_made_of_other_results_is_left_out(output: Path) -> None:
    assert len(list(read_curves(output, results(output)))) == 1
    result = by_strength(output)[1]
    changed = {ScoreKey("polarity", 4): Score.single(0.123, 8)}
    write_result(replace(result, scores={**result.scores, **changed}), output)
    with pytest.warns(
        InputWarning, match=r"mini\.org__dial.* skipped, because its results at strength 0\.5"
    ):
        assert not list(read_curves(output, results(output)))
    shutil.rmtree(result.path.parent)
    with pytest.warns(InputWarning, match=r"at strength 0\.5 are missing or were recomputed"):
        assert not list(read_curves(output, results(output)))


def test_a_result_that_was_made_again_with_the_same_numbers_leaves_a_curve_current(
    output: Path,
) -> None:
    for result in results(output):
        write_result(replace(result, date=7.0, seconds={}), output)
    assert len(list(read_curves(output, results(output)))) == 1


def test_the_checksum_of_scores_is_the_same_from_memory_and_from_disk(
    tmp_path: Path,
) -> None:
    result = evaluate(HashEncoder(), mini(tmp_path, ks=(2, 4)))
    path = write_result(result, tmp_path / "results")
    made = json.loads(path.with_suffix(".provenance.json").read_text())
    assert scores_digest(result) == scores_digest(read_result(path)) == made["scores_sha256"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "damaged, not valid JSON"),
        ("[]", "not a curve of polarity-bench"),
        ('{"format": 99}', "expected a curve in format 1, got format 99"),
        ('{"format": 1, "dial": "strength"}', "the curve was edited or is damaged"),
    ],
)
def test_a_damaged_file_is_refused(output: Path, content: str, message: str) -> None:
    file_of(output).write_text(content)
    with pytest.raises(InputError, match=rf"mini\.org__dial[.\w]+\.json: {message}"):
        list(read_curves(output, results(output)))


def test_a_suite_at_several_strengths_has_a_curve_for_each_polarity_task(tmp_path: Path) -> None:
    output = tmp_path / "results"
    tasks = [mini(tmp_path, name) for name in ("mini", "other")]
    by_task = [results_at(task, STRENGTHS, output) for task in tasks]
    stored = {at: [points[at] for points in by_task] for at in STRENGTHS}
    only_once = results_at(mini(tmp_path, "once"), [1.0], output)[1.0]
    no_polarity = replace(only_once, kind="sts", task="sts")
    stored[1.0] += [only_once, no_polarity]
    stored[0.5].append(no_polarity)
    paths = write_curves("dial", "strength", stored, output)
    assert [path.name.split(".")[0] for path in paths] == ["mini", "other"]
    assert [c.task for c in read_curves(output, results(output))] == ["mini", "other"]


def test_another_question_has_another_file(output: Path, tmp_path: Path) -> None:
    first: Curve = read_curve(file_of(output))
    stored = results_at(mini(tmp_path, ks=(2,)), STRENGTHS, output)
    write_curve(make_curve("org/dial", "strength", stored), output)
    assert len(list((output / "curves").iterdir())) == 2
    write_curve(replace(first, points=first.points[:2]), output)
    assert len(list((output / "curves").iterdir())) == 2
    kept = [len(curve.points) for curve in read_curves(output, results(output))]
    assert sorted(kept) == [2, 3]
