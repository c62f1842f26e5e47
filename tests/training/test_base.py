"""A trained encoder knows its base wherever it goes, and says so where the base can't be had."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins import call
from standins.training import SMALL, run

from polarity_bench import PolarityEvaluator, load_encoder
from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import SentenceTransformerEncoder
from polarity_bench.encoders.reference_encoder import Base, ReferenceWarning, find_base, write_base
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.results.result_files import Result, read_result, write_result
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import load_task

RETENTION, JOINT, P = (ScoreKey(name, 4) for name in ("retention", "joint", "polarity"))


@pytest.fixture
def base(tiny_model: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_model, tmp_path / "base")


@pytest.fixture
def published(base: Path, task_dir: Path, tmp_path: Path) -> Path:
    """What a trained encoder becomes by `save_pretrained`, which `push_to_hub` calls as well."""
    run(base, task_dir, tmp_path / "x", replace(SMALL, held_out=0))
    model: Any = model_of(tmp_path / "x")
    model.save_pretrained(str(tmp_path / "published"), create_model_card=False)
    return tmp_path / "published"


def model_of(folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu")


def scored(folder: Path, task_dir: Path, **more: Any) -> Result:
    return evaluate(str(folder), load_task("mini", task_dir=task_dir), **more)


def test_a_saved_copy_is_measured_with_its_base(
    base: Path, published: Path, task_dir: Path
) -> None:
    found, wanted = scored(published, task_dir), scored(published, task_dir, reference=str(base))
    assert found.key == wanted.key
    assert found.flat == wanted.flat
    assert found.scores[RETENTION].mean < 1


def test_a_base_that_is_gone_leaves_retention_and_joint_undefined(
    base: Path, published: Path, task_dir: Path, tmp_path: Path
) -> None:
    whole = scored(published, task_dir)
    shutil.rmtree(base)
    with pytest.warns(ReferenceWarning, match=r"the base base .*S, retention and joint are"):
        found = scored(published, task_dir)
    assert math.isnan(found.scores[RETENTION].mean)
    assert math.isnan(found.scores[JOINT].mean)
    assert found.scores[P] == whole.scores[P]
    assert found.key.digest != whole.key.digest, "else it would be taken for the whole one later"
    stored = read_result(write_result(found, tmp_path / "out"))
    assert stored.key == found.key
    assert not any("retention" in name or "joint" in name for name in found.arrays)


def test_another_encoder_in_the_place_of_the_base_is_no_reference(
    base: Path, published: Path, task_dir: Path
) -> None:
    shutil.copy(published / "model.safetensors", base / "model.safetensors")
    with pytest.warns(ReferenceWarning, match=r"the base has changed and is now base"):
        found = scored(published, task_dir)
    assert math.isnan(found.scores[JOINT].mean)


def test_the_command_finds_the_base_of_a_saved_copy_and_says_where_there_is_none(
    base: Path,
    published: Path,
    task_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments: list[str | Path] = [
        "run",
        "--model",
        published,
        "--tasks",
        "mini",
        "--task-dir",
        task_dir,
    ]
    done = call(monkeypatch, capsys, *arguments, "--json")
    (whole,) = json.loads(done.out)["results"]
    assert whole["reference"] == "base"
    assert whole["scores"]["retention_at_4"] < 1
    shutil.rmtree(base)
    done = call(monkeypatch, capsys, *arguments, "--json")
    (result,) = json.loads(done.out)["results"]
    assert result["scores"]["retention_at_4"] is None
    assert result["scores"]["joint_at_4"] is None
    assert result["scores"]["polarity_at_4"] == whole["scores"]["polarity_at_4"]
    assert "retention and joint are left out" in done.err
    assert not result["reused"]
    table = call(monkeypatch, capsys, *arguments)
    assert "reference: base (not available)" in table.out


def test_the_evaluator_finds_the_base(base: Path, published: Path, task_dir: Path) -> None:
    task = load_task("mini", task_dir=task_dir)
    frozen = PolarityEvaluator(task, reference=model_of(base))
    assert PolarityEvaluator(task)(model_of(published)) == frozen(model_of(published))
    evaluator = PolarityEvaluator(task)
    evaluator(model_of(published))
    assert evaluator(model_of(base))["mini_retention_at_4"] == 1, "of its own, not the last one's"


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_mteb_finds_the_base(base: Path, published: Path, task_dir: Path, tmp_path: Path) -> None:
    mteb: Any = pytest.importorskip("mteb")
    import polarity_bench

    polarity_bench.register(task_dir)
    wanted = scored(published, task_dir, reference=str(base))
    done = mteb.evaluate(
        model_of(published), mteb.get_task("MiniPolarityRetrieval"), cache=None, co2_tracker=False
    )
    (row,) = done.task_results[0].scores["test"]
    assert row["retention_at_4"] == wanted.scores[RETENTION].mean
    assert row["main_score"] == wanted.main.mean


def test_the_digest_of_an_encoder_does_not_depend_on_what_it_says_of_its_base(
    published: Path, tmp_path: Path
) -> None:
    config = json.loads((published / "config.json").read_text())
    assert config.pop("polarity_bench")["base"]["name"] == "base"
    (bare := shutil.copytree(published, tmp_path / "bare"))
    (bare / "config.json").write_text(json.dumps(config))
    assert load_encoder(str(bare)).id.digest == load_encoder(str(published)).id.digest
    assert find_base(load_encoder(str(bare))) is None


def test_a_static_encoder_carries_its_base_in_its_card(tmp_path: Path) -> None:
    """It has no configuration of its own."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from standins.models import word_tokenizer

    from polarity_bench.encoders.reference_encoder import in_card

    model = SentenceTransformer(
        modules=[StaticEmbedding(word_tokenizer(), embedding_dim=4)], device="cpu"
    )
    said = Base("minilm", EncoderId("org/base", "0123456789abcdef", prompt="query: "))
    write_base(model, said)
    model.save_pretrained(str(tmp_path / "a"), create_model_card=False)
    from huggingface_hub import ModelCardData

    card = f"---\n{ModelCardData(**in_card(said)).to_yaml()}\n---\n\n# a\n"
    (tmp_path / "a" / "README.md").write_text(card)
    model_of(tmp_path / "a").save_pretrained(str(tmp_path / "b"))
    assert find_base(SentenceTransformerEncoder(model_of(tmp_path / "b"), name="b")) == said


