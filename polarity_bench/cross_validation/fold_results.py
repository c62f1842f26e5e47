"""Experiments: the evaluation of a method on the folds of a data set, stored as a result.

An experiment is a `Result` of the kind `cross-validation`. Its arrays have a value for each fold:

- `seed`, `fold`: Seed and number of the fold.
- `train`, `test`: Number of training rows and test rows.
- `empty_batches`: Number of batches whose metric loss was 0, see `Predictions`.
- `seconds`: Duration of the fold.
- `macro_f1`, `accuracy`: Scores, in [0, 1]. `macro_f1_proxies` and `accuracy_proxies` are the
  scores of prediction with proxies.

The result is written again after each fold. An interrupted experiment resumes from the arrays,
which are one file. A fold depends only on the experiment, its seed and its number, because it has
its own random generators and uses one thread. The scores are therefore the same for any number of
interruptions and worker processes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from polarity_bench.cross_validation.methods import (
    DENSE,
    FoldContext,
    Method,
    check_texts,
    flat,
    full_title,
)
from polarity_bench.cross_validation.protocol import Part, Protocol
from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError, reworded
from polarity_bench.evaluation.environment import environment
from polarity_bench.files import check_writable, folder_name
from polarity_bench.progress import Bar, no_bar
from polarity_bench.results.packed_results import PROVENANCE, is_stored
from polarity_bench.results.result_files import (
    CROSS_VALIDATION,
    Result,
    ResultKey,
    place,
    read_arrays,
    read_result,
    read_results,
    write_result,
)
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.tasks.senteval.classifiers import single_threaded
from polarity_bench.training.objective import Objective, Pooling
from polarity_bench.training.processes import end_with
from polarity_bench.training.train import load_base
from polarity_bench.values import T

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from polarity_bench.tasks.labelled import Text

VERSION = 1
"""Version of the scores; increase it whenever a code change affects the scores of an experiment."""
_FACTS = ("seed", "fold", "train", "test", "empty_batches", "seconds")
"""Arrays that are not scores."""

FoldValues = dict[str, Any]
"""Values of one fold, by the name of the array."""


@dataclass(frozen=True)
class Experiment:
    """Method, data set, protocol and encoder of a cross-validation.

    Attributes:
        method: Method to evaluate.
        data: Labelled texts to divide into folds.
        protocol: Division of the data into folds.
        model: Name or folder of the encoder.
        options: Options for loading the encoder.
    """

    method: Method
    data: LabelledTexts
    protocol: Protocol
    model: str
    options: EncoderOptions = field(default_factory=EncoderOptions)

    def result(self, encoder: EncoderId) -> Result:
        """Return the result before its first fold, without scores.

        The scores depend on the texts and not on the task file, so the digest of the texts stands
        for both.
        """
        data, recipe = self.data, flat(self.method.to_dict("moves"))
        protocol = self.protocol.spec() | {"version": VERSION, "method": recipe}
        digest = data.digest
        key = ResultKey(digest, digest, encoder, None, protocol)
        counts = np.bincount(data.labels, minlength=len(data.classes)).tolist()
        return Result(
            task=data.name,
            kind=CROSS_VALIDATION,
            result_name=folder_name(data.name),
            version=VERSION,
            languages=data.languages,
            main_score=ScoreKey("accuracy" if self.protocol.rows is None else "macro_f1"),
            key=key,
            scores={},
            counts=dict(zip(data.classes, counts, strict=True)),
            training={"recipe": recipe, "title": full_title(self.method), "base": encoder.name},
            experiment=f"{recipe['name']}-{key.digest}",
            environment=environment(self.options.device),
        )


def run_experiments(
    experiments: Sequence[Experiment],
    output: Path,
    *,
    n_folds: int | None = None,
    workers: int = 1,
    bar: Bar = no_bar,
) -> list[Result]:
    """Run all missing folds, one experiment after the other.

    Args:
        experiments: Experiments to run.
        output: Folder of the results.
        n_folds: Number of folds to run of each experiment, from its first; None for all.
        workers: Number of processes that share the folds, each with one thread.
        bar: Function that opens a progress bar.

    Returns:
        The result of each experiment, with its arrays, including stored folds.

    Raises:
        InputError: If the protocol does not fit the data, if the encoder cannot be trained, or if
            another process is running one of the experiments.
    """
    if not experiments:  # no bar of 0 folds
        return []
    for loaded in (_encoder, _shape_copy):
        loaded.cache_clear()  # The encoder's folder may have changed since the last call.
    checked = [(each, *check_experiment(each)) for each in experiments]
    needed = [(each, encoder, parts[:n_folds]) for each, encoder, parts in checked]
    title = f"{len(experiments):,} cross-validations"
    if len(experiments) == 1:
        title = f"{experiments[0].data.name} {full_title(experiments[0].method)}"
    results = []
    with bar(title, sum(len(parts) for *_, parts in needed)) as advance, _pool(workers) as mapped:
        for start in range(0, len(needed), _AT_ONCE):
            with ExitStack() as locks:
                opened = [
                    locks.enter_context(_open(*each, output))
                    for each in needed[start : start + _AT_ONCE]
                ]
                missing = [(each, part) for each in opened for part in each.missing]
                advance(sum(len(each.parts) for each in opened) - len(missing))
                work = [(each.experiment, part) for each, part in missing]
                for (each, _), fold in zip(missing, mapped(_run_fold, work), strict=True):
                    each.add(fold, output)
                    advance(1)
                results += [_with_arrays(read_result(each.path)) for each in opened]
    return results


_AT_ONCE = 100
"""Number of experiments whose folds share the workers; the lock of each is an open file."""

_Map = Callable[[Callable[[T], FoldValues], Sequence[T]], Iterator[FoldValues]]
"""Function like `map`, which yields the values of folds in order."""


@contextmanager
def _pool(workers: int) -> Iterator[_Map[Any]]:
    """Yield a function like `map` that calls functions in several processes, or in this one."""
    if workers == 1:
        yield map
        return
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    # joblib's pool would end processes with growing memory, but training always increases memory.
    pool = ProcessPoolExecutor(workers, context, end_with, (receiver,))
    try:
        yield partial(_map_in_order, pool)
    except BrokenProcessPool as error:
        raise InputError(
            f"`workers` {workers}: a worker process died, possibly because it ran out of memory. "
            "All earlier folds are stored; run the same command again with fewer workers"
        ) from error
    except BaseException:
        sender.close()  # This ends the workers immediately; otherwise a fold may take minutes.
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _map_in_order(
    pool: Executor, function: Callable[[T], FoldValues], work: Sequence[T]
) -> Iterator[FoldValues]:
    """Yield results in order like `pool.map`, but stop waiting if the user interrupts.

    The wait needs a timeout, because a signal to another thread does not wake a waiting thread.
    """
    futures = [pool.submit(function, each) for each in work]
    for future in futures:
        while not future.done():
            wait([future], timeout=_POLL)
        yield future.result()


_POLL = 0.5
"""Maximum time until an interrupt is noticed, in seconds."""


def check_experiment(experiment: Experiment) -> tuple[EncoderId, Sequence[Part]]:
    """Check an experiment, and return the identity of its encoder and its folds.

    Raises:
        InputError: If the protocol does not fit the data, if the method cannot use the texts, or if
            the encoder cannot be trained.
    """
    from polarity_bench.training.loops.classifier_training import check_encoder

    method = experiment.method
    check_texts(method, experiment.data.texts)
    parts = _parts(experiment.protocol, experiment.data.labels.tobytes())
    encoder = _encoder(experiment.model, experiment.options)
    check_encoder(encoder.model, Objective(pooling=method.pooling, layers=method.layers))
    return encoder.id, parts


@lru_cache(maxsize=4)
def _parts(protocol: Protocol, labels: bytes) -> Sequence[Part]:
    """Return the folds of a data set, which all experiments with these labels share."""
    return tuple(protocol.splits(np.frombuffer(labels, dtype=np.int64)))


@dataclass(frozen=True)
class _Opened:
    """Experiment whose result no other process writes.

    Attributes:
        experiment: The experiment.
        planned: Its result, without scores.
        path: File of the result.
        folds: Values of the folds that are stored.
        parts: Folds that must be stored.
    """

    experiment: Experiment
    planned: Result
    path: Path
    folds: list[FoldValues]
    parts: Sequence[Part]

    @property
    def missing(self) -> Sequence[Part]:
        """Folds to run."""
        return self.parts[len(self.folds) :]

    def add(self, fold: FoldValues, output: Path) -> None:
        """Add the values of the next fold, and write the result."""
        self.folds.append(fold)
        _write(self.planned, self.folds, output)


@contextmanager
def _open(
    experiment: Experiment, encoder: EncoderId, parts: Sequence[Part], output: Path
) -> Iterator[_Opened]:
    """Lock an experiment, and read its stored folds."""
    planned = experiment.result(encoder)
    path = place(output, encoder, planned.experiment, planned.result_name)
    check_writable(path.parent)
    with _lock(path):
        folds: list[FoldValues] = []
        with suppress(InputError):
            folds = folds_of(read_arrays(path))
        if folds and not is_stored(path.with_suffix(PROVENANCE)):
            # A killed process stored the values of a fold, but not the result.
            _write(planned, folds, output)
        yield _Opened(experiment, planned, path, folds, parts)


def _write(planned: Result, folds: Sequence[FoldValues], output: Path) -> None:
    """Write the result of the scored folds."""
    with reworded(
        f"{output}: the fold cannot be stored; all earlier folds are stored; free some space, then "
        "run the same command again: "
    ):
        write_result(with_folds(planned, folds), output)


def with_folds(planned: Result, folds: Sequence[FoldValues]) -> Result:
    """Return a result with the scores of folds, which are means over the folds."""
    # Folds that were read have another order of names than new ones.
    arrays = {name: np.array([fold[name] for fold in folds]) for name in sorted(folds[0])}
    nowhere = (math.nan, math.nan)
    scores = {
        ScoreKey.parse(name): Score(float(v.mean()), float(v.std()), nowhere, len(v))
        for name, v in arrays.items()
        if name not in _FACTS
    }
    seconds = {"folds": float(arrays["seconds"].sum())}
    return replace(planned, scores=scores, seconds=seconds, date=time.time(), arrays=arrays)


def folds_of(arrays: Mapping[str, NDArray[Any]]) -> list[FoldValues]:
    """Return the values of each fold, in order, from the arrays of a result."""
    rows = zip(*(values.tolist() for values in arrays.values()), strict=True)
    return [dict(zip(arrays, row, strict=True)) for row in rows]


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    file = Path(f"{path}.lock")
    try:
        with FileLock(file, blocking=False):
            try:
                yield
            finally:
                with suppress(OSError):  # A lock that cannot be removed does no harm.
                    file.unlink()
    except Timeout as error:
        raise InputError(
            f"{path}: another process is running this experiment; wait until that process ends"
        ) from error


def _run_fold(work: tuple[Experiment, Part]) -> FoldValues:
    """Run one fold of an experiment in one thread."""
    from sklearn.metrics import accuracy_score, f1_score

    experiment, (seed, fold, train, test) = work
    data, encoder = experiment.data, _encoder(experiment.model, experiment.options)
    method = experiment.method
    model = _shape_copy(experiment.model, experiment.options, method.pooling, method.layers)
    prompt = encoder.id.prompt or ""
    given = replace(data, texts=[_with_prompt(text, prompt) for text in data.texts])
    fold_seed = seed * 1000 + fold
    begun = time.perf_counter()
    with single_threaded():
        predictions = method.predict(FoldContext(model, given, train, test, fold_seed))
    seconds = time.perf_counter() - begun
    truth, codes = data.labels[test], list(range(len(data.classes)))
    facts = (seed, fold, len(train), len(test), predictions.n_empty, seconds)
    values: FoldValues = dict(zip(_FACTS, facts, strict=True))
    for way, classes in predictions.classes.items():
        f1 = f1_score(truth, classes, labels=codes, average="macro", zero_division=0.0)
        scores = {"macro_f1": float(f1), "accuracy": float(accuracy_score(truth, classes))}
        own = None if way == DENSE else way
        values |= {str(ScoreKey(name, part=own)): score for name, score in scores.items()}
    return values


def _with_prompt(text: Text, prompt: str) -> Text:
    return prompt + text if isinstance(text, str) else (prompt + text[0], text[1])


_encoder = lru_cache(maxsize=1)(load_base)
"""Load an encoder, and cache it in each process."""


@lru_cache(maxsize=1)
def _shape_copy(
    model: str, options: EncoderOptions, pooling: Pooling, layers: int | None
) -> SentenceTransformer:
    """Return a copy of the encoder with a method's pooling and layers; all folds share the copy."""
    from polarity_bench.training.loops.classifier_training import shape_encoder

    encoder = _encoder(model, options)
    shaped = deepcopy(encoder.model)
    # The texts already contain the prompt, but SetFit would add the default prompt.
    shaped.default_prompt_name = None
    objective = Objective(pooling=pooling, layers=layers)
    shape_encoder(shaped, objective, pooling_added=encoder.id.pooling_added)
    return shaped.eval()


def read_experiments(folder: Path) -> list[Result]:
    """Read the results of all experiments below a folder, with their arrays.

    Results with the same key are the same experiment, for example with a renamed encoder. One of
    them is returned.

    Raises:
        InputError: If there are no such experiments, if another version of polarity-bench wrote
            one, or if a file is damaged.
    """
    found = sorted(read_results(folder, of_folds=True), key=lambda result: result.task)
    if not found:
        raise InputError(
            f"`output` {folder}: the folder contains no results of `fewshot`; check the folder, or "
            "run `fewshot` first"
        )
    return [_with_arrays(each) for each in {each.key.digest: each for each in found}.values()]


def _with_arrays(result: Result) -> Result:
    if result.version != VERSION:
        raise InputError(
            f"{result.path}: expected version {VERSION} of `fewshot`, got version "
            f"{result.version}; move the file out of the folder"
        )
    return replace(result, arrays=read_arrays(result.path))
