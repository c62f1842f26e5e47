"""The model card of a trained encoder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from polarity_bench.encoders.reference_encoder import Base, in_card
from polarity_bench.files import read_json
from polarity_bench.render.markdown import decimal, escape, table
from polarity_bench.render.table import Column
from polarity_bench.results.result_files import Result
from polarity_bench.scores import ScoreKey, Weighting
from polarity_bench.tasks.types.base import TaskSpec
from polarity_bench.tasks.types.polarity.task import PolaritySpec
from polarity_bench.training.history import SCORE_TITLES, Row
from polarity_bench.training.recipes.base import FitResult
from polarity_bench.training.run_folder import RunIdentity

LIBRARY, PIPELINE = "sentence-transformers", "sentence-similarity"
TRAINED = "Polarity retrieval"
"""Name of the task in the model cards that training and evaluators write."""


@dataclass(frozen=True)
class DataSet:
    """A task's data set, in the fields of `huggingface_hub.EvalResult`.

    Attributes:
        dataset_type: Owner and name on the hub; the task's name if the data is not on the hub.
        dataset_name: The task's title.
        dataset_revision: The commit, if the data is on the hub.
    """

    dataset_type: str
    dataset_name: str
    dataset_revision: str | None = None

    @classmethod
    def of(cls, spec: TaskSpec) -> DataSet:
        """Return the data set of a task's queries."""
        splits: Mapping[str, Any] = getattr(spec, "splits", {})
        hub = splits["query"].hub if splits else None
        return cls(hub.id, spec.title, hub.revision) if hub else cls(spec.name, spec.title)


def shown_keys(result: Result, weighting: Weighting = "linear") -> list[ScoreKey]:
    """Return the keys of the defined scores of a result that a card shows.

    These are P, S, retention and joint at each k, and the main score of non-retrieval tasks.
    """
    keys = [ScoreKey(metric, k, weighting) for k in result.ks for metric in SCORE_TITLES]
    scores = result.scores
    return [k for k in keys or [result.main_score] if k in scores and math.isfinite(scores[k].mean)]


def hub_language(language: str) -> str:
    """Return the hub's code of a language given in mteb's notation.

    Example:
        >>> hub_language("eng-Latn"), hub_language("arb-Arab"), hub_language("yue-Hant")
        ('en', 'ar', 'yue')
    """
    code = language.partition("-")[0]
    return _two_letter_codes().get(code, code)


@cache
def _two_letter_codes() -> Mapping[str, str]:
    """Return the codes of ISO 639-1 by those of ISO 639-3, from mteb's table.

    The hub accepts codes of ISO 639-3 too, so nothing is lost if a version of mteb has no table.
    Importing mteb would take seconds.
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
The last module is code of polarity-bench, which must be installed; `trust_remote_code=True` lets
sentence-transformers load it.

```python
from sentence_transformers import SentenceTransformer

encoder = SentenceTransformer("path/to/this/folder", trust_remote_code=True)
documents = encoder.encode_document(["The soup was cold.", "The soup was hot."])
query = encoder.encode_query("The waiter brought a cold soup.", strength=1.0)
similarities = documents @ query  # an inner product
```

A strength of 0 ranks as the base does, above 0 prefers the query's class, below 0 the others. It
acts on the query alone, so that one index of documents serves all strengths.

In a vector store, index the vectors of `encode_document`, never those of `encode`, and search with
those of `encode_query`. All documents have the same length, so that the inner product, the cosine
and the Euclidean distance rank alike: use whichever the store offers. A store that demands unit
vectors gets documents and queries divided by their lengths, which changes no ranking.

For shorter vectors, set `encoder[-1].truncate_dim = 128`. The setting `truncate_dim` of
sentence-transformers cuts after the axis is added, so that documents differ in length;
polarity-bench refuses it."""


def model_card(
    name: str,
    identity: RunIdentity,
    task: PolaritySpec,
    rows: Sequence[Row],
    fitted: FitResult,
    origin: Base,
    licence: str | None = None,
    *,
    has_axis: bool = False,
    has_figure: bool = True,
) -> str:
    """Return the README.md of a trained encoder, with the facts that its recipe states.

    Args:
        name: Name of the encoder.
        identity: Identity of the run.
        task: The task that it was trained on.
        rows: Scores by epoch, the first before training.
        fitted: Result of the training.
        origin: The encoder that it was trained from.
        licence: Licence of the base, if the base's card states one.
        has_axis: Whether the encoder's last module is an axis.
        has_figure: Whether `history.svg` is in the same folder.
    """
    base, recipe = identity.base, identity.recipe
    kept = next(row for row in rows if row["step"] == fitted.kept)
    facts = {
        "Base": f"{base.label} (digest {base.digest})",
        "Recipe": recipe.name,
        **fitted.facts,
        "Run": f"{identity.digest}; train.json records everything that determines it",
    }
    measured_alike = origin.encoder.digest == base.digest
    if not fitted.kept:
        facts["Kept"] = "the unchanged base: no epoch scored better"
    if not measured_alike:
        facts["Reference"] = (
            f"{base.label} for the scores below; elsewhere {origin.encoder.label} (digest "
            f"{origin.encoder.digest}), the base of {base.label}"
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
        history_table(rows),
        "![scores by epoch](history.svg)" if has_figure else "",
        "## Use",
        _USE_OF_AXIS if has_axis else _USE,
        "`polarity-bench run` scores it, with its base as the reference.",
        "## Licence",
        (
            f"The weights are derived from {escape(base.name)}, whose licence"
            f"{f' ({escape(licence)})' if licence else ''} applies to them. The "
            f"training texts are {texts or f'{title}{of_texts}'}; none is part of this folder."
        ),
        f"## Sources\n\n{recipe.sources}\n",
    ]
    return "\n\n".join(filter(None, parts))


def history_table(rows: Sequence[Row], width: int | None = None) -> str:
    """Return the history as a table in percent, joint with its interval; the loss is unscaled."""
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
    """Return the ends of each value's interval; None if it has none."""
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
    """Return the YAML that the hub reads from a card; undefined scores are left out.

    `own_data` is whether the encoder was trained on the task's own texts.
    """
    data_set = DataSet.of(task)
    results = [
        EvalResult(
            task_type="retrieval",
            task_name=TRAINED,
            **asdict(data_set),
            dataset_args={"reference": base.encoder.label},
            metric_type=f"{metric}_at_{task.protocol.k}",
            metric_name=f"{head} at {task.protocol.k}, percent",
            metric_value=round(100 * value, 4),
        )
        for metric, head in SCORE_TITLES.items()
        if (value := kept[metric]) is not None
    ]
    hubs = {split.hub.id for split in task.splits.values() if split.hub}
    return header(
        tags,
        language=[hub_language(language) for language in task.languages],
        license=licence or "other",
        license_name=None if licence else "that-of-the-base",
        datasets=sorted(hubs) if hubs and own_data else None,
        base_model=base.encoder.name if "/" in base.encoder.name else None,
        model_name=name,
        eval_results=results,
        **in_card(base),
    )


def header(tags: Sequence[str] = (), *, library: str | None = LIBRARY, **data: Any) -> str:
    """Return the YAML header of a card that this package writes.

    Args:
        tags: Tags besides those of every encoder.
        library: The library that loads the encoder.
        **data: Further fields of `ModelCardData`; None leaves a field out.
    """
    data["tags"] = [*filter(None, [library]), PIPELINE, *tags, "polarity-bench"]
    card = ModelCardData(library_name=library, pipeline_tag=PIPELINE, **data)
    return f"---\n{card.to_yaml()}\n---"
