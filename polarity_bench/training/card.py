"""The model card of a trained encoder, and the card of a set of examples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from polarity_bench.boards.markdown import escape, table
from polarity_bench.boards.table import Column
from polarity_bench.spec import PolaritySpec
from polarity_bench.training.history import Row
from polarity_bench.training.losses import LOSSES
from polarity_bench.training.spec import RunIdentity
from polarity_bench.types import EncoderId

_HEADS = {"polarity": "P", "similarity": "S", "retention": "retention", "joint": "joint"}
PAPER = (
    "Jørgensen and Breitung (2025), *Margins in Contrastive Learning: Evaluating Multi-task "
    "Retrieval for Sentence Embeddings*"
)


def model_card(
    name: str,
    identity: RunIdentity,
    task: PolaritySpec,
    rows: Sequence[Row],
    best: int,
    n_examples: int,
) -> str:
    """Write the README.md of a trained encoder.

    Args:
        name: What to call it.
        identity: The run.
        task: The task that it was trained and scored on.
        rows: The history.
        best: The step of the checkpoint that was kept.
        n_examples: Examples of an epoch.
    """
    spec = identity.spec
    kind = LOSSES[spec.loss]
    parameter = ""
    if spec.margin is not None:
        parameter = f", margin {spec.margin:g} in cosine distance"
    elif spec.temperature is not None:
        parameter = f", temperature {spec.temperature:g}"
    kept = next(row for row in rows if row["step"] == best)
    chosen_by = "held-out queries" if "held_out_joint" in kept else "the task's own queries"
    warm_up = spec.warm_up if isinstance(spec.warm_up, str) else f"{spec.warm_up:g}"
    facts = {
        "Base": f"{escape(identity.base.label)} (digest `{identity.base.digest}`)",
        "Loss": f"{kind.title}{parameter}",
        "Examples": f"{kind.examples}, {n_examples:,} an epoch, {_recipe(identity)}",
        "Training": f"{spec.epochs} epochs of new draws, batches of {spec.batch_size}, rate "
        f"{spec.rate:g}, warm-up {warm_up}, schedule {spec.schedule}, weight decay "
        f"{spec.weight_decay:g}, {spec.dtype}, seed {spec.seed}",
        "Checkpoint": f"after step {best} (epoch {kept['epoch']:g}), chosen by the joint score of "
        f"{chosen_by}",
        "Run": f"`{identity.digest}`; the whole spec is in `train.json`",
    }
    classes = " from ".join(map(escape, sorted(set(task.labels.values()))))
    parts = [
        front_matter(name, identity.base, task, kept),
        f"# {escape(name)}",
        (
            "A sentence encoder trained with polarity-bench on "
            f"{escape(task.title)}, to tell {classes} while keeping meaning."
        ),
        "\n".join(f"- **{head}**: {fact}" for head, fact in facts.items()),
        *scores_and_use(identity.base, task, rows),
        f"## Sources\n\nMetrics, examples and margins: {PAPER}.\n",
    ]
    return "\n\n".join(parts)


def scores_and_use(
    base: EncoderId, task: PolaritySpec, rows: Sequence[Row], remark: str = ""
) -> list[str]:
    """Write the sections of a card on the scores, the use and the licence; any training has them.

    Args:
        base: The encoder before training.
        task: The task that it was trained and scored on.
        rows: The history.
        remark: What else to say of the scores.
    """
    licence = f" (licence: {escape(task.licence)})" if task.licence else ""
    scores = (
        f"In percent at k = {task.protocol.k}, ranks weighted linearly. P is the polarity score; S "
        "the semantic similarity under the base, which is the reference; retention S above chance "
        "as a share of the base's; joint the harmonic mean of P's lift over chance and of "
        "retention."
    )
    use = (
        "```python\nfrom sentence_transformers import SentenceTransformer\n\n"
        'encoder = SentenceTransformer("path/to/this/folder")\n```\n\n'
        "`polarity-bench run --model path/to/this/folder` scores it, with its base as the "
        "reference."
    )
    derived = (
        f"The weights are derived from {escape(base.name)}, whose licence holds for them. The "
        f"training texts are {escape(task.title)}{licence}; none is part of this folder."
    )
    return [
        "## Scores",
        f"{scores} {remark}".rstrip(),
        history_table(rows),
        "![scores by epoch](history.svg)",
        "## Use",
        use,
        "## Licence",
        derived,
    ]


def history_table(rows: Sequence[Row]) -> str:
    """Write the history as a table in percent; the loss in its own unit."""
    losses = ["-" if row["loss"] is None else f"{row['loss']:.4f}" for row in rows]
    heads = [("epoch", [f"{row['epoch']:g}" for row in rows]), ("loss", losses)]
    shown = dict(_HEADS)
    if "held_out_joint" in rows[0]:
        shown["held_out_joint"] = "held-out joint"
    columns = [Column(head, [row[name] for row in rows]) for name, head in shown.items()]
    return table(heads, columns)


def _recipe(identity: RunIdentity) -> str:
    examples = identity.spec.examples
    if identity.example_encoder is None:
        return "given by the user"
    return (
        f"recipe {examples.recipe}, {examples.k} neighbours"
        + (f", cosine at least {examples.threshold:g}" if examples.recipe == "as-written" else "")
        + f", by {escape(identity.example_encoder.label)}"
    )


def front_matter(
    name: str, base: EncoderId, task: PolaritySpec, kept: Row, tags: Sequence[str] = ()
) -> str:
    """Write the YAML that a hub reads off a card; an undefined score is left out."""
    from huggingface_hub import EvalResult, ModelCardData

    results = [
        EvalResult(
            task_type="retrieval",
            task_name="Polarity retrieval",
            dataset_type=task.name,
            dataset_name=task.title,
            metric_type=f"{metric}_at_{task.protocol.k}",
            metric_name=f"{head} at {task.protocol.k}",
            metric_value=round(value, 6),
        )
        for metric, head in _HEADS.items()
        if (value := kept[metric]) is not None and not math.isnan(value)
    ]
    data = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=["sentence-transformers", "sentence-similarity", *tags, "polarity-bench"],
        base_model=base.name if "/" in base.name else None,
        model_name=name,
        eval_results=results,
    )
    return f"---\n{data.to_yaml()}\n---"


def examples_card(facts: Mapping[str, Any], title: str, size: int) -> str:
    """Write the README.md of a set of examples: front matter that `datasets` reads, and facts."""
    lines = "\n".join(f"- **{head}**: {escape(str(fact))}" for head, fact in facts.items())
    return (
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n"
        "    path: train.parquet\ntags:\n- polarity-bench\n---\n\n"
        f"# {escape(title)}\n\n{size:,} examples for training sentence encoders, made by "
        f"`polarity-bench examples`.\n\n{lines}\n\nThe texts keep their data set's licence.\n\n"
        f"Recipe: {PAPER}.\n"
    )
