"""The model card of a trained encoder, and the card of a set of examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polarity_bench.boards.hub_card import IN_CARDS, TRAINED, DataSet, hub_language
from polarity_bench.boards.markdown import decimal, escape, table
from polarity_bench.boards.table import Column
from polarity_bench.encoders.base import Base, in_card
from polarity_bench.kinds.polarity import PolaritySpec
from polarity_bench.training.folder import RunIdentity
from polarity_bench.training.history import Row
from polarity_bench.training.recipe import PAPER, Fitted

_USE = """\
```python
from sentence_transformers import SentenceTransformer

encoder = SentenceTransformer("path/to/this/folder")
vectors = encoder.encode(["The soup was cold.", "The soup was hot."])
```"""
_USE_OF_AXIS = """\
The last module is code of polarity-bench, which must be installed; `trust_remote_code=True` lets
sentence-transformers load it.

```python
from sentence_transformers import SentenceTransformer

encoder = SentenceTransformer("path/to/this/folder", trust_remote_code=True)
documents = encoder.encode_document(["The soup was cold.", "The soup was hot."])
query = encoder.encode_query("The waiter brought a cold soup.", strength=1.0)
similarities = documents @ query  # an inner product
```

A strength of 0 ranks as the base does, above 0 prefers the query's class, below 0 the others."""


def model_card(
    name: str,
    identity: RunIdentity,
    task: PolaritySpec,
    fitted: Fitted,
    origin: Base,
    licence: str | None = None,
    *,
    has_axis: bool = False,
    has_figure: bool = True,
) -> str:
    """Write the README.md of a trained encoder, with the facts that its recipe states.

    Args:
        name: What it is called.
        identity: Which run made it.
        task: What it was trained on.
        fitted: What came of that.
        origin: What it was trained from.
        licence: That of the base, where its own card says one.
        has_axis: Whether its last module is an axis.
        has_figure: Whether `history.svg` is beside the card.
    """
    base, recipe = identity.base, identity.recipe
    kept = next(row for row in fitted.rows if row["step"] == fitted.kept)
    facts = {
        "Base": f"{base.label} (digest {base.digest})",
        "Recipe": recipe.name,
        **fitted.facts,
        "Run": f"{identity.digest}; all that decides it is in train.json",
    }
    measured_alike = origin.encoder.digest == base.digest
    if not fitted.kept:
        facts["Kept"] = "the base as it was: no epoch scored better"
    if not measured_alike:
        facts["Reference"] = (
            f"of the scores below {base.label}; elsewhere it is {origin.encoder.label} (digest "
            f"{origin.encoder.digest}), which that was trained from"
        )
    classes = " from ".join(map(escape, sorted(set(task.labels.values()))))
    of_texts = f" (licence: {escape(task.licence)})" if task.licence else ""
    title, texts = escape(task.title), fitted.trained_on and escape(fitted.trained_on)
    purpose = texts or f"{title}, to tell {classes} while keeping meaning"
    parts = [
        front_matter(
            name,
            origin,
            task,
            kept if measured_alike else {**dict.fromkeys(kept), "polarity": kept["polarity"]},
            recipe.tags,
            licence,
            own_data=texts is None,
        ),
        f"# {escape(name)}",
        f"A sentence encoder trained with polarity-bench on {purpose}.",
        "\n".join(f"- **{head}**: {escape(fact)}" for head, fact in facts.items()),
        "## Scores",
        (
            f"On {title}, in percent at k = {task.protocol.k}, ranks weighted linearly. P is the "
            "polarity score; S the semantic similarity under the base, which is the reference; "
            "retention S above chance as a share of the base's; joint the harmonic mean of P's "
            "lift over chance and of retention, with its bootstrap 95 % interval."
        ),
        history_table(fitted.rows),
        "![scores by epoch](history.svg)" if has_figure else "",
        "## Use",
        _USE_OF_AXIS if has_axis else _USE,
        "`polarity-bench run` scores it, with its base as the reference.",
        "## Licence",
        (
            f"The weights are derived from {escape(base.name)}, whose licence"
            f"{f' ({escape(licence)})' if licence else ''} holds for them. The "
            f"training texts are {texts or f'{title}{of_texts}'}; none is part of this folder."
        ),
        f"## Sources\n\n{recipe.sources}\n",
    ]
    return "\n\n".join(filter(None, parts))


def history_table(rows: Sequence[Row], width: int | None = None) -> str:
    """Write the history as a table in percent, joint with its interval; the loss as it is."""
    heads = [
        ("epoch", [f"{row['epoch']:g}" for row in rows]),
        ("loss", [decimal(row["loss"], 4) for row in rows]),
    ]
    columns = [
        Column(head, [row[metric] for row in rows], _ends(rows, metric))
        for metric, head in (IN_CARDS | {"held_out_joint": "held-out joint"}).items()
        if metric in rows[0]
    ]
    return table(heads, columns, width=width)


def _ends(rows: Sequence[Row], metric: str) -> list[tuple[float, float] | None]:
    """The ends of the interval of each value; None where it has none."""
    ends = ((row.get(f"{metric}_low"), row.get(f"{metric}_high")) for row in rows)
    return [None if low is None or high is None else (low, high) for low, high in ends]


def front_matter(
    name: str,
    base: Base,
    task: PolaritySpec,
    kept: Row,
    tags: Sequence[str] = (),
    licence: str | None = None,
    *,
    own_data: bool = True,
) -> str:
    """Write the YAML that a hub reads off a card; an undefined score is left out.

    `own_data` says whether the task's texts are what it was trained on.
    """
    from huggingface_hub import EvalResult, ModelCardData

    data_set = DataSet.of(task)
    results = [
        EvalResult(
            task_type="retrieval",
            task_name=TRAINED,
            dataset_type=data_set.id,
            dataset_name=data_set.title,
            dataset_revision=data_set.revision,
            dataset_args={"reference": base.encoder.label},
            metric_type=f"{metric}_at_{task.protocol.k}",
            metric_name=f"{head} at {task.protocol.k}, percent",
            metric_value=round(100 * value, 4),
        )
        for metric, head in IN_CARDS.items()
        if (value := kept[metric]) is not None
    ]
    splits = task.splits.values()
    data = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=["sentence-transformers", "sentence-similarity", *tags, "polarity-bench"],
        language=[hub_language(language) for language in task.languages],
        license=licence or "other",
        license_name=None if licence else "that-of-the-base",
        datasets=sorted({split.hub.id for split in splits if split.hub}) or None
        if own_data
        else None,
        base_model=base.encoder.name if "/" in base.encoder.name else None,
        model_name=name,
        eval_results=results,
        **in_card(base),
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
        f"After {PAPER}.\n"
    )
