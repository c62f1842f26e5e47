"""The model card of an encoder that SetFit trained."""

from __future__ import annotations

from collections.abc import Sequence

from polarity_bench.leaderboard.markdown import escape
from polarity_bench.spec import PolaritySpec
from polarity_bench.training.card import history_table
from polarity_bench.training.history import Row
from polarity_bench.types import EncoderId

_METHOD = (
    "Tunstall et al. (2022), *Efficient few-shot learning without prompts* "
    "(https://arxiv.org/abs/2209.11055)"
)
_PAPER = (
    "Jørgensen and Breitung (2025), *Margins in Contrastive Learning: Evaluating Multi-task "
    "Retrieval for Sentence Embeddings*"
)


def setfit_card(
    name: str,
    base: EncoderId,
    task: PolaritySpec,
    training: str,
    run: str,
    rows: Sequence[Row],
) -> str:
    """Write the README.md of an encoder that SetFit trained.

    Args:
        name: What to call it.
        base: The encoder before.
        task: The task that it was trained and scored on.
        training: How it was trained, in words.
        run: The run's digest.
        rows: The history.
    """
    facts = {
        "Base": f"{escape(base.label)} (digest `{base.digest}`)",
        "Training": training,
        "Head": "in `head.safetensors`: `weight` and `bias` over the encoder's vectors as they "
        "are, a row for each class or, of a logistic regression over two classes, one for the "
        "second; the file's metadata names the classes",
        "Run": f"`{run}`; the whole spec is in `train.json`",
    }
    labels = " from ".join(map(escape, sorted(set(task.labels.values()))))
    what = (
        f"A sentence encoder trained by SetFit with polarity-bench on {escape(task.title)}, to "
        f"tell {labels}: a baseline."
    )
    scores = (
        f"In percent at k = {task.protocol.k}, ranks weighted linearly. P is the polarity score; S "
        "the semantic similarity under the base, which is the reference; retention S above chance "
        "as a share of the base's; joint the harmonic mean of P's lift over chance and of "
        "retention. The last row is what lies here."
    )
    use = (
        "```python\nfrom sentence_transformers import SentenceTransformer\n\n"
        'encoder = SentenceTransformer("path/to/this/folder")\n```\n\n'
        "`polarity-bench run --model path/to/this/folder` scores it, with its base as the "
        "reference."
    )
    licence = (
        f"The weights are derived from {escape(base.name)}, whose licence holds for them. The "
        f"training texts are {escape(task.title)}"
        + (f" (licence: {escape(task.licence)})" if task.licence else "")
        + "; none is part of this folder."
    )
    return (
        "\n\n".join(
            [
                _front_matter(name, base, task, rows[-1]),
                f"# {escape(name)}",
                what,
                "\n".join(f"- **{head}**: {fact}" for head, fact in facts.items()),
                "## Scores",
                scores,
                history_table(rows),
                "![scores by epoch](history.svg)",
                "## Use",
                use,
                "## Licence",
                licence,
                "## Sources",
                f"Method: {_METHOD}. Metrics and the recipe `papers`: {_PAPER}.",
            ]
        )
        + "\n"
    )


def _front_matter(name: str, base: EncoderId, task: PolaritySpec, last: Row) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    data = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=["sentence-transformers", "sentence-similarity", "setfit", "polarity-bench"],
        base_model=base.name if "/" in base.name else None,
        model_name=name,
        eval_results=[
            EvalResult(
                task_type="retrieval",
                task_name="Polarity retrieval",
                dataset_type=task.name,
                dataset_name=task.title,
                metric_type=f"{metric}_at_{task.protocol.k}",
                metric_name=f"{head} at {task.protocol.k}",
                metric_value=round(float(last[metric] or 0.0), 6),
            )
            for metric, head in (
                ("polarity", "P"),
                ("similarity", "S"),
                ("retention", "retention"),
                ("joint", "joint"),
            )
        ],
    )
    return f"---\n{data.to_yaml()}\n---"
