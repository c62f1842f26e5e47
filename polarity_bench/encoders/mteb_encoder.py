"""Encoders from mteb's registry, with mteb's own code and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import torch
from datasets import Dataset
from mteb import TaskMetadata
from mteb._create_dataloaders import create_dataloader
from mteb.types import Licenses, PromptType

from polarity_bench.encoders.axis import axis_of
from polarity_bench.encoders.base import EncoderId, Side, Sides, model_of
from polarity_bench.encoders.baselines import UnpaddedEncoder
from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray


class MtebEncoder(UnpaddedEncoder):
    """Adapter that makes an mteb model usable as an encoder of polarity-bench.

    The model divides the texts of a call into batches itself. Its prompts depend on the task, so
    call `for_task` before `encode`, or give the task's metadata, split and subset.

    Args:
        model: Model as `mteb.get_model` returns it.
        encode_kwargs: Arguments for the model's `encode`.
        sides: Sides that encode, which are the prompt types of mteb; None encodes without a type.
        **where: `task_metadata`, `hf_split` and `hf_subset`.
    """

    def __init__(
        self, model: Any, encode_kwargs: dict[str, Any], sides: Sides | None = None, **where: Any
    ) -> None:
        self._model = model
        self._encode_kwargs = encode_kwargs
        self._where = where
        meta = model.mteb_model_meta
        # Encode an axis as sources, like our runner, which applies the strength afterwards.
        axis = axis_of(model_of(model))
        side = "document" if axis is not None or sides == "query-document" else sides
        self._side = None if side is None else PromptType(side)
        # mteb's metadata does not identify the weights, so vectors are stored only on request.
        self.id = EncoderId(
            name=str(meta.name),
            weights=f"mteb:{meta.name}@{meta.revision}",
            revision=meta.revision,
            similarity="dot" if meta.similarity_fn_name == "dot" else "cosine",
            sides=sides,
            **({} if axis is None else axis.identity),
        )

    def for_task(self, spec: Any) -> MtebEncoder:
        """Return a copy that encodes with the prompts for the task of a task file."""
        metadata = task_metadata(spec).model_copy(update={"prompt": spec.mteb_prompt})
        where = {"task_metadata": metadata, "hf_split": "test", "hf_subset": "default"}
        identity = replace(self.id, weights=f"{self.id.weights} {spec.result_name}")
        return self._changed(id=identity, _where=where)

    def on_side(self, side: Side) -> MtebEncoder:
        """Return a copy that encodes all texts by one side."""
        return self._changed(id=replace(self.id, sides=side), _side=PromptType(side))

    def _changed(self, **values: Any) -> MtebEncoder:
        changed = copy(self)
        vars(changed).update(values)
        return changed

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Encode texts with the mteb model, and return their vectors, (b, d) float32.

        Raises:
            InputError: If the task is unknown, which determines the prompts.
        """
        if not self._where:
            raise InputError(
                f"the encoder 'mteb:{self.id.name}' encodes only the texts of a task, whose type "
                "determines its prompts; use the encoder's folder or hub name instead"
            )
        loader = create_dataloader(
            Dataset.from_dict({"text": list(texts)}),
            task_metadata=self._where["task_metadata"],
            input_column="text",
            **self._encode_kwargs,
        )
        how = {"prompt_type": self._side} | self._where | self._encode_kwargs
        vectors = self._model.encode(loader, **how)
        return np.asarray(torch.as_tensor(vectors).float().cpu().numpy())


class StoredMtebEncoder(MtebEncoder):
    """Model of mteb whose vectors are stored, by its name, its revision and the task."""

    stores_vectors = True


def task_metadata(spec: Any) -> TaskMetadata:
    """Return the metadata of a task file for mteb."""
    return TaskMetadata(
        name=spec.result_name,
        description=spec.description or spec.title,
        dataset={"path": f"polarity-bench/{spec.name}", "revision": spec.digest},
        type=spec.mteb_type,
        category="t2t",
        modalities=["text"],
        reference=spec.homepage,
        eval_splits=["test"],
        eval_langs=list(spec.languages),
        main_score=str(spec.main_score),
        date=spec.date,
        domains=list(spec.domains) or None,
        license=spec.licence if spec.licence in get_args(Licenses) else None,
        dialect=[],
        bibtex_citation=spec.citation or "",
    )
