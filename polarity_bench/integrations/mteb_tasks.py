"""The tasks of polarity-bench as mteb tasks.

After `register`, the tasks work with `mteb.get_task`, `mteb.get_benchmark` and `mteb.evaluate`.
Each task file becomes a class. mteb (2.26) has no plugin interface, so `register` writes to mteb's
registries. It changes nothing else in mteb. mteb encodes the texts, and the functions of our own
runner compute the scores, so both give the same scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partialmethod
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from datasets import Dataset, DatasetDict
from mteb import AbsTask, Benchmark, TaskMetadata
from mteb.timing import TimingStack
from mteb.types import EncodeKwargs

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.base import Encoder
from polarity_bench.encoders.load import load_encoder
from polarity_bench.encoders.mteb_encoder import MtebEncoder, task_metadata
from polarity_bench.encoders.reference_encoder import default_reference
from polarity_bench.errors import InputError, warn
from polarity_bench.evaluation.one_task import experiment_name, score_task
from polarity_bench.tasks.catalogue import load_suites, load_tasks
from polarity_bench.tasks.types.base import Settings, TaskSpec
from polarity_bench.tasks.types.polarity.mteb_sets import restore_generators


class PolarityBenchTask(AbsTask):
    """A task of polarity-bench as an mteb task.

    mteb's cache identifies tasks only by name. If a reference or settings are given, the name
    therefore contains all non-default settings, as in `ContrastPolarityRetrieval__limit_40`. To
    determine this name, the constructor loads the data and the reference encoder. It then registers
    the task under the new name.

    mteb's cache does not detect changes of a task file or its data. After such a change, evaluate
    with `overwrite_strategy="always"`.

    Args:
        reference: The reference encoder, or its name. By default, an encoder that was trained with
            polarity-bench is compared with its base, and any other encoder with itself.
        settings: Settings of the protocol. The k of the main score is always added to `ks`.
        data_dir: Folder of the data sets; POLARITY_BENCH_DATA by default.
        **kwargs: Arguments of mteb's `AbsTask`.
    """

    spec: ClassVar[TaskSpec]
    metadata: TaskMetadata

    def __init__(
        self,
        reference: str | Encoder | None = None,
        settings: Settings | None = None,
        data_dir: str | Path | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.reference = load_encoder(reference) if isinstance(reference, str) else reference
        self.settings = settings or Settings()
        k = self.spec.main_score.k
        if k is not None:
            self.settings = replace(self.settings, ks=(*self.settings.ks, k))
        self.data_dir = data_dir
        if reference is not None or settings is not None:
            self._take_name(reference=self.reference, settings=settings, data_dir=data_dir)

    def _take_name(self, **given: Any) -> None:
        """Add the non-default settings to the name, and register the task under the new name.

        Args:
            **given: Arguments of the constructor, to create the registered task again.
        """
        self.load_data()
        if not self.task.uses_reference:
            self.reference = None
        experiment = experiment_name(self.task, self.reference.id if self.reference else None)
        if not experiment:
            return
        name = f"{self.spec.result_name}__{experiment}"
        self.metadata = self.metadata.model_copy(update={"name": name})
        registry, _ = _registries()
        if name not in registry:
            plain: Any = registry[self.spec.result_name]
            values = {"metadata": self.metadata, "__init__": partialmethod(plain.__init__, **given)}
            registry[name] = type(name, (plain,), values)

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:  # noqa: ARG002  as in mteb
        """Load the task's data from the files that `polarity-bench data status` lists."""
        if self.data_loaded:
            return
        self.task = self.spec.load(DataAccess.from_environment(self.data_dir), self.settings)
        self.dataset = DatasetDict(test=Dataset.from_dict({"text": list(self.task.texts)}))
        self.data_loaded = True

    def _evaluate_subset(
        self,
        model: Any,
        data_split: Dataset,  # noqa: ARG002  `self.task` contains the texts
        *,
        hf_split: str,
        hf_subset: str,
        encode_kwargs: EncodeKwargs,
        timer: TimingStack,
        **_: Any,
    ) -> dict[str, float]:
        metadata = self.metadata.model_copy(update={"name": self.spec.result_name})
        where: dict[str, Any] = {"hf_split": hf_split, "hf_subset": hf_subset}
        encoder = MtebEncoder(model, dict(encode_kwargs), task_metadata=metadata, **where)
        texts = self.task.texts
        with timer("Encoding", split=hf_split, subset=hf_subset):
            embedded = Embedder(None, len(texts), len(texts)).embed(encoder, texts)
            other = self.reference
            if other is None and self.task.uses_reference:
                other = default_reference(model)
            reference = Embedder.on(other).embed(other, texts) if other else None
        with timer("Scoring", split=hf_split, subset=hf_subset):
            result = score_task(self.task, embedded, reference)
        # JSON has no NaN, so undefined scores are removed. mteb requires the main score in any
        # case.
        scores = {name: value for name, value in result.flat.items() if not math.isnan(value)}
        return scores | {"main_score": result.main.mean}

    def _add_main_score(self, scores: Any) -> None:
        """Keep the main score of `_evaluate_subset`, which is the score as it is shown."""

    def _calculate_descriptive_statistics_from_split(self, *_: Any, **__: Any) -> Any:
        self.load_data()
        texts = self.task.texts
        return {"num_samples": len(texts), "unique_texts": len(set(texts))} | dict(self.task.counts)


