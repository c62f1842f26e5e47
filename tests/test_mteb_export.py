"""The export: mteb's own tools load it, and their numbers are ours."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins import HashEncoder, Workshop
from standins.board import placed
from standins.workshop import QUICK

import polarity_bench
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.integrations.mteb_results import export_mteb, mteb_names
from polarity_bench.results.result_files import Result, read_results, write_result
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.types.base import Settings

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning",
    "ignore::DeprecationWarning",
    "ignore:.*skipped 1 result with a `limit`",  # The results of `real` contain one.
)
TASK = "ContrastPolarityRetrieval"
ME = EncoderId("me", "weights")


@pytest.fixture(scope="module")
def mteb() -> Any:
    module = pytest.importorskip("mteb")
    polarity_bench.register()
    return module


def written(folder: Path, *results: Result) -> Path:
    for result in results:
        write_result(result, folder)
    return folder


def loaded(mteb: Any, output: Path, **how: Any) -> dict[tuple[str, str, str, str | None], Any]:
    """What mteb reads, by encoder, revision, task and experiment."""
    found = mteb.ResultCache(output).load_results(**how)
    return {
        (m.model_name, m.model_revision, result.task_name, m.experiment_name): result
        for m in found.model_results
        for result in m.task_results
    }


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the kinds, by two encoders of one name and one of another; some cut or asked."""
    folder = tmp_path_factory.mktemp("real")
    shop = Workshop(folder / "made")
    tasks = [
        evaluate_on(HashEncoder("org/one"), shop, spec)
        for spec in (shop.labelled_lines(), shop.stsb(relatedness=False))
    ]
    asked: Sequence[dict[str, Any]] = ({}, {"settings": Settings(ks=(4,))})
    contrast = [evaluate("random", "contrast", **how) for how in asked]
    contrast += [evaluate("constant", "contrast", settings=Settings(limit=40))]
    twins = [renamed(contrast[0], EncoderId("org/one", weights)) for weights in ("x", "y")]
    return written(folder / "results", *tasks, *contrast, *twins)


def evaluate_on(encoder: HashEncoder, shop: Workshop, spec: Any) -> Result:
    return evaluate(encoder, shop.load(spec, QUICK))


def renamed(result: Result, encoder: EncoderId) -> Result:
    return replace(result, key=replace(result.key, encoder=encoder))


def test_mteb_loads_every_number_as_it_is_stored(mteb: Any, real: Path, tmp_path: Path) -> None:
    paths = export_mteb(real, tmp_path / "out")
    theirs = loaded(mteb, tmp_path / "out")
    ours = {
        (r.key.encoder.digest, r.result_name, r.experiment): r
        for r in read_results(real)
        if r.limit is None
    }
    assert len(paths) == len(theirs) == len(ours) == 6
    for (name, revision, task, _), result in theirs.items():
        own = next(
            result
            for (digest, result_name, experiment), result in ours.items()
            if (digest, result_name) == (revision, task)
            and name.endswith(f"-{experiment}" if experiment else name)
            and bool(experiment) == any(part in name for part in ("-k_4", "-protocol_"))
        )
        (row,) = result.scores["test"]
        assert result.get_score() == pytest.approx(own.main.mean, abs=1e-12)
        flat = {name: value for name, value in own.flat.items() if not math.isnan(value)}
        assert {name: row[name] for name in flat} == flat
        assert result.dataset_revision == own.key.task


def test_mteb_makes_its_own_table(mteb: Any, real: Path, tmp_path: Path) -> None:
    export_mteb(real, tmp_path / "out")
    cache = mteb.ResultCache(tmp_path / "out")
    table = cache.load_results(tasks=[mteb.get_task(TASK)]).to_dataframe().set_index("task_name")
    expected = {r.key.encoder.digest: r.main.mean for r in read_results(real) if not r.experiment}
    names = mteb_names(r.key.encoder for r in read_results(real))
    twins = [digest for digest, name in names.items() if name.startswith("org/one-")]
    assert len(twins) == 3
    shown = {names[d]: table.loc[TASK, names[d]] for d in expected if names[d] in table.columns}
    assert len(shown) == 3
    for digest, name in names.items():
        if name in shown:
            assert shown[name] == pytest.approx(expected[digest], abs=1e-6)
    benchmark = mteb.get_benchmark("PolarityBench(eng)")
    filtered = cache.load_results(tasks=benchmark, validate_and_filter=True).to_dataframe()
    assert list(filtered["task_name"]) == [TASK]


