"""`polarity-bench neighbours`: what an encoder finds for a text among a task's sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarity_bench.cli.inputs import (
    check_device,
    data_access_of,
    embedder_of,
    load_and_announce,
    parse_strengths,
    with_memory,
)
from polarity_bench.cli.options import (
    AllowPickle,
    AsJson,
    DataDir,
    Device,
    MaxTokens,
    Model,
    NoStore,
    Offline,
    Prompt,
    PromptName,
    Revision,
    Strength,
    TaskDir,
    TrustRemoteCode,
    Wide,
)
from polarity_bench.cli.output import print_json, print_tables, remark_draws, terminal_width
from polarity_bench.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.encoders.base import Encoder
    from polarity_bench.tasks.types.polarity.task import PolarityTask

Found = list[dict[str, Any]]
"""Sources, nearest first: text, label, what else the task says of them, similarity."""


def neighbours(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is asked for.")],
    task: Annotated[
        str, typer.Option("--task", "-t", help="Polarity task whose sources are searched.")
    ] = "contrast",
    model: Model = "minilm",
    k: Annotated[int, typer.Option("-k", help="How many to show.")] = 5,
    strength: Strength = None,
    prompt: Prompt = None,
    prompt_name: PromptName = None,
    max_tokens: MaxTokens = None,
    revision: Revision = None,
    device: Device = None,
    data_dir: DataDir = None,
    task_dir: TaskDir = None,
    no_store: NoStore = False,
    trust_remote_code: TrustRemoteCode = False,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Show what an encoder finds for a text, with labels: its topic, and its polarity or the other.

    What equals the text is not shown.
    """
    from polarity_bench.encoders.load import EncoderOptions
    from polarity_bench.encoders.steered import at_strength
    from polarity_bench.tasks.catalogue import choose_tasks, load_tasks
    from polarity_bench.tasks.types.base import Settings
    from polarity_bench.tasks.types.polarity.task import PolaritySpec

    if not text.strip() or "\x00" in text:
        wrong = "holds a NUL byte" if text.strip() else "is empty"
        raise InputError(f"{text!r}: the text {wrong}")
    if k < 1:
        raise InputError(f"`k` must be at least 1, got {k}")
    strengths = parse_strengths(strength)
    (spec,) = choose_tasks(load_tasks(task_dir), names=[task])
    if not isinstance(spec, PolaritySpec):
        raise InputError(f"`task` {task} is of the kind {spec.kind}; a polarity task is wanted")
    access = data_access_of(data_dir, offline)
    check_device(device)
    loaded = spec.load(access, Settings()).asked(text, k)
    remark_draws([loaded])
    options = EncoderOptions(
        revision=revision,
        prompt=prompt,
        prompt_name=prompt_name,
        max_tokens=max_tokens,
        device=device,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
        offline=access.offline,
    )
    encoder = load_and_announce(model, options)
    turned: Mapping[float | None, Encoder] = {
        each: at_strength(encoder, each) for each in strengths
    }
    turned = turned or {None: encoder}
    with embedder_of(encoder, no_store, None, None) as opened:
        embedder = with_memory(opened, [loaded])
        found = {each: _found(loaded, by, embedder) for each, by in turned.items()}
    if as_json:
        columns = [{"strength": each, "retrieved": rows} for each, rows in found.items()]
        who = {"encoder": encoder.id.name, "encoder_digest": encoder.id.digest}
        print_json({"text": text, "task": task, **who, "found": columns})
        return
    print_tables(_table(found, terminal_width(wide)))


def _found(asked: PolarityTask, encoder: Encoder, embedder: Embedder) -> Found:
    """Retrieve for the one query of a task."""
    from polarity_bench.tasks.types.polarity.scoring import rank

    nearest = rank(asked, embedder.embed(encoder, asked.texts)).retrieval
    arrays = {"retrieved_index": nearest.index, "retrieved_similarity": nearest.similarity}
    (answer,) = asked.retrieved(arrays)
    found: Found = answer["retrieved"]
    return found


def _table(found: Mapping[float | None, Found], width: int | None) -> str:
    """Lay out side by side what was found at each strength, a row for each rank."""
    from polarity_bench.render.markdown import decimal, table
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
