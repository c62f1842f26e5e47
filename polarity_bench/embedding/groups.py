"""Groups of texts that are always embedded together, regardless of the store's contents.

The vectors of a group depend only on the encoder, the texts of the group and the machine, and not
on earlier runs (see `embedder`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from polarity_bench.embedding.arrays import MemoryStore
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.base import EncoderId
from polarity_bench.values import FloatArray, digest_of, grouped


@dataclass(frozen=True)
class Part:
    """Texts to embed that belong to the same group, or to no group.

    Attributes:
        texts: Distinct texts to embed.
        group: All texts of the group; None without a group.
        digest: Digest of the group and of everything else that affects its vectors, except the
            encoder; '' without a group.
    """

    texts: Sequence[str]
    group: Sequence[str] | None = None
    digest: str = ""


@dataclass(frozen=True)
class Groups:
    """Groups of texts; a text is embedded in the first group that contains it.

    Attributes:
        members: Texts of each group. All other texts form one more group.
    """

    members: Sequence[Sequence[str]]

    @cached_property
    def _number_of(self) -> Mapping[str, int]:
        numbered = reversed(list(enumerate(self.members)))
        return {text: number for number, group in numbered for text in group}

    def divide(self, texts: Sequence[str], how: Any) -> list[Part]:
        """Divide distinct texts by their groups.

        Args:
            texts: Distinct texts.
            how: JSON value with the settings that affect vectors, other than encoder and group.

        Returns:
            A part for each group that contains any of the texts.
        """
        texts_of = grouped(texts, lambda text: self._number_of.get(text, len(self.members)))
        parts = []
        for number, texts_in_it in sorted(texts_of.items()):
            is_listed = number < len(self.members)
            group = list(dict.fromkeys(self.members[number])) if is_listed else texts_in_it
            parts.append(Part(texts_in_it, group, digest_of([how, sorted(group)])))
        return parts


def read_parts(
    store: EmbeddingStore | MemoryStore,
    encoder: EncoderId,
    parts: Sequence[Part],
    texts: Sequence[str],
) -> FloatArray:
    """Read the vectors of all parts, and return them in the order of `texts`, (n, d)."""
    if len(parts) == 1:
        return store.read(encoder, texts, parts[0].digest)
    blocks = [store.read(encoder, part.texts, part.digest) for part in parts]
    row_of = {text: row for row, text in enumerate(texts)}
    matrix = store.room.array(len(texts), blocks[0].shape[1])
    for part, block in zip(parts, blocks, strict=True):
        matrix[[row_of[text] for text in part.texts]] = block
    return matrix
