"""The model card: our results go in as the hub reads them, and nothing else moves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard
from huggingface_hub import parse_eval_result_entries as parse_entries
from huggingface_hub.repocard import REGEX_YAML_BLOCK
from standins import Bench, Done, HashEncoder, tiny_encoder
from standins.board import placed

from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import load_encoder
from polarity_bench.encoders.reference_encoder import Base
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.integrations import hub_card
from polarity_bench.integrations.hub_card import (
    HOMEPAGE,
    SOURCE,
    model_index,
    select_scores,
    update_card,
)
from polarity_bench.results.result_files import Result, write_result
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import read_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.task import PolaritySpec
from polarity_bench.training.model_card import DataSet, model_card
from polarity_bench.training.recipes.base import FitResult
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.training.run_folder import RunIdentity

ME = EncoderId("me", "weights")
THEIRS = """\
- name: 'théirs'  # a name
  results:
  - task:
      type: retrieval
    dataset:
      type: a
      name: "Task: a"
      revision: 0123
    metrics:
    - {type: ndcg_at_10, value: 0.5000, verified: true}
    source: {name: Others, url: "https://example.org"}
"""
HEADER = f"""\
# a comment of theirs
language:   no
license: 'apache-2.0'
model-index:
{THEIRS}
# another
empty:
tags: [b, a, b]  # as they like them
"""
CARD = f"---\n{HEADER}---\n\n# Title\n\nText --- with *markup*, {{braces}}.\n\n---\nmore\n"


def entries(*results: Result, url: str = HOMEPAGE) -> list[dict[str, Any]]:
    return model_index(select_scores(results, {"a": DataSet("a", "Task A")}), url)


def results_of(card: str) -> list[dict[str, Any]]:
    found = REGEX_YAML_BLOCK.search(card.removeprefix("\ufeff"))
    assert found
    header = yaml.safe_load(found[2])
    return [entry for model in header["model-index"] for entry in model["results"]]


def text_of(card: str) -> str:
    card = card.removeprefix("\ufeff")
    found = REGEX_YAML_BLOCK.search(card)
    return card[found.end(2) :].lstrip("\r\n").removeprefix("---").lstrip() if found else card


def values_of(card: str) -> dict[tuple[str, str], float]:
    """Our values, read by the hub's own class."""
    data: Any = ModelCard(card.removeprefix("\ufeff")).data
    return {
        (r.dataset_type, r.metric_type): r.metric_value
        for r in data.eval_results
        if r.source_name == SOURCE
    }


# The entries


def test_a_card_says_p_s_retention_and_joint_in_percent() -> None:
    card = update_card("text\n", "me", entries(placed(ME, "a", 0.75, 0.4)))
    assert values_of(card) == {
        ("a", "polarity_at_16"): 75.0,
        ("a", "similarity_at_16"): 40.0,
        ("a", "retention_at_16"): 50.0,
        ("a", "joint_at_16"): 50.0,
    }
    (entry,) = results_of(card)
    assert entry["dataset"]["name"] == "Task A"
    assert entry["source"] == {"name": "polarity-bench", "url": HOMEPAGE}
    assert entry["metrics"][0]["name"] == "P at 16, percent"


def test_a_card_says_what_was_seen_in_training() -> None:
    plain = placed(ME, "a", 0.75, 0.4)
    counted = {"queries": {"normalised": 3}, "sources": {"normalised": 0}}
    seen = replace(plain, seen=counted, counts={"queries": 8, "sources": 24})
    lost = replace(plain, training={"base": "org/base"})
    said = [
        entries(each)[0]["dataset"]["args"].get("contamination") for each in (plain, seen, lost)
    ]
    assert said == [None, "37.50 % of the queries seen in training", "training texts unknown"]
    assert "contamination 37.50 % of" in hub_card.eval_results(select_scores([seen]), HOMEPAGE)


