"""Evaluate: one encoder on one task, from texts to a result. Fits on one screen."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from polarity_bench.data.load import PolarityData
from polarity_bench.embed import BATCH_SIZE, BATCH_TOKENS, Corpus, embed
from polarity_bench.protocols.polarity import EmbeddedTask, PolarityScores, score_polarity
from polarity_bench.results import Result, RunKey, flatten, folder_name
from polarity_bench.store import EmbeddingStore
from polarity_bench.types import CorpusEncoder, Encoder, EncoderId, InputError, Progress

PROTOCOL = "polarity-retrieval"
PROTOCOL_VERSION = 1
"""Raised whenever the code moves a score: stored results of an older one are made again."""

_PACKAGES = ("polarity-bench", "mteb", "sentence-transformers", "transformers", "torch", "numpy")


@dataclass(frozen=True)
class Embedding:
    """How texts are embedded: the store and the size of batches.

    Attributes:
        store: Where vectors are kept; None keeps none.
        batch_tokens: Tokens in a batch, padding included.
        batch_size: Texts in a batch, at most.
    """

    store: EmbeddingStore | None = None
    batch_tokens: int = BATCH_TOKENS
    batch_size: int = BATCH_SIZE

    def __call__(
        self, encoder: Encoder, texts: Sequence[str], progress: Progress | None = None
    ) -> Corpus:
        """Embed texts; those of an encoder that depends on its corpus are not stored."""
        store = self.store
        if isinstance(encoder, CorpusEncoder):
            encoder, store = encoder.for_corpus(texts), None
        return embed(
            encoder,
            texts,
            store=store,
            batch_tokens=self.batch_tokens,
            batch_size=self.batch_size,
            progress=progress,
        )


def evaluate(
    encoder: Encoder,
    data: PolarityData,
    *,
    reference: Encoder | None = None,
    ks: Sequence[int] = (),
    limit: int | None = None,
    embedding: Embedding | None = None,
) -> Result:
    """Evaluate an encoder on a polarity task.

    Args:
        encoder: The encoder under test.
        data: The task's texts and labels, of `load_polarity`.
        reference: The encoder that S is measured with; the encoder under test by default.
        ks: How many sources to score; the task's own k by default.
        limit: How `data` was limited, for the record.
        embedding: How to embed.
    """
    embedding = embedding or Embedding()
    begun = time.perf_counter()
    corpus = embedding(encoder, data.texts)
    reference_corpus = embedding(reference, data.texts) if reference is not None else None
    seconds = {"embed": time.perf_counter() - begun}
    return score(data, corpus, reference_corpus, ks=ks, limit=limit, seconds=seconds)


def score(
    data: PolarityData,
    corpus: Corpus,
    reference: Corpus | None,
    *,
    ks: Sequence[int] = (),
    limit: int | None = None,
    seconds: dict[str, float] | None = None,
) -> Result:
    """Score a task whose texts are embedded already."""
    begun = time.perf_counter()
    ks = tuple(sorted(set(ks))) or (data.spec.protocol.k,)
    scored = score_polarity(
        data,
        _embedded(data, corpus),
        reference=_embedded(data, reference) if reference is not None else None,
        ks=ks,
    )
    reference_id = reference.encoder if reference is not None else None
    main_k = data.spec.protocol.k if data.spec.protocol.k in ks else ks[-1]
    return Result(
        task=data.spec.name,
        result_name=data.spec.result_name,
        version=data.spec.version,
        languages=data.spec.languages,
        main_score=f"joint_at_{main_k}",
        key=run_key(data, corpus.encoder, reference_id, ks),
        scores=flatten(scored.scores),
        counts={
            "sources": len(data.source),
            "queries": len(data.query),
            "overlap": data.n_overlap,
        },
        experiment=experiment_name(data, reference_id, ks, limit),
        seconds={**(seconds or {}), "score": time.perf_counter() - begun},
        environment=environment(),
        date=time.time(),
        arrays=_arrays(scored),
    )


def run_key(
    data: PolarityData, encoder: EncoderId, reference: EncoderId | None, ks: Sequence[int]
) -> RunKey:
    """Return what decides the numbers of this evaluation."""
    return RunKey(
        task=data.spec.digest,
        data=data.digest,
        encoder=encoder,
        reference=reference,
        protocol={"name": PROTOCOL, "version": PROTOCOL_VERSION, "k": sorted(set(ks))},
    )


def experiment_name(
    data: PolarityData, reference: EncoderId | None, ks: Sequence[int], limit: int | None
) -> str:
    """Name what is asked differently from the task's defaults, as mteb names experiments."""
    parts = []
    if list(ks) != [data.spec.protocol.k]:
        parts.append("k_" + "-".join(map(str, ks)))
    if limit is not None:
        parts.append(f"limit_{limit}")
    if reference is not None:
        parts.append(f"reference_{folder_name(reference.name)}-{reference.digest[:8]}")
    return "__".join(parts)


def environment(device: str | None = None) -> dict[str, str]:
    """Say what the numbers were made with."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found | ({"device": device} if device else {})


def _embedded(data: PolarityData, corpus: Corpus) -> EmbeddedTask:
    return EmbeddedTask(corpus.vectors(data.source.texts), corpus.vectors(data.query.texts))


def _arrays(scored: PolarityScores) -> dict[str, np.ndarray]:
    values = {name: array.astype(np.float32) for name, array in scored.values.items()}
    return {
        **values,
        "retrieved_index": scored.retrieval.index.astype(np.int32),
        "retrieved_similarity": scored.retrieval.similarity.astype(np.float32),
    }


def check_ks(ks: Sequence[int]) -> None:
    """Refuse a k below 1.

    Raises:
        InputError: If there is one.
    """
    if any(k < 1 for k in ks):
        raise InputError(f"--k must be at least 1, got {min(ks)}")