def register(task_dir: str | Path | None = None) -> list[str]:
    """Register all tasks and two benchmarks with mteb.

    The benchmark `PolarityBench(eng)` contains the polarity tasks of the suite `polarity`, and
    `PolarityBench(eng, SentEval)` the tasks of the suites `transfer` and `sts`. Repeated calls keep
    earlier registrations. mteb resets the random generators whenever a task is created, and
    `register` restores their state.

    Args:
        task_dir: A folder with your own task files, or one task file, to register in addition.

    Returns:
        The names of the tasks in mteb.

    Raises:
        InputError: If a task file is invalid, mteb rejects a task of `task_dir`, or a different
            task of the same name is already registered.

    Warns:
        InputWarning: If mteb rejects a task that is not in `task_dir`. The task is skipped.
    """
    tasks = load_tasks(task_dir)
    registry, module = _registries()
    names = []
    for spec in tasks.values():
        try:
            if known := registry.get(spec.result_name):
                _check_same(known, spec)
            else:
                registry[spec.result_name] = new = _task_class(spec)
                module.TASK_LIST = (*module.TASK_LIST, new)
        except ValueError as error:  # This includes pydantic's ValidationError.
            reason = " ".join(str(error).split())[:300]
            problem = f"{spec.file}: mteb rejects this task: {reason}"
            file = spec.file.resolve()
            if task_dir is not None and Path(task_dir).resolve() in (file, *file.parents):
                raise InputError(problem) from error
            warn(f"{problem}; the task is skipped")
            continue
        names.append(spec.result_name)
    _register_benchmarks(
        {
            suite: [registry[tasks[name].result_name] for name in names if name in tasks]
            for suite, names in load_suites().items()
        }
    )
    return names


def _check_same(registered: type[AbsTask], spec: TaskSpec) -> None:
    """Raise InputError if a registered task differs from a task file of the same name.

    Otherwise, mteb would evaluate the registered task without any message.
    """
    if not issubclass(registered, PolarityBenchTask):
        raise InputError(f"mteb already has a task {spec.result_name!r}; set another `mteb_name`")
    other = registered.spec
    if other.file.resolve() != spec.file.resolve():
        raise InputError(
            f"the name {spec.result_name!r} is already registered for {other.file}; rename one of "
            "the tasks, or register them in separate processes"
        )
    if other.digest != spec.digest:
        raise InputError(
            f"the task file of {spec.result_name!r} has changed since the task was registered; "
            "start a new process"
        )


def _registries() -> tuple[dict[str, type[AbsTask]], Any]:
    module: Any = import_module("mteb.get_tasks")
    registry = getattr(module, "_TASKS_REGISTRY", None)
    if not isinstance(registry, dict) or not isinstance(getattr(module, "TASK_LIST", None), tuple):
        raise RuntimeError(  # noqa: TRY004  The caller made no type error.
            f"mteb {version('mteb')}: the task registry has an unknown form; install mteb 2.26 "
            "(the tested version)"
        )
    return registry, module


def _register_benchmarks(suites: Mapping[str, Sequence[type[AbsTask]]]) -> None:
    benchmarks: Any = import_module("mteb.benchmarks.benchmarks")
    getters: Any = import_module("mteb.benchmarks.get_benchmark")
    if hasattr(benchmarks, "POLARITY_BENCH"):
        return
    with restore_generators():
        benchmarks.POLARITY_BENCH = Benchmark(
            name="PolarityBench(eng)",
            aliases=("PolarityBench", "polarity"),
            tasks=[task() for task in suites["polarity"]],
            description="Can a sentence encoder separate polarity without losing meaning?",
        )
        benchmarks.POLARITY_BENCH_SENTEVAL = Benchmark(
            name="PolarityBench(eng, SentEval)",
            aliases=("polarity-senteval",),
            tasks=[task() for task in (*suites["transfer"], *suites["sts"])],
            description="SentEval's transfer and relatedness tasks, and STS tasks.",
        )
    getters._build_registry.cache_clear()  # noqa: SLF001  mteb has no public function for this
    getters._build_aliases_registry.cache_clear()  # noqa: SLF001  as above


def _task_class(spec: TaskSpec) -> type[AbsTask]:
    metadata = task_metadata(spec)
    values = {"spec": spec, "metadata": metadata, "abstask_prompt": spec.mteb_prompt}
    return type(spec.result_name, (PolarityBenchTask,), values)