def test_other_settings_and_other_references_have_entries_of_their_own() -> None:
    other = EncoderId("other", "x")
    results = [
        placed(ME, "a", 0.75, 0.4),
        placed(ME, "a", 0.7, 0.4, ks=(4, 8)),
        replace(placed(ME, "a", 0.75, 0.3, reference=other), reference_is_default=False),
    ]
    found = {e["dataset"].get("config"): e for e in entries(*results)}
    assert set(found) == {None, "k_4-8", f"reference_{other.digest}"}
    assert [m["type"] for m in found["k_4-8"]["metrics"]][::4] == ["polarity_at_4", "polarity_at_8"]
    assert found[f"reference_{other.digest}"]["dataset"]["args"]["reference"] == "other"


def test_the_one_reference_of_a_trained_encoder_is_its_usual_one() -> None:
    base = EncoderId("base", "x")
    (entry,) = entries(placed(ME, "a", 0.75, 0.4, reference=base))
    assert "config" not in entry["dataset"]
    assert entry["dataset"]["args"]["reference"] == "base"


def test_uniform_weights_are_another_score() -> None:
    first = select_scores([placed(ME, "a", 0.75, 0.4)], weighting="uniform")[0]
    assert str(first.key) == "polarity_uniform_at_16"
    assert first.name == "P at 16, uniform weights, percent"


def test_an_undefined_score_is_left_out() -> None:
    result = placed(ME, "a", 0.75, 0.4)
    undefined = replace(result.scores[ScoreKey("joint", 16)], mean=float("nan"))
    scores = {**result.scores, ScoreKey("joint", 16): undefined}
    (entry,) = entries(replace(result, scores=scores))
    assert [m["type"] for m in entry["metrics"]] == [
        "polarity_at_16",
        "similarity_at_16",
        "retention_at_16",
    ]


def test_what_was_cut_for_a_quick_look_is_in_no_card() -> None:
    whole, cut = placed(ME, "a", 0.75, 0.4), placed(ME, "b", 0.75, 0.4, limit=5)
    assert [e["dataset"]["type"] for e in entries(whole, cut)] == ["a"]
    with pytest.raises(InputError, match="all results have a `limit`"):
        entries(cut)


def test_a_digest_that_looks_like_a_number_stays_text_by_every_yaml() -> None:
    result = placed(ME, "a", 0.75, 0.4)
    digests = ("1234567e89012345", "1234567890123456", "0o17")
    for digest in digests:
        made = entries(replace(result, key=replace(result.key, task=digest)))
        assert f"task: '{digest}'\n" in update_card("", "me", made)


HOSTILE = "<img src=x onerror=alert(1)>|[x](javascript:1)\n---\n&a: *b #: {"


def test_names_are_text_in_the_header_and_in_a_new_card() -> None:
    encoder = EncoderId(HOSTILE, "weights", prompt=HOSTILE)
    results = [placed(encoder, "a", 0.7, 0.4)]
    made = model_index(select_scores(results, {"a": DataSet("a", HOSTILE)}), HOMEPAGE)
    card = update_card(hub_card.new_card(HOSTILE, True), HOSTILE, made)
    (entry,) = results_of(card)
    assert entry["dataset"]["name"] == HOSTILE
    assert entry["dataset"]["args"]["prompt"] == HOSTILE
    assert ModelCard(card).data["tags"] == ["sentence-transformers", "sentence-similarity", SOURCE]
    assert "<img" not in ModelCard(card).text
    held = parse_entries(yaml.safe_load(hub_card.eval_results(select_scores(results), HOMEPAGE)))
    assert HOSTILE in (held[0].notes or "")


# What was there


def ours_added(card: str = CARD, p: float = 0.75) -> str:
    return update_card(card, "me", entries(placed(ME, "a", p, 0.4)))


def test_all_else_in_a_card_stays_byte_by_byte() -> None:
    made = ours_added()
    before, after = CARD.split("model-index:\n")[0], CARD.split("\n# another", 1)[1]
    assert made.startswith(before)
    assert made.endswith("\n# another" + after)
    (theirs, ours) = results_of(made)
    assert theirs == results_of(CARD)[0]
    assert 'name: "Task: a"' in made
    assert "revision: 0123\n" in made  # by a round trip through numbers it would be 83
    assert "value: 0.5000" in made
    assert ours["source"]["name"] == SOURCE


