"""SentEval and STS in mteb: registered, and the same numbers as here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from standins import QUICK, BagEncoder, Workshop

import polarity_bench
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.values import FloatArray


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_sts_equals_mtebs_own_task_on_the_same_text(workshop: Workshop) -> None:
    mteb = pytest.importorskip("mteb")
    datasets = pytest.importorskip("datasets")
    spec = workshop.sts(subsets={"one": 40, "two": 25})
    task: Any = workshop.load(spec)
    rows: list[Any] = [row for part in task.parts.values() for row in part]

    made = type(
        "LittleSTS",
        (mteb.abstasks.AbsTaskSTS,),
        {
            "metadata": mteb.TaskMetadata(
                name="LittleSTS",
                description="The same pairs.",
                dataset={"path": "none/none", "revision": "1"},
                type="STS",
                category="t2t",
                modalities=["text"],
                eval_splits=["test"],
                eval_langs=["eng-Latn"],
                main_score="cosine_spearman",
                bibtex_citation="",
                reference=None,
            )
        },
    )
    theirs = made()
    columns = {
        "sentence1": [row.texts[0] for row in rows],
        "sentence2": [row.texts[1] for row in rows],
        "score": [row.label for row in rows],
    }
    theirs.dataset = datasets.DatasetDict(test=datasets.Dataset.from_dict(columns))
    theirs.data_loaded = True
    outcome = mteb.evaluate(BagModel(), theirs, cache=None, show_progress_bar=False)
    scores = outcome.task_results[0].scores["test"][0]

    ours = evaluate(BagEncoder(), task).flat
    assert ours["spearman_all"] == pytest.approx(scores["cosine_spearman"], abs=1e-12)
    assert ours["spearman_all"] == pytest.approx(scores["spearman"], abs=1e-12)
    assert ours["pearson_all"] == pytest.approx(scores["cosine_pearson"], abs=1e-6)


class BagModel:
    """An mteb model with the vectors of `BagEncoder`."""

    def __init__(self) -> None:
        overwrites = {"name": "tests/bag", "revision": "1"}
        meta = import_module("mteb.models").ModelMeta
        self.mteb_model_meta = meta.create_empty(overwrites=overwrites)
        self.metadata: list[Any] = []

    def encode(self, inputs: Any, **kwargs: Any) -> FloatArray:
        self.metadata.append(kwargs["task_metadata"])
        return BagEncoder().encode([text for batch in inputs for text in batch["text"]])

    def similarity(self, one: Any, other: Any) -> Any:
        return np.asarray(one) @ np.asarray(other).T

    def similarity_pairwise(self, one: Any, other: Any) -> Any:
        torch = import_module("torch")
        return torch.nn.functional.cosine_similarity(torch.tensor(one), torch.tensor(other))


SHIPPED = {
    "SentEvalMR": "accuracy",
    "SentEvalCR": "accuracy",
    "SentEvalSUBJ": "accuracy",
    "SentEvalMPQA": "accuracy",
    "SentEvalSST2": "accuracy",
    "SentEvalSST5": "accuracy",
    "SentEvalTREC": "accuracy",
    "SentEvalMRPC": "accuracy",
    "SentEvalSICKE": "accuracy",
    "SentEvalLength": "accuracy",
    "SentEvalWordContent": "accuracy",
    "SentEvalCoordinationInversion": "accuracy",
    "SentEvalSICKR": "pearson",
    "SentEvalSTSBRelatedness": "pearson",
    "SemEvalSTS12": "spearman_all",
    "SemEvalSTS13": "spearman_all",
    "SemEvalSTS14": "spearman_all",
    "SemEvalSTS15": "spearman_all",
    "SemEvalSTS16": "spearman_all",
    "SemEvalSTSB": "spearman_all",
}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_transfer_and_sts_tasks_are_registered_in_mteb(workshop: Workshop) -> None:
    mteb = pytest.importorskip("mteb")
    workshop.labelled_lines(name="mteb-mr")
    workshop.sts(name="mteb-sts")
    workshop.probing(name="mteb-probing")
    polarity_bench.register(workshop.tasks)
    for name, main_score in SHIPPED.items():
        task = mteb.get_task(name)
        assert task.metadata.main_score == main_score, name
        own = "AbsTaskClassification" if task.metadata.type == "Classification" else "AbsTaskSTS"
        assert task.abstask_prompt == getattr(mteb.abstasks, own).abstask_prompt

    for spec in workshop.specs.values():
        made = type(mteb.get_task(spec.result_name))
        task = made(settings=QUICK, data_dir=workshop.data)
        outcome = mteb.evaluate(BagModel(), task, cache=None, show_progress_bar=False)
        theirs = outcome.task_results[0].scores["test"][0]
        ours = evaluate(BagEncoder(), workshop.load(spec))
        for name, value in ours.flat.items():
            assert theirs[name] == pytest.approx(value, abs=1e-12, nan_ok=True), name
        assert theirs["main_score"] == ours.main.mean
