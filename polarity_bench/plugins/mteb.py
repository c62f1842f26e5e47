"""The tasks as mteb tasks: `mteb.get_task`, `mteb.get_benchmark` and `mteb.evaluate` know them.

Task files are the truth; a class is made of each. mteb has no plugin interface (2.26), so that
`register` writes to its registries, in one place and guarded, and leaves everything else of mteb
alone. The scores are those of our own runner: the same functions make them from the vectors that
mteb's encoders give.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import torch
from datasets import Dataset, DatasetDict
from mteb import AbsTask, Benchmark, TaskMetadata
from mteb._create_dataloaders import create_dataloader
from mteb.timing import TimingStack
from mteb.types import EncodeKwargs, Licenses

from polarity_bench.bind import BoundTask, Settings, bind
from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders import load_encoder
from polarity_bench.errors import InputError
from polarity_bench.evaluation import score
from polarity_bench.registry import load_suites, load_tasks
from polarity_bench.spec import PolaritySpec, TaskSpec
from polarity_bench.types import Encoder, EncoderId, FloatArray, IntArray

BENCHMARK = "PolarityBench(eng)"
_TYPES = {
    "polarity": "Retrieval",
    "transfer": "Classification",
    "relatedness": "STS",
    "sts": "STS",
}
_PROMPTS = {
    "polarity": "Retrieve sentences of the same polarity.",
    "transfer": "Classify user passages.",  # this and the next are those of mteb's own tasks
    "relatedness": "Retrieve semantically similar text.",
    "sts": "Retrieve semantically similar text.",
}
"""What mteb's instruction models are told, by kind of task."""


class MtebEncoder:
    """A model of mteb's, as our encoder: it is given all texts as one batch and divides them."""

    def __init__(self, model: Any, encode_kwargs: dict[str, Any], **where: Any) -> None:
        self._model = model
        self._encode_kwargs = encode_kwargs
        self._where = where
        meta = model.mteb_model_meta
        self._id = EncoderId(name=str(meta.name), weights=f"mteb:{meta.name}@{meta.revision}")

    @property
    def id(self) -> EncoderId:
        """What mteb calls this model. It says nothing about weights, so nothing is stored."""
        return self._id

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Return 1 for each text, (n,): mteb's models make their own batches."""
        return np.ones(len(texts), dtype=np.int64)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Encode texts by mteb's interface, (b, d) float32."""
        loader = create_dataloader(
            Dataset.from_dict({"text": list(texts)}),
            task_metadata=self._where["task_metadata"],
            input_column="text",
            **self._encode_kwargs,
        )
        vectors = self._model.encode(loader, prompt_type=None, **self._where, **self._encode_kwargs)
        if isinstance(vectors, torch.Tensor):
            vectors = vectors.float().cpu().numpy()
        return np.asarray(vectors, dtype=np.float32)