def test_every_description_is_one_that_mteb_takes(mteb: Any, real: Path, tmp_path: Path) -> None:
    paths = export_mteb(real, tmp_path / "out")
    from mteb.models import ModelMeta

    for path in paths:
        said = path.with_name("model_meta.json").read_text(encoding="utf-8")
        meta = ModelMeta.model_validate_json_resolved(said)
        place = tmp_path / "out/results" / meta.model_name_as_path() / str(meta.revision)
        assert path.parent == place


def test_what_is_asked_differently_is_a_model_of_another_name(mteb: Any, tmp_path: Path) -> None:
    results = [placed(ME, "a", 0.7, 0.4), placed(ME, "a", 0.6, 0.4, ks=(4,))]
    export_mteb(written(tmp_path / "in", *results), tmp_path / "out")
    assert {name for name, *_ in loaded(mteb, tmp_path / "out")} == {"local/me", "local/me-k_4"}


def test_references_are_neither_mixed_in_a_column_unmarked_nor_averaged(
    mteb: Any, tmp_path: Path
) -> None:
    """By itself an encoder keeps all of S: its joint stands above that of one with a reference."""
    trained, base, other = ME, EncoderId("org/base", "b"), EncoderId("other", "c")
    results = [
        placed(base, "a", 0.6, 0.6),
        placed(trained, "a", 0.7, 0.4, reference=base),
        *(placed(EncoderId("two", "t"), "a", 0.7, 0.4, reference=each) for each in (base, other)),
    ]
    (transfer,) = (r for r in [placed(trained, "b", 0.7, 0.4)])
    shared = replace(transfer, kind="sts", key=replace(transfer.key, reference=None))
    export_mteb(written(tmp_path / "in", *results, shared), tmp_path / "out")
    for how in ({}, {"load_experiments": "match_name"}):
        found = loaded(mteb, tmp_path / "out", **how)
        scores = {(name, task): result.get_score() for (name, _, task, _), result in found.items()}
        joint = {
            result.key.reference and result.key.reference.name: result.main.mean
            for result in results
        }
        assert scores[("org/base", "A")] == pytest.approx(joint[None])
        assert scores[("local/me-by-base", "A")] == pytest.approx(results[1].main.mean)
        assert ("local/me-by-base", "B") in scores, "one row for all tasks of an encoder"
        two = {name: s for (name, _), s in scores.items() if name.startswith("local/two")}
        assert sorted(two.values()) == pytest.approx(sorted(r.main.mean for r in results[2:]))
        assert len(two) == 2


def test_each_task_is_named_by_its_own_reference(mteb: Any, tmp_path: Path) -> None:
    by = {task: EncoderId(f"org/{task}", task) for task in ("a", "b")}
    results = [placed(ME, task, 0.7, 0.4, reference=reference) for task, reference in by.items()]
    export_mteb(written(tmp_path / "in", *results), tmp_path / "out")
    names = {(name, task) for name, _, task, _ in loaded(mteb, tmp_path / "out")}
    assert names == {("local/me-by-a", "A"), ("local/me-by-b", "B")}


def test_a_reference_that_the_user_chose_is_a_setting() -> None:
    default = placed(ME, "a", 0.7, 0.4, reference=EncoderId("base", "b"))
    chosen = replace(default, reference_is_default=False)
    assert default.settings == ""
    assert chosen.settings == f"reference_{chosen.key.reference_encoder.digest}"
    assert placed(ME, "a", 0.7, 0.4).settings == ""
    other_k = placed(ME, "a", 0.7, 0.4, reference=EncoderId("base", "b"), ks=(4,))
    assert other_k.settings == other_k.experiment