def test_ours_never_stand_under_the_source_of_others_of_one_data_set() -> None:
    theirs, ours = results_of(ours_added(CARD.replace("      revision: 0123\n", "")))
    assert len(theirs["metrics"]) == 1
    assert (theirs["source"]["name"], ours["source"]["name"]) == ("Others", SOURCE)


@pytest.mark.parametrize(
    "card",
    [
        CARD,
        CARD.replace("\n", "\r\n"),
        "\ufeff" + CARD,
        f"---\n{HEADER}---",
        f"---\nmodel-index:\n{THEIRS}---\ntext",
        "---\nmodel-index:\n- name: a\n  results: []\n---\n",
        "---\nmodel-index: [{name: a, results: []}]\ntags: [x]\n---\n",
        "---\nmodel-index:\ntags: [x]\n---\n",
        "---\ntags: [x]\nloss: .nan\n---\ntext\n",
        "---\n\n---\ntext\n",
        "# No header\n",
        "no line end, and a rule\n---\n",
        "",
    ],
)
def test_a_second_call_changes_nothing_and_others_stay(card: str) -> None:
    once = ours_added(card)
    assert ours_added(once) == once
    assert len(values_of(once)) == 4
    assert once.count("\r\n") == (once.count("\n") if "\r\n" in card else 0)
    assert once.startswith("\ufeff") == card.startswith("\ufeff")
    assert text_of(once) == text_of(card)


def test_new_results_take_the_place_of_ours_alone() -> None:
    made = update_card(CARD, "me", entries(placed(ME, "a", 0.7, 0.4), placed(ME, "b", 0.7, 0.4)))
    again = ours_added(made, p=0.8)
    assert values_of(again)["a", "polarity_at_16"] == 80.0
    assert {key for key, _ in values_of(again)} == {"a"}  # what is gone from results goes here too
    assert results_of(again)[0] == results_of(CARD)[0]


def test_the_entry_that_training_wrote_is_replaced_where_results_are_of_its_data() -> None:
    trained = "\n".join(
        f"  - task: {{type: retrieval, name: Polarity retrieval}}\n"
        f"    dataset: {{type: {name}, name: Task}}\n"
        f"    metrics: [{{type: polarity_at_16, value: 0.5}}]"
        for name in ("a", "elsewhere")
    )
    card = f"---\nmodel-index:\n- name: me\n  results:\n{trained}\n---\n"
    ours, other = results_of(ours_added(card))
    assert ours["metrics"][0]["value"] == 75.0
    assert other["dataset"]["type"] == "elsewhere"