class PolarityBenchTask(AbsTask):
    """A task of ours in mteb.

    Args:
        reference: The encoder that S is measured with: a name for `load_encoder`, or an encoder.
            None is the encoder under test. mteb's result cache does not know of it: evaluate
            with `overwrite_strategy="always"` when you change it.
        settings: What is asked of the protocol; the k of the main score is always among its k's.
        data_dir: Folder that holds data sets; POLARITY_BENCH_DATA by default.
        **kwargs: What mteb's `AbsTask` takes.
    """

    spec: ClassVar[TaskSpec]
    metadata: TaskMetadata

    def __init__(
        self,
        reference: str | Encoder | None = None,
        settings: Settings | None = None,
        data_dir: Path | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        settings = settings or Settings()
        if isinstance(self.spec, PolaritySpec):
            settings = replace(settings, ks=(*settings.ks, self.spec.protocol.k))
        self.reference = reference
        self.settings = settings
        self.data_dir = data_dir
        self.bound: BoundTask | None = None

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:  # noqa: ARG002
        """Read the task's files, from where `polarity-bench data status` says they are."""
        if self.data_loaded:
            return
        self.bound = bind(self.spec, DataAccess.from_environment(self.data_dir), self.settings)
        self.dataset = DatasetDict(test=Dataset.from_dict({"text": list(self.bound.texts)}))
        self.data_loaded = True

    def _evaluate_subset(
        self,
        model: Any,
        data_split: Dataset,  # noqa: ARG002  `self.bound` knows what each text is for
        *,
        hf_split: str,
        hf_subset: str,
        encode_kwargs: EncodeKwargs,
        prediction_folder: Path | None = None,  # noqa: ARG002
        num_proc: int | None = None,  # noqa: ARG002
        timer: TimingStack,
        **kwargs: Any,  # noqa: ARG002
    ) -> dict[str, float]:
        assert self.bound is not None  # noqa: S101  mteb has called load_data
        encoder = MtebEncoder(
            model,
            dict(encode_kwargs),
            task_metadata=self.metadata,
            hf_split=hf_split,
            hf_subset=hf_subset,
        )
        texts = self.bound.texts
        with timer("Encoding", split=hf_split, subset=hf_subset):
            corpus = Embedder(None, len(texts), len(texts)).embed(encoder, texts)
            reference = self.reference
            if isinstance(reference, str):
                reference = load_encoder(reference)
            other = None
            if reference is not None and self.bound.uses_reference:
                other = Embedder().embed(reference, texts)
        with timer("Scoring", split=hf_split, subset=hf_subset):
            scores = score(self.bound, corpus, other).flat
        # NaN is no JSON: a score that is undefined is left out, unless mteb insists on it.
        main = self.metadata.main_score
        return {n: value for n, value in scores.items() if n == main or not math.isnan(value)}

    def _calculate_descriptive_statistics_from_split(
        self,
        split: str,  # noqa: ARG002
        hf_subset: str | None = None,  # noqa: ARG002
        compute_overall: bool = False,  # noqa: ARG002
        num_proc: int | None = None,  # noqa: ARG002
    ) -> Any:
        self.load_data()
        assert self.bound is not None  # noqa: S101  just loaded
        texts = self.bound.texts
        counts = {"num_samples": len(texts), "unique_texts": len(set(texts))}
        return counts | dict(self.bound.counts)


def register(task_dir: Path | None = None) -> list[str]:
    """Put every task, and the benchmark of those that the project ships, into mteb.

    It may be called again: what is registered already stays. The state of the random generators,
    which mteb resets whenever a task is made, is kept.

    Args:
        task_dir: A folder with task files of your own, registered too.

    Returns:
        The names of the tasks in mteb.

    Raises:
        InputError: If a task file is wrong, or mteb has another task of the same name.
    """
    tasks = load_tasks(task_dir)
    registry, module = _registries()
    for spec in tasks.values():
        known = registry.get(spec.result_name)
        if known is None:
            made = _task_class(spec)
            registry[spec.result_name] = made
            module.TASK_LIST = (*module.TASK_LIST, made)
        elif not issubclass(known, PolarityBenchTask):
            raise InputError(f"{spec.file}: mteb has a task {spec.result_name!r} of its own")
    _register_benchmark([registry[tasks[name].result_name] for name in load_suites()["polarity"]])
    return [spec.result_name for spec in tasks.values()]


def _registries() -> tuple[dict[str, type[AbsTask]], Any]:
    module: Any = import_module("mteb.get_tasks")
    registry = getattr(module, "_TASKS_REGISTRY", None)
    if not isinstance(registry, dict) or not isinstance(getattr(module, "TASK_LIST", None), tuple):
        raise RuntimeError(  # noqa: TRY004  not a type error of the caller's
            f"mteb {version('mteb')} keeps its tasks in a way that polarity-bench does not know; "
            "it is tested with mteb 2.26"
        )
    return registry, module


def _register_benchmark(classes: Sequence[type[AbsTask]]) -> None:
    benchmarks: Any = import_module("mteb.benchmarks.benchmarks")
    getters: Any = import_module("mteb.benchmarks.get_benchmark")
    if hasattr(benchmarks, "POLARITY_BENCH"):
        return
    with _unmoved_generators():
        tasks = [made() for made in classes]
    benchmarks.POLARITY_BENCH = Benchmark(
        name=BENCHMARK,
        aliases=("PolarityBench", "polarity"),
        tasks=tasks,
        description="Can a sentence encoder tell polarity without forgetting meaning?",
    )
    getters._build_registry.cache_clear()  # noqa: SLF001  mteb has no public way
    getters._build_aliases_registry.cache_clear()  # noqa: SLF001


@contextmanager
def _unmoved_generators() -> Iterator[None]:
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])


def _task_class(spec: TaskSpec) -> type[AbsTask]:
    licence = spec.licence if spec.licence in get_args(Licenses) else None
    metadata = TaskMetadata(
        name=spec.result_name,
        description=spec.description or spec.title,
        dataset={"path": f"polarity-bench/{spec.name}", "revision": spec.digest},
        type=_TYPES[spec.kind],
        category="t2t",
        modalities=["text"],
        reference=spec.homepage,
        eval_splits=["test"],
        eval_langs=list(spec.languages),
        main_score=spec.main_score,
        date=spec.date,
        domains=list(spec.domains) or None,
        license=licence,
        dialect=[],
        bibtex_citation=spec.citation or "",
    )
    values = {"spec": spec, "metadata": metadata, "abstask_prompt": _PROMPTS[spec.kind]}
    return type(spec.result_name, (PolarityBenchTask,), values)
