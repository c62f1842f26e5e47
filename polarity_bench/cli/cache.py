"""`polarity-bench cache`: show or prune the store of embeddings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polarity_bench.cli.options import Commands
from polarity_bench.cli.output import JsonFlags, OutputFlags
from polarity_bench.errors import InputError
from polarity_bench.values import count

if TYPE_CHECKING:
    from polarity_bench.embedding.store import StoredEncoder

cache_app = Commands(
    name="cache", help="Show or prune the store of embeddings on disk.", invoke_without_command=True
)
_MAX_DAYS = 100_000.0  # datetime cannot represent dates much further back


@cache_app.callback()
def show_cache(context: typer.Context, out: OutputFlags) -> None:
    """Show how many texts of each encoder are stored, and the size on disk."""
    if context.invoked_subcommand:
        return
    from polarity_bench.embedding.store import EmbeddingStore
    from polarity_bench.render.format import MISSING
    from polarity_bench.render.markdown import table

    with EmbeddingStore() as store:
        stored = store.usage()
    rows = [_describe_stored(item) for item in stored]
    total = f"{store.folder}: {sum(item.n_bytes for item in stored) / 1e6:,.1f} MB"
    columns = [
        (title, [MISSING if row[title] is None else str(row[title]) for row in rows])
        for title in ("encoder", "digest", "texts", "megabytes", "last used")
    ]
    out.show(
        lambda: {"folder": store.folder, "encoders": rows},
        lambda: f"{total}\n\n{table(columns, width=out.width)}",
    )


@cache_app.command("prune")
def prune_cache(
    older_than: Annotated[
        float | None, "Remove the embeddings of encoders not used for this many days."
    ] = None,
    encoder: Annotated[
        str | None, "Remove the embeddings of the encoder whose digest starts with this text."
    ] = None,
    everything: Annotated[bool, "Remove all embeddings.", "--all"] = False,
    *,
    out: JsonFlags,
) -> None:
    """Remove embeddings from the store. They are computed again when needed.

    Give exactly one of --older-than, --encoder and --all.
    """
    if [older_than is not None, encoder is not None, everything].count(True) != 1:
        raise InputError("give exactly one of --older-than DAYS, --encoder DIGEST and --all")
    if older_than is not None and not 0 <= older_than <= _MAX_DAYS:
        raise InputError(f"--older-than must be from 0 to {_MAX_DAYS:g} days, got {older_than:g}")
    from polarity_bench.embedding.store import EmbeddingStore

    def choose(stored: tuple[StoredEncoder, ...]) -> tuple[StoredEncoder, ...]:
        if older_than is not None:
            oldest = datetime.now(UTC) - timedelta(days=older_than)
            return tuple(item for item in stored if item.last_used < oldest)
        return stored if encoder is None else _beginning_with(encoder, stored)

    with EmbeddingStore() as store:
        removed = store.prune(choose)
    freed = sum(item.n_bytes for item in removed) / 1e6
    out.show(
        lambda: {"removed": list(map(_describe_stored, removed))},
        lambda: f"removed the embeddings of {count(len(removed), 'encoder')}, {freed:,.1f} MB",
    )


def _beginning_with(digest: str, stored: tuple[StoredEncoder, ...]) -> tuple[StoredEncoder, ...]:
    matching = tuple(item for item in stored if item.digest.startswith(digest))
    if not digest or len(matching) != 1:  # an empty digest, from an unset variable, matches all
        digests = ", ".join(item.digest for item in stored) or "none"
        raise InputError(
            f"--encoder {digest}: expected the start of one digest, got that of {len(matching)}; "
            f"choose one of {digests}"
        )
    return matching


def _describe_stored(item: StoredEncoder) -> dict[str, Any]:
    return {
        "encoder": item.name or "(unreadable)",
        "digest": item.digest,
        "texts": item.n_texts,
        "megabytes": round(item.n_bytes / 1e6, 1),
        "last used": item.last_used.isoformat(timespec="seconds"),
    }