def test_again_gives_the_same_bytes_and_leaves_the_rest(mteb: Any, tmp_path: Path) -> None:
    folder = written(tmp_path / "in", placed(ME, "a", 0.7, 0.4))
    output = tmp_path / "out"
    other = output / "results/org__x/1/Task.json"
    other.parent.mkdir(parents=True)
    other.write_text("theirs")
    (path,) = export_mteb(folder, output)
    before = {p: p.read_bytes() for p in output.rglob("*") if p.is_file()}
    assert export_mteb(folder, output) == [path]
    assert {p: p.read_bytes() for p in output.rglob("*") if p.is_file()} == before
    assert other.read_text() == "theirs"
    assert path.read_bytes() == next(folder.rglob("A.json")).read_bytes()
    assert sorted(p.name for p in path.parent.iterdir()) == ["A.json", "model_meta.json"]


HOSTILE = "<img src=x onerror=alert(1)>|[x](javascript:1)/../../../etc"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["org/a"], ["org/a"]),
        (["a"], ["local/a"]),
        (["average of g.npy"], ["local/average_of_g.npy"]),
        (["org/a/b"], ["org/a__b"]),
        (["org/a", "org/a"], ["org/a-0", "org/a-1"]),
        (["org/a", "org/A"], ["org/a-0", "org/A-1"]),
        (["a b", "a_b"], ["local/a_b-0", "local/a_b-1"]),
        (["org/a__b", "org/a/b", "c"], ["org/a__b-0", "org/a__b-1", "local/c"]),
        ([HOSTILE], ["_img_src=x_onerror=alert_1____x__javascript_1_/__..__..__etc"]),
    ],
)
def test_names_are_mtebs_and_of_one_encoder_each(names: list[str], expected: list[str]) -> None:
    encoders = [EncoderId(name, f"weights {i}") for i, name in enumerate(names)]
    found = mteb_names(encoders)
    digests = [encoder.digest for encoder in encoders]
    wanted = [
        name[:-1] + digests[int(name[-1])][:8] if name[-2] == "-" else name for name in expected
    ]
    assert [found[digest] for digest in digests] == wanted


def test_a_result_without_a_main_score_is_left_out(mteb: Any, tmp_path: Path) -> None:
    result = placed(ME, "a", 0.7, 0.4)
    main = ScoreKey("joint", 16)
    scores = {**result.scores, main: replace(result.scores[main], mean=math.nan)}
    folder = written(tmp_path / "in", replace(result, scores=scores))
    with pytest.raises(InputError, match="in: no results that mteb can read"):
        export_mteb(folder, tmp_path / "out")
    written(folder, placed(ME, "b", 0.7, 0.4))
    with pytest.warns(InputWarning, match="in: skipped 1 result with a `limit` or an undefined m"):
        written_there = export_mteb(folder, tmp_path / "out")
    assert [path.name for path in written_there] == ["B.json"]


def test_bad_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none does not exist"):
        export_mteb(tmp_path / "none", tmp_path / "out")
    cut = written(tmp_path / "cut", placed(ME, "a", 0.7, 0.4, limit=5))
    with pytest.raises(InputError, match="each result has a `limit`"):
        export_mteb(cut, tmp_path / "out")
    folder = written(tmp_path / "in", placed(ME, "a", 0.7, 0.4))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written to"):
        export_mteb(folder, tmp_path / "file")
    written(folder / "twice", placed(ME, "a", 0.7, 0.4))
    with pytest.raises(
        InputError, match=r"A\.json and .*A\.json are results of the same encoder on .*; remove"
    ):
        export_mteb(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    path = next((folder / "twice").rglob("A.json"))
    said = json.loads(path.read_bytes())
    said["scores"]["test"][0]["joint_at_16"] = 1.0
    path.write_text(json.dumps(said))
    with pytest.raises(InputError, match="the scores were edited or are incomplete"):
        export_mteb(folder, tmp_path / "out")