def test_an_encoder_that_is_its_own_base_is_measured_without_one(
    base: Path, task_dir: Path
) -> None:
    """Training that none of whose states was better keeps the base, and says what its base was."""
    model = model_of(base)
    own = SentenceTransformerEncoder(model, name="base")
    write_base(model, Base(str(base), own.id))
    evaluator = PolarityEvaluator(load_task("mini", task_dir=task_dir))
    assert evaluator(model) == evaluator(model_of(base))


def test_a_trained_base_that_was_kept_is_measured_by_what_it_was_trained_from(
    published: Path,
    base: Path,
    task_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same weights in two folders have one score, however they are asked for."""
    x = tmp_path / "x"
    kept = run(x, task_dir, tmp_path / "y", replace(SMALL, held_out=0, rate=1e-12, epochs=1))
    assert kept.kept == 0
    wanted = scored(published, task_dir, reference=str(base))
    assert scored(tmp_path / "y", task_dir).flat == wanted.flat
    words = ["--tasks", "mini", "--task-dir", str(task_dir), "--output", str(tmp_path), "--json"]
    for folder in (x, tmp_path / "y"):
        done = call(monkeypatch, capsys, "run", "--model", folder, *words)
        (result,) = json.loads(done.out)["results"]
        assert result["reference"] == "base"
        assert result["scores"][str(RETENTION)] == wanted.scores[RETENTION].mean
    card = (tmp_path / "y" / "README.md").read_text()
    assert "**Reference**: x for the scores below" in card
    front = card.split("---")[1]
    assert "polarity_at_4" in front
    assert "retention_at_4" not in front


def test_the_card_names_the_base_with_its_digest(published: Path, tmp_path: Path) -> None:
    card = (tmp_path / "x" / "README.md").read_text()
    front = card.split("---")[1]
    assert "polarity_bench:" in front
    assert load_encoder(str(tmp_path / "base")).id.weights in front


def test_the_card_has_the_licence_of_the_base(base: Path, task_dir: Path, tmp_path: Path) -> None:
    (base / "README.md").write_text("---\nlicense: mit\n---\n\n# Base\n")
    run(base, task_dir, tmp_path / "x", replace(SMALL, held_out=0))
    card = (tmp_path / "x" / "README.md").read_text()
    assert "license: mit\n" in card.split("---")[1]
    assert "and the licence of that encoder (mit) applies" in card
