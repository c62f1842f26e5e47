"""`polarity-bench neighbours`: what an encoder finds for a text among a task's sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarity_bench.cli import shared
from polarity_bench.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polarity_bench.embedding.embedder import Embedder
    from polarity_bench.kinds.polarity import PolarityTask
    from polarity_bench.types import Encoder

Found = list[dict[str, Any]]
"""Sources, nearest first: text, label, what else the task says of them, similarity."""


def neighbours(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is asked for.")],
    task: Annotated[
        str, typer.Option("--task", "-t", help="Polarity task whose sources are searched.")
    ] = "contrast",
    model: shared.Model = "minilm",
    k: Annotated[int, typer.Option("-k", help="How many to show.")] = 5,
    strength: shared.Strength = None,
    prompt: shared.Prompt = None,
    prompt_name: shared.PromptName = None,
    max_tokens: shared.MaxTokens = None,
    revision: shared.Revision = None,
    device: shared.Device = None,
    data_dir: shared.DataDir = None,
    task_dir: shared.TaskDir = None,
    no_store: shared.NoStore = False,
    trust_remote_code: shared.TrustRemoteCode = False,
    allow_pickle: shared.AllowPickle = False,
    offline: shared.Offline = False,
    wide: shared.Wide = False,
    as_json: shared.AsJson = False,
) -> None:
    """Show what an encoder finds for a text, with labels: its topic, and its polarity or the other.

    What equals the text is not shown.
    """
    from polarity_bench.encoders import EncoderOptions, at_strength
    from polarity_bench.kinds import choose_tasks, load_tasks
    from polarity_bench.kinds.polarity import PolaritySpec
    from polarity_bench.kinds.task import Settings

    if not text.strip() or "\x00" in text:
        wrong = "holds a NUL byte" if text.strip() else "is empty"
        raise InputError(f"{text!r}: the text {wrong}")
    if k < 1:
        raise InputError(f"`k` must be at least 1, got {k}")
    strengths = shared.strengths(strength)
    (spec,) = choose_tasks(load_tasks(task_dir), names=[task])
    if not isinstance(spec, PolaritySpec):
        raise InputError(f"`task` {task} is of the kind {spec.kind}; a polarity task is wanted")
    access = shared.data_access(data_dir, offline)
    shared.check_device(device)
    loaded = spec.load(access, Settings()).asked(text, k)
    shared.tell_draws([loaded])
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
    encoder = shared.load_and_announce(model, options)
    turned: Mapping[float | None, Encoder] = {
        each: at_strength(encoder, each) for each in strengths
    }
    turned = turned or {None: encoder}
    with shared.embedder_of(encoder, no_store, None, None) as opened:
        embedder = shared.remembering(opened, [loaded])
        found = {each: _found(loaded, by, embedder) for each, by in turned.items()}
    if as_json:
        columns = [{"strength": each, "retrieved": rows} for each, rows in found.items()]
        who = {"encoder": encoder.id.name, "encoder_digest": encoder.id.digest}
        shared.print_json({"text": text, "task": task, **who, "found": columns})
        return
    shared.print_tables(_table(found, shared.width(wide)))


def _found(asked: PolarityTask, encoder: Encoder, embedder: Embedder) -> Found:
    """Retrieve for the one query of a task."""
    from polarity_bench.kinds.polarity_scores import rank

    nearest = rank(asked, embedder.embed(encoder, asked.texts)).retrieval
    arrays = {"retrieved_index": nearest.index, "retrieved_similarity": nearest.similarity}
    (answer,) = asked.retrieved(arrays)
    found: Found = answer["retrieved"]
    return found


def _table(found: Mapping[float | None, Found], width: int | None) -> str:
    """Lay out side by side what was found at each strength, a row for each rank."""
    from polarity_bench.boards.markdown import decimal, table
    from polarity_bench.types import shortest

    heads = [("rank", [str(i + 1) for i in range(max(map(len, found.values())))])]
    for strength, rows in found.items():
        title = "text" if strength is None else f"strength {shortest(strength)}"
        heads += [
            (title, [row["text"] for row in rows]),
            ("label", [row["label"] for row in rows]),
            ("similarity", [decimal(row["similarity"], 3) for row in rows]),
        ]
    return table(heads, width=width)
