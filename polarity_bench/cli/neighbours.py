"""`polarity-bench neighbours`: the sources of a task that an encoder retrieves for a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from polarity_bench.cli.inputs import parse_strengths
from polarity_bench.cli.options import (
    TEXT_OPTIONS,
    TRUST_OPTIONS,
    VECTOR_OPTIONS,
    DataFlags,
    Model,
    StoreFlags,
    Strength,
    usable_options,
)
from polarity_bench.cli.output import OutputFlags, remark, remark_draws
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError, check_at_least

if TYPE_CHECKING:
    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.encoders.base import Encoder
    from polarity_bench.tasks.types.polarity.task import PolarityTask

Retrieved = list[dict[str, Any]]
"""Retrieved sources, nearest first: text, label, other columns of the task and similarity."""


def neighbours(
    *,
    text: Annotated[str, "Text of the query.", "TEXT"],
    task: Annotated[
        str, "Polarity task that provides the sources, the texts to search.", "-t"
    ] = "contrast",
    model: Model = "minilm",
    k: Annotated[int, "Number of sources to show.", "-k"] = 5,
    strength: Strength = None,
    encoder_flags: Annotated[
        EncoderOptions, (*TEXT_OPTIONS, *VECTOR_OPTIONS, "revision", "device", *TRUST_OPTIONS)
    ],
    data: DataFlags,
    embedding: StoreFlags,
    out: OutputFlags,
) -> None:
    """Show the texts nearest to a query, with their labels.

    The command searches the sources of a polarity task. Sources equal to the query are left out.
    """
    from polarity_bench.encoders.steered import at_strength
    from polarity_bench.evaluation.many_encoders import load_model, with_memory
    from polarity_bench.tasks.types.base import Settings

    if not text.strip() or "\x00" in text:
        wrong = "contains a NUL byte" if text.strip() else "is empty"
        raise InputError(f"{text!r}: the text {wrong}; give another text")
    check_at_least(1, k=k)
    strengths = parse_strengths(strength)
    spec = data.polarity_task(task)
    access = data.access()
    options = usable_options(encoder_flags, offline=access.offline)
    loaded = spec.load(access, Settings()).with_query(text, k)
    remark_draws([loaded])
    encoder = load_model(model, options, remark)
    turned: dict[float | None, Encoder] = {each: at_strength(encoder, each) for each in strengths}
    turned = turned or {None: encoder}
    with embedding.embedder(encoder) as opened:
        embedder = with_memory(opened, [loaded])
        found = {each: _retrieve(loaded, by, embedder) for each, by in turned.items()}
    out.show(
        lambda: {
            "text": text,
            "task": task,
            "encoder": encoder.id.name,
            "encoder_digest": encoder.id.digest,
            "found": [{"strength": each, "retrieved": rows} for each, rows in found.items()],
        },
        lambda: _table(found, out.width),
    )


def _retrieve(task: PolarityTask, encoder: Encoder, embedder: Embedder) -> Retrieved:
    """Return the sources that an encoder retrieves for the only query of a task."""
    from polarity_bench.evaluation.one_task import embed_tasks
    from polarity_bench.tasks.types.polarity.scoring import rank

    nearest = rank(task, embed_tasks(embedder, encoder, [task])).retrieval
    arrays = {"retrieved_index": nearest.index, "retrieved_similarity": nearest.similarity}
    (answer,) = task.retrieved(arrays)
    retrieved: Retrieved = answer["retrieved"]
    return retrieved


def _table(found: Mapping[float | None, Retrieved], width: int | None) -> str:
    """Return a table with a row for each rank, and the sources of all strengths side by side."""
    from polarity_bench.render.format import decimal
    from polarity_bench.render.markdown import table
    from polarity_bench.values import shortest

    heads = [("rank", [str(i + 1) for i in range(max(map(len, found.values())))])]
    for strength, rows in found.items():
        title = "text" if strength is None else f"strength {shortest(strength)}"
        heads += [
            (title, [row["text"] for row in rows]),
            ("label", [row["label"] for row in rows]),
            ("similarity", [decimal(row["similarity"], 3) for row in rows]),
        ]
    return table(heads, width=width)
