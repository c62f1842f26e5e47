"""Model cards of trained encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from polarity_bench.encoders.reference_encoder import Base, in_card
from polarity_bench.files import read_json
from polarity_bench.render.format import decimal
from polarity_bench.render.markdown import escape, table
from polarity_bench.render.table import Column
from polarity_bench.tasks.types.base import TaskSpec
from polarity_bench.tasks.types.polarity.task import PolaritySpec
from polarity_bench.training.history import SCORE_TITLES, Row
from polarity_bench.training.recipes.base import FitResult, Recipe
from polarity_bench.training.run_folder import RunIdentity

LIBRARY, PIPELINE = "sentence-transformers", "sentence-similarity"
TRAINED = "Polarity retrieval"
"""Task name in the model cards that training runs and evaluators write."""


@dataclass(frozen=True)
class DataSet:
    """A task's data set, in the fields of `huggingface_hub.EvalResult`.

    Attributes:
        dataset_type: Name on the hub, as owner/name; the task's name if the data is not there.
        dataset_name: Title of the task.
        dataset_revision: Commit of the data set; None if the data is not on the hub.
    """

    dataset_type: str
    dataset_name: str
    dataset_revision: str | None = None

    @classmethod
    def of(cls, spec: TaskSpec) -> DataSet:
        """Return the data set that contains a task's queries."""
        splits: Mapping[str, Any] = getattr(spec, "splits", {})
        hub = splits["query"].hub if splits else None
        return cls(hub.id, spec.title, hub.revision) if hub else cls(spec.name, spec.title)


def hub_language(language: str) -> str:
    """Convert a language code from mteb's notation to the hub's.

    Example:
        >>> hub_language("eng-Latn"), hub_language("arb-Arab"), hub_language("yue-Hant")
        ('en', 'ar', 'yue')
    """
    code = language.partition("-")[0]
    return _two_letter_codes().get(code, code)


@cache
def _two_letter_codes() -> Mapping[str, str]:
    """Return a mapping from ISO 639-3 to ISO 639-1 codes, from mteb's table.

    The table is read from its file, because importing mteb takes seconds. If a version of mteb has
    no table, the mapping is almost empty. That is harmless: the hub accepts ISO 639-3 codes too.
    """
    table = Path(str(distribution("mteb").locate_file("mteb/languages/iso_639_1_to_3.json")))
    two_to_three = read_json(table) if table.is_file() else {}
    return {three: two for two, three in two_to_three.items()} | {"arb": "ar"}


_USE = """\
```python
from sentence_transformers import SentenceTransformer

encoder = SentenceTransformer("path/to/this/folder")
vectors = encoder.encode(["The soup was cold.", "The soup was hot."])
```"""
_USE_OF_AXIS = """\
The last module of the encoder is part of polarity-bench, which must be installed.
`trust_remote_code=True` allows sentence-transformers to load it.

```python
from sentence_transformers import SentenceTransformer

encoder = SentenceTransformer("path/to/this/folder", trust_remote_code=True)
documents = encoder.encode_document(["The soup was cold.", "The soup was hot."])
query = encoder.encode_query("The waiter brought a cold soup.", strength={strength})
similarities = documents @ query  # an inner product
```

Strength 0 gives the base's ranking. A positive strength prefers documents of the query's class, and
a negative strength prefers the other classes. The strength changes only the query's vector, so one
index of documents works with every strength.

In a vector store, index vectors from `encode_document`, never from `encode`, and search with
vectors from `encode_query`. All document vectors have the same length, so inner product, cosine and
Euclidean distance give the same ranking. If the store requires unit vectors, normalise documents
and queries; the ranking does not change.

For shorter vectors, set `encoder[-1].truncate_dim = 128`. Do not use the setting `truncate_dim` of
sentence-transformers: it truncates after the axis is added, so document vectors differ in length.
polarity-bench rejects such encoders."""


