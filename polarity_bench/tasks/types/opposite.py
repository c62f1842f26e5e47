"""Retrieval of right answers, such as the opposite of a sentence, and paired accuracy.

Each query has one right answer among the sources, or a few. Encoders are scored as in retrieval:
recall@1, MRR@10 and nDCG@10. If the queries come in pairs, `paired_accuracy` is the share of
pairs in which each query is nearer to its own answer than to the other query's.

Sources with the text of the query are left out, because a query must not retrieve itself. If a
split names the answers, sources with the id of the query are left out, too.

Shapes: q queries, k ranks.

References:
    Weller et al. (2023), NevIR, https://arxiv.org/abs/2305.07614
    Wachsmuth et al. (2018), ArguAna, https://aclanthology.org/P18-1023
    Kaushik et al. (2020), Counterfactually-Augmented Data, https://arxiv.org/abs/1909.12434
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, StrictBool, model_validator

from polarity_bench.data.sources import DataAccess
from polarity_bench.data.specs import FileRef, FormatSpec, SplitSpec
from polarity_bench.data.split import Split, load_split
from polarity_bench.embedding.embedder import EmbeddedTexts
from polarity_bench.errors import InputError
from polarity_bench.metrics.ranking import ndcg, recall, reciprocal_rank
from polarity_bench.metrics.sentence_pairs import pairwise_accuracy
from polarity_bench.metrics.statistics import Bootstrap, Resampling
from polarity_bench.retrieval import similarity_at, top_k
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.types.base import RetrievalTask, Settings, TaskScores, TaskSpec
from polarity_bench.values import digest_of, grouped

_K = 10
_NDCG, _RECALL, _RR = ScoreKey("ndcg", _K), ScoreKey("recall", 1), ScoreKey("mrr", _K)
_PAIRED = ScoreKey("paired_accuracy")


class OppositeSpec(TaskSpec):
    """Content of the task file of a task with right answers."""

    kind: Literal["opposite"]
    format: FormatSpec = FormatSpec()
    """Format of the data files. The label is an id."""
    splits: dict[Literal["query", "source", "answers"], SplitSpec] = Field(
        json_schema_extra={"required": ["query", "source"]}
    )
    """Queries and sources. The text of a row of `answers` is the id of a query, its label that of a
    source. Without `answers`, queries and their answers have the same id."""
    paired: StrictBool = False
    """Whether queries come in pairs, whose ids are equal up to the last underscore."""

    moving: ClassVar[tuple[str, ...]] = ("format", "splits", "paired")
    heading: ClassVar[str] = "Opposites"
    measure: ClassVar[str] = "nDCG@10"
    columns: ClassVar[tuple[tuple[str, ScoreKey], ...]] = (
        ("nDCG@10", _NDCG),
        ("recall@1", _RECALL),
        ("MRR@10", _RR),
        ("pairs", _PAIRED),
    )
    retrieves: ClassVar[bool] = True
    mteb_type: ClassVar[str] = "Retrieval"
    mteb_prompt: ClassVar[str] = "Retrieve the text with the opposite opinion."

    @model_validator(mode="after")
    def _check_splits(self) -> Self:
        if missing := {"query", "source"} - set(self.splits):
            raise ValueError(f"[splits.{min(missing)}] is missing")
        return self

    @classmethod
    def arrays_of(cls, key: ScoreKey) -> Sequence[str]:
        """Return the score itself; `paired_accuracy` has no values per query."""
        return () if key == _PAIRED else [str(key)]

    def references(self) -> list[FileRef]:
        """Return the files of all splits."""
        return list(self.splits.values())

    def load(self, access: DataAccess, settings: Settings) -> OppositeTask:
        """Read all splits, and find the answers of each query; leave out queries without any.

        Raises:
            InputError: If data is missing or does not match the task file, there are fewer than ten
                sources for a query, an answer is unknown, no query has an answer, or the queries
                are not in pairs.
        """
        read = {
            name: load_split(name, split, split.format or self.format, {}, self, access)
            for name, split in self.splits.items()
        }
        query, source, pairs = read["query"], read["source"], read.get("answers")
        by_id = grouped(range(len(source)), source.labels.__getitem__)
        by_text = grouped(range(len(source)), source.texts.__getitem__)
        right: dict[str, set[int]] = defaultdict(set)
        sides = (pairs.texts, pairs.labels) if pairs else (query.labels, query.labels)
        for query_id, source_id in zip(*sides, strict=True):
            if pairs and source_id not in by_id:
                raise InputError(
                    f"{self.name}: [splits.answers] names {source_id!r}, which is the id of no "
                    "source; correct the files"
                )
            right[query_id].update(by_id.get(source_id, ()))
        same = by_id if pairs else {}
        excluded = [
            {*by_text.get(text, ()), *same.get(label, ())}
            for text, label in zip(query.texts, query.labels, strict=True)
        ]
        if (n_left := len(source) - max(map(len, excluded))) < _K:
            raise InputError(f"{self.name}: expected {_K} or more sources per query, got {n_left}")
        answers = [right[label] - own for label, own in zip(query.labels, excluded, strict=True)]
        units = self._units(query, [i for i, found in enumerate(answers) if found])
        if settings.limit is not None:
            units = units[: math.ceil(settings.limit / len(units[0]))]
        rows = list(chain(*units))
        found, left_out = ([sorted(each[i]) for i in rows] for each in (answers, excluded))
        numbers = [number for number, unit in enumerate(units) for _ in unit]
        query = query.take(rows)
        return OppositeTask(self, query, source, found, left_out, numbers, settings.limit)

    def _units(self, query: Split, rows: Sequence[int]) -> list[list[int]]:
        """Return the queries that belong together: pairs, or queries with the same id."""
        ids = [label.rpartition("_")[0] if self.paired else label for label in query.labels]
        units = list(grouped(rows, ids.__getitem__).values())
        if not units:
            raise InputError(f"{self.name}: no query has an answer; correct the ids in the files")
        if self.paired and {*map(len, units)} != {2}:
            odd = next(ids[unit[0]] for unit in units if len(unit) != 2)
            raise InputError(f"{self.name}: the id {odd!r} has no pair of queries; correct the ids")
        return units


@dataclass(frozen=True)
class OppositeTask(RetrievalTask):
    """A task with right answers and its data.

    Attributes:
        spec: Content of the task file.
        query: Queries, with their ids as labels; queries of a unit follow one another.
        source: Sources, with their ids as labels.
        answers: Positions of the right sources of each query.
        excluded: Positions of the sources that a query must not retrieve.
        units: Number of each query's unit. Intervals and tests resample units.
        limit: Limit on the number of queries, for a quick look; None if there is no limit.
    """

    spec: OppositeSpec
    query: Split
    source: Split
    answers: Sequence[Sequence[int]]
    excluded: Sequence[Sequence[int]]
    units: Sequence[int]
    limit: int | None = None

    @cached_property
    def digest(self) -> str:
        """Digest of all texts, answers and units, as 16 hexadecimal digits."""
        texts = self.query.texts, self.source.texts
        return digest_of([*texts, self.answers, self.excluded, self.units])

    @property
    def protocol(self) -> Mapping[str, Any]:
        """Name and version of the protocol, and what intervals resample."""
        return {"name": "answer-retrieval", "version": self.version, "intervals": "queries by id"}

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of sources and of queries."""
        return {"sources": len(self.source), "queries": len(self.query)}

    def score(self, embedded: EmbeddedTexts, reference: EmbeddedTexts | None) -> TaskScores:
        """Retrieve sources for each query, and score the ranks of its answers."""
        query, source = embedded.for_retrieval(self.query.texts, self.source.texts)
        excluded = [np.array(positions, dtype=np.int64) for positions in self.excluded]
        found = top_k(query, source, _K, excluded=excluded)
        hits = np.stack([np.isin(*pair) for pair in zip(found.index, self.answers, strict=True)])
        n = np.array(list(map(len, self.answers)))
        values = {_NDCG: ndcg(hits, n), _RECALL: recall(hits[:, :1], n), _RR: reciprocal_rank(hits)}
        units = np.array(self.units)
        resampling = Resampling(units, np.zeros_like(units))
        bootstrap = Bootstrap(values, resampling=resampling)
        scores = {key: bootstrap.score(key) for key in values}
        if self.spec.paired:
            own = np.array([positions[0] for positions in self.answers]).reshape(-1, 2)
            both = np.stack([own, own[:, ::-1]], axis=2).reshape(-1, 2)  # own answer, the other's
            same, other = similarity_at(query, source, both).T
            right = pairwise_accuracy(same[::2], other[::2], same[1::2], other[1::2])
            scores[_PAIRED] = Bootstrap({_PAIRED: right}).score(_PAIRED)
        arrays: dict[str, Any] = {str(key): each.astype(np.float32) for key, each in values.items()}
        arrays |= {"retrieved_index": found.index, "retrieved_similarity": found.similarity}
        arrays |= {"resampled_units": units, "resampled_strata": resampling.strata}
        return TaskScores(scores, arrays)