def test_what_training_writes_into_a_card_is_known_again(task_dir: Path) -> None:
    spec = read_task(task_dir / "mini.toml")
    assert isinstance(spec, PolaritySpec)
    scores = {"polarity": 0.5, "similarity": 0.4, "retention": 0.3, "joint": 0.2}
    row = {"epoch": 1.0, "step": 1, "loss": 0.1, **scores}
    recipe = Margins()
    identity = RunIdentity(recipe, ME, {}, *"tde")
    card = model_card(Path("me"), recipe, identity, spec, [row], FitResult(1, {}), Base("base", ME))
    made = update_card(card, "me", entries(placed(ME, "mini", 0.75, 0.4)))
    (entry,) = results_of(made)
    assert entry["source"]["name"] == SOURCE
    assert ModelCard(made).data["tags"] == ModelCard(card).data["tags"]


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ("---\na: [\n---\n", "the YAML header is invalid: "),
        ("---\n- a\n---\n", "metadata block should be a dict"),
        ("---\na: b\n", "the YAML header does not end"),
        (
            "---\nmodel-index:\n- name: x\n---\n",
            "the YAML header is invalid: Invalid `model_index`",
        ),
        ("---\nmodel-index: x\n---\n", "the YAML header is invalid: Invalid `model_index`"),
        ("---\nmodel-index: []\nmodel-index: []\n---\n", "occurs twice"),
        ("---\n{a: b}\n---\n", "the YAML header cannot be extended in this form"),
        (
            "---\nmodel-index: [{name: &x a, results: []}]\nb: *x\n---\n",
            "no anchors in 'model-index'",
        ),
        ("---\na: &x {type: [1]}\nb: *x\nc: *y\n---\n", "undefined alias"),
    ],
)
def test_a_header_that_cannot_be_read_is_refused(card: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        ours_added(card)
    assert message in str(refused.value)


# The newer files


def test_the_hub_reads_the_newer_file_back() -> None:
    results = [
        replace(placed(ME, "a", 0.75, 0.4), date=86400.0),
        placed(ME, "a", 0.7, 0.4, ks=(4,)),
    ]
    text = hub_card.eval_results(select_scores(results), "https://example.org/board")
    assert hub_card.is_own_file(text)
    found = {each.task_id: each for each in parse_entries(yaml.safe_load(text))}
    assert {name: each.value for name, each in found.items()} == {
        "A": 50.0,  # the main score
        "A_polarity_at_16": 75.0,
        "A_similarity_at_16": 40.0,
        "A_retention_at_16": 50.0,
    }
    assert found["A"].dataset_id == "polarity-bench/a"
    assert found["A"].date == "1970-01-02"
    assert found["A"].source_url == "https://example.org/board"
    assert "reference itself" in (found["A"].notes or "")


@pytest.mark.parametrize("text", ["a: [", "- 1", "a: b", "- source: {name: x}", "- source: x", "7"])
def test_a_file_of_others_is_not_ours(text: str) -> None:
    assert not hub_card.is_own_file(text)


# The command


@pytest.fixture
def carded(tmp_path: Path, task_dir: Path, tiny_model: Path, bench: Bench) -> Callable[..., Done]:
    """Run `card` for a copy of a tiny encoder, of which there are results."""
    shutil.copytree(tiny_model, tmp_path / "run")
    task = read_task(task_dir / "mini.toml").load(DataAccess(offline=True), Settings())
    write_result(evaluate(load_encoder("run"), task), tmp_path / "results")
    write_result(evaluate(HashEncoder("run"), task), tmp_path / "other")

    def carded(*arguments: str | Path) -> Done:
        return bench("card", "run", "--task-dir", task_dir, *arguments)

    return carded


def files() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}


def test_card_writes_what_results_say_once(carded: Callable[..., Done]) -> None:
    before = files()
    assert carded().code == 0
    made = files()
    assert set(made) - set(before) == {"run/README.md", "run/.eval_results/polarity-bench.yaml"}
    assert made.items() >= before.items()
    stored = json.loads(next(Path("results").rglob("MiniPolarityRetrieval.json")).read_bytes())
    (scores,) = stored["scores"]["test"]
    assert values_of(made["run/README.md"].decode()) == {
        ("mini", name): round(100 * scores[name], 4)
        for name in ("polarity_at_4", "similarity_at_4", "retention_at_4", "joint_at_4")
    }
    assert "Task mini" in made["run/README.md"].decode()
    again = carded()
    assert again.err.count("unchanged") == 2
    assert files() == made


def test_results_from_before_the_task_changed_are_left_out(
    carded: Callable[..., Done], task_dir: Path
) -> None:
    """The card would give the values to the data that the task file names now."""
    file = task_dir / "mini.toml"
    file.write_text("version = 2\n" + file.read_text())
    before = files()
    done = carded()
    assert done.code == 2
    assert "there are only results of mini from before the task changed; evaluate it" in done.err
    assert files() == before


def test_a_dry_run_prints_the_card_and_writes_nothing(carded: Callable[..., Done]) -> None:
    before = files()
    done = carded("--dry-run", "--board", "https://example.org/b")
    as_json = carded("--dry-run", "--json", "--board", "https://example.org/b")
    assert json.loads(as_json.out)["card"] == done.out
    assert files() == before
    carded("--board", "https://example.org/b")
    assert Path("run/README.md").read_text(encoding="utf-8") == done.out
    assert "https://example.org/b" in done.out