def model_card(
    folder: Path,
    recipe: Recipe,
    identity: RunIdentity,
    task: PolaritySpec,
    rows: Sequence[Row],
    fitted: FitResult,
    origin: Base,
    licence: str | None = None,
    *,
    strength: float | None = None,
) -> str:
    """Return the README.md of a trained encoder. Its YAML header leaves out undefined scores.

    Args:
        folder: Folder of the encoder, whose name is the encoder's. If the folder contains
            `history.svg`, the card shows it.
        recipe: How the encoder was trained.
        identity: Identity of the run.
        task: Task that the encoder was trained on.
        rows: Scores by epoch; the first row is before training.
        fitted: Result of the training, with the recipe's facts.
        origin: The encoder to record as the base.
        licence: Licence of the base, or None if the base's card does not state a licence.
        strength: Default strength of the encoder's axis, or None if it has no axis.
    """
    base = identity.base
    kept = next(row for row in rows if row["step"] == fitted.kept)
    facts = {
        "Base": f"{base.label} (digest {base.digest})",
        "Recipe": recipe.words,
        **fitted.facts,
        "Run": f"{identity.digest}; train.json records everything that affects the result",
    }
    measured_alike = origin.encoder.digest == base.digest
    if not fitted.kept:
        facts["Kept"] = "the unchanged base: no epoch scored better"
    if not measured_alike:
        facts["Reference"] = (
            f"{base.label} for the scores below; elsewhere {origin.encoder.label} (digest "
            f"{origin.encoder.digest}), the base of {base.label}"
        )
    scores = kept if measured_alike else {"polarity": kept["polarity"]}
    results = [
        EvalResult(
            task_type="retrieval",
            task_name=TRAINED,
            **asdict(DataSet.of(task)),
            dataset_args={"reference": origin.encoder.label},
            metric_type=f"{metric}_at_{task.protocol.k}",
            metric_name=f"{head} at {task.protocol.k}, percent",
            metric_value=round(100 * value, 4),
        )
        for metric, head in SCORE_TITLES.items()
        if (value := scores.get(metric)) is not None
    ]
    hubs = {split.hub.id for split in task.splits.values() if split.hub}
    front = header(
        recipe.tags,
        language=[hub_language(language) for language in task.languages],
        license=licence or "other",
        license_name=None if licence else "that-of-the-base",
        datasets=sorted(hubs) if hubs and fitted.trained_on is None else None,
        base_model=origin.encoder.name if "/" in origin.encoder.name else None,
        model_name=folder.name,
        eval_results=results,
        **in_card(origin),
    )
    classes = " from ".join(map(escape, sorted(set(task.labels.values())))) or "its classes"
    of_texts = f" (licence: {escape(task.licence)})" if task.licence else ""
    title, texts = escape(task.title), fitted.trained_on and escape(fitted.trained_on)
    purpose = texts or f"{title}, to separate {classes} while preserving meaning"
    parts = [
        front,
        f"# {escape(folder.name)}",
        f"A sentence encoder trained with polarity-bench on {purpose}.",
        "\n".join(f"- **{head}**: {escape(fact)}" for head, fact in facts.items()),
        "## Scores",
        (
            f"On {title}, in percent at k = {task.protocol.k}, with linear rank weights. P is the "
            "polarity score. S is the semantic similarity measured with the base as the reference. "
            "Retention is S above chance, relative to the base's. Joint is the harmonic mean of "
            "P's lift over chance and retention, with its bootstrap 95 % interval."
        ),
        history_table(rows),
        "![scores by epoch](history.svg)" if (folder / "history.svg").is_file() else "",
        "## Use",
        _USE if strength is None else _USE_OF_AXIS.format(strength=strength),
        "`polarity-bench run` scores this encoder, with its base as the reference.",
        "## Licence",
        (
            f"The weights are derived from {escape(base.name)}, and the licence of that encoder"
            f"{f' ({escape(licence)})' if licence else ''} applies. The training texts are "
            f"{texts or f'{title}{of_texts}'}. This folder does not contain them, only hashes of "
            "them and of their words (`training_texts.json.gz`), which can confirm a guess. Delete "
            "that file before you publish an encoder of private texts."
        ),
        f"## Sources\n\n{recipe.sources}\n",
    ]
    return "\n\n".join(filter(None, parts))


def history_table(rows: Sequence[Row], width: int | None = None) -> str:
    """Return the history as a markdown table, with scores and joint's interval in percent."""
    heads = [
        ("epoch", [f"{row['epoch']:g}" for row in rows]),
        ("loss", [decimal(row["loss"], 4) for row in rows]),
    ]
    columns = [
        Column(head, [row[metric] for row in rows], _ends(rows, metric))
        for metric, head in (SCORE_TITLES | {"held_out_joint": "held-out joint"}).items()
        if metric in rows[0]
    ]
    return table(heads, columns, width=width)


def _ends(rows: Sequence[Row], metric: str) -> list[tuple[float, float] | None]:
    """Return the interval of each row's value, or None for a value without an interval."""
    ends = ((row.get(f"{metric}_low"), row.get(f"{metric}_high")) for row in rows)
    return [None if low is None or high is None else (low, high) for low, high in ends]


def header(tags: Sequence[str] = (), *, library: str | None = LIBRARY, **data: Any) -> str:
    """Return the YAML header of a card that this package writes.

    Args:
        tags: Tags to add to those that every card has.
        library: The library that loads the encoder; None if no library does.
        **data: Further fields of `ModelCardData`; fields that are None are left out.
    """
    data["tags"] = [*filter(None, [library]), PIPELINE, *tags, "polarity-bench"]
    card = ModelCardData(library_name=library, pipeline_tag=PIPELINE, **data)
    return f"---\n{card.to_yaml()}\n---"