def test_json_says_what_was_written(carded: Callable[..., Done]) -> None:
    said = json.loads(carded("--json").out)
    assert said["unit"] == "percent"
    assert said["changed"] == said["files"]
    assert json.loads(carded("--json").out)["changed"] == []
    (p,) = (each["value"] for each in said["scores"] if each["score"] == "polarity_at_4")
    assert 0 < p <= 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--results none", "--results none: no such folder"),
        ("--results tasks", "--results tasks: no results of run"),
        ("--results other", "or has changed since"),
        ("--prompt x", "results of the same weights with other options (run, up to 16 tokens)"),
        ("--strength 1", "has no axis; train an encoder"),
        ("--board ftp://x", "--board: expected a URL, https://..., got 'ftp://x'"),
    ],
)
def test_bad_input_is_named_and_nothing_written(
    carded: Callable[..., Done], arguments: str, message: str
) -> None:
    before = files()
    done = carded(*arguments.split())
    assert done.code == 2
    assert message in done.err
    assert files() == before


def test_a_card_of_shortened_vectors_says_so(
    carded: Callable[..., Done], bench: Bench, task_dir: Path
) -> None:
    options = ("--truncate-dim", "16", "--quantize", "int8", "--sides", "query")
    ran = bench(
        "run", "-m", "run", "-t", "mini", "--task-dir", task_dir, *options, "-o", "shortened"
    )
    assert ran.code == 0, ran.err
    assert carded("--results", "shortened").code == 2
    assert carded("--results", "shortened", *options).code == 0
    (entry,) = results_of(Path("run/README.md").read_text())
    said = entry["dataset"]["args"]
    named = {name: said[name] for name in ("truncate_dim", "quantize", "sides", "reference")}
    assert named == {
        "truncate_dim": "16",
        "quantize": "int8",
        "sides": "query",
        "reference": "run (sides query)",
    }


@pytest.mark.parametrize("name", ["random", "minilm"])
def test_a_folder_is_a_folder_though_an_encoder_has_its_name(
    carded: Callable[..., Done], bench: Bench, task_dir: Path, name: str
) -> None:
    Path("run").rename(name)
    done = bench("card", name, "--task-dir", task_dir)
    assert done.code == 0, done.err
    assert "Task mini" in Path(name, "README.md").read_text()


def test_a_folder_that_is_none(bench: Bench) -> None:
    done = bench("card", "nowhere")
    assert (done.code, "nowhere: no such folder; name the folder of an encoder" in done.err) == (
        2,
        True,
    )


def test_an_encoder_that_was_trained_again(carded: Callable[..., Done], tmp_path: Path) -> None:
    shutil.rmtree("run")
    tiny_encoder(tmp_path / "run", width=16)
    done = carded()
    assert done.code == 2
    assert "the results of run have another digest" in done.err
    assert not Path("run/README.md").exists()


def test_results_of_a_quick_look_are_refused(
    carded: Callable[..., Done], task_dir: Path, tmp_path: Path
) -> None:
    spec = read_task(task_dir / "mini.toml")
    cut = evaluate(load_encoder("run"), spec.load(DataAccess(offline=True), Settings(limit=6)))
    write_result(cut, tmp_path / "cut")
    assert "--results cut: run: all results have a `limit`" in carded("--results", "cut").err
    write_result(cut, tmp_path / "results")
    assert "left out: 1 of 2 results" in carded().err


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("README.md", b"---\na: [\n---\n", "run/README.md: the YAML header is invalid"),
        ("README.md", b"---\xff", "run/README.md: not UTF-8"),
        (
            ".eval_results/polarity-bench.yaml",
            b"- 1\n",
            "entries from another program, which would be lost; rename the",
        ),
    ],
)
def test_a_file_that_cannot_be_updated_stays(
    carded: Callable[..., Done], file: str, content: bytes, message: str
) -> None:
    path = Path("run", file)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    before = files()
    done = carded()
    assert done.code == 2
    assert message in done.err
    assert files() == before
