"""Experiments: the evaluation of a method on the folds of a data set, and its files.

```
OUTPUT/TASK/METHOD-RUN.jsonl          the experiment, then the scores of each fold, one per line
OUTPUT/TASK/METHOD-RUN.seconds.jsonl  end time and duration of each fold, not reproducible
OUTPUT/TASK/classes-DATA.json         number of rows of each class of the data
```

Each fold is stored as soon as it is scored. A fold depends only on the experiment, its seed and its
number, because it has its own random generators and uses one thread. The file of scores therefore
has the same bytes for any number of interruptions and worker processes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout

from polarity_bench.cross_validation.methods import (
    DENSE,
    FoldContext,
    Method,
    check_texts,
    full_title,
)
from polarity_bench.cross_validation.protocol import Part, Protocol
from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError
from polarity_bench.files import (
    check_writable,
    folder_name,
    json_bytes,
    read_json,
    write_atomically,
)
from polarity_bench.progress import Bar, no_bar
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.tasks.senteval.classifiers import single_threaded
from polarity_bench.training.objective import Objective, Pooling
from polarity_bench.training.processes import end_with
from polarity_bench.training.train import load_base
from polarity_bench.values import digest_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from polarity_bench.tasks.labelled import Text

VERSION = 1
"""Version of the scores; increase it whenever a code change affects the scores of an experiment."""


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

    def spec(self, encoder: EncoderId) -> dict[str, Any]:
        """Return everything that affects the experiment's scores, as JSON values."""
        return {
            "version": VERSION,
            "task": self.data.name,
            "data": self.data.digest,
            "rows": len(self.data.labels),
            "encoder": encoder.to_dict(),
            "method": self.method.to_dict("moves"),
            "title": full_title(self.method),
            "protocol": self.protocol.spec(),
        }


@dataclass(frozen=True)
class Outcome:
    """Results of an experiment.

    Attributes:
        spec: Experiment, from `Experiment.spec`.
        folds: Results of each fold, in order: `seed`, `fold` and row counts. For each way of
            predicting, there are also `macro_f1` and `accuracy`, in [0, 1].
        seconds: Duration of each fold, in seconds.
        counts: Number of rows of each class of the data; () if unknown.
        file: Path of the scores.
    """

    spec: Mapping[str, Any]
    folds: Sequence[Mapping[str, Any]]
    seconds: Sequence[float]
    counts: Sequence[int] = ()
    file: str = ""


def run_experiments(
    experiments: Sequence[Experiment], output: Path, *, workers: int = 1, bar: Bar = no_bar
) -> list[Outcome]:
    """Run all missing folds, one experiment after the other.

    Args:
        experiments: Experiments to run.
        output: Folder of the results.
        workers: Number of processes that share the folds, each with one thread.
        bar: Function that opens a progress bar.

    Returns:
        The results of each experiment, including stored folds.

    Raises:
        InputError: If the protocol does not fit the data, if the encoder cannot be trained, or if
            another process is running one of the experiments.
    """
    for loaded in (_encoder, _shape_copy):
        loaded.cache_clear()  # The encoder's folder may have changed since the last call.
    for experiment in experiments:
        check_texts(experiment.method, experiment.data.texts)
    if workers == 1:
        return [_run(experiment, output, map, bar) for experiment in experiments]
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    # joblib's pool would end processes with growing memory, but training always increases memory.
    pool = ProcessPoolExecutor(workers, context, end_with, (receiver,))
    try:
        return [
            _run(experiment, output, partial(_map_in_order, pool), bar)
            for experiment in experiments
        ]
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


Map = Callable[..., Iterator[tuple[dict[str, Any], float]]]
"""Function like `map`, which yields the scores and the duration of each fold in order."""


def _map_in_order(
    pool: Executor, function: Callable[..., Any], *arguments: Iterable[Any]
) -> Iterator[Any]:
    """Yield results in order like `pool.map`, but stop waiting if the user interrupts.

    The wait needs a timeout, because a signal to another thread does not wake a waiting thread.
    """
    futures = [pool.submit(function, *values) for values in zip(*arguments, strict=False)]
    for future in futures:
        while not future.done():
            wait([future], timeout=_POLL)
        yield future.result()


_POLL = 0.5
"""Maximum time until an interrupt is noticed, in seconds."""


def check_experiment(experiment: Experiment) -> tuple[EncoderId, list[Part]]:
    """Check an experiment, and return the identity of its encoder and its folds.

    Raises:
        InputError: If the protocol does not fit the data, if the method cannot use the texts, or if
            the encoder cannot be trained.
    """
    from polarity_bench.training.loops.classifier_training import check_encoder

    method = experiment.method
    check_texts(method, experiment.data.texts)
    parts = list(experiment.protocol.splits(experiment.data.labels))
    encoder = _encoder(experiment.model, experiment.options)
    check_encoder(encoder.model, Objective(pooling=method.pooling, layers=method.layers))
    return encoder.id, parts


def _run(experiment: Experiment, output: Path, mapped: Map, bar: Bar) -> Outcome:
    """Run the missing folds of an experiment and return all its results."""
    encoder, parts = check_experiment(experiment)
    spec = experiment.spec(encoder)
    file = file_of(experiment, spec, output)
    times = file.with_suffix(".seconds.jsonl")
    check_writable(file.parent)
    with _lock(file):
        done = _lines(file)
        _cut(file, len(done))  # A killed process may have left an incomplete last line.
        if not done:
            _append(file, spec)
        _count_classes(experiment.data, _counts_file(file, spec))
        n_done = max(0, len(done) - 1)
        # A process may have been killed after it wrote the time of a fold, but before the scores.
        _cut(times, n_done)
        with bar(f"{experiment.data.name} {spec['title']}", len(parts)) as advance:
            advance(n_done)
            for scores, seconds in mapped(_run_fold, repeat(experiment), parts[n_done:]):
                _append(times, {"seconds": seconds, "ended": time.time()})
                _append(file, scores)
                advance(1)
        return read_outcome(file)


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    path = Path(f"{file}.lock")
    try:
        with FileLock(path, blocking=False):
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
    except Timeout as error:
        raise InputError(
            f"{file}: another process is running this experiment; wait until that process ends"
        ) from error


def _run_fold(experiment: Experiment, part: Part) -> tuple[dict[str, Any], float]:
    """Run one fold in one thread, and return its scores and its duration in seconds."""
    from sklearn.metrics import accuracy_score, f1_score

    seed, fold, train, test = part
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
    scores: dict[str, Any] = {"seed": seed, "fold": fold, "train": len(train), "test": len(test)}
    if predictions.n_empty:
        scores["empty_batches"] = predictions.n_empty
    for way, classes in predictions.classes.items():
        f1 = f1_score(truth, classes, labels=codes, average="macro", zero_division=0.0)
        scores[way] = {"macro_f1": float(f1), "accuracy": float(accuracy_score(truth, classes))}
    return scores, seconds


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


def file_of(experiment: Experiment, spec: Mapping[str, Any], output: Path) -> Path:
    """Return the path of an experiment's scores.

    The file name does not depend on the encoder's name and revision, because they do not affect
    scores.
    """
    encoder = {key: value for key, value in spec["encoder"].items() if key not in _NAMES}
    run = digest_of({**spec, "encoder": encoder, "title": None})
    method = experiment.method
    name = method.loss.name if isinstance(method, Objective) else method.name
    return output / folder_name(experiment.data.name) / f"{name}-{run}.jsonl"


_NAMES = ("name", "revision")


def read_outcome(file: Path) -> Outcome:
    """Read the results of an experiment, which may be incomplete.

    Raises:
        InputError: If another version of polarity-bench wrote the file, or if a line is damaged.
    """
    return _outcome(file, _lines(file))


def _outcome(file: Path, lines: Sequence[Any]) -> Outcome:
    spec, *folds = lines or [{}]
    if not (isinstance(spec, dict) and spec.get("version") == VERSION):
        raise InputError(
            f"{file}: expected results in version {VERSION} of `fewshot`, got another version or "
            "another kind of file; move the file out of the folder"
        )
    for number, fold in enumerate(folds, start=2):
        values = fold.values() if isinstance(fold, dict) else []
        ways = [value for value in values if isinstance(value, dict)]
        if not ways or not all({"macro_f1", "accuracy"} <= way.keys() for way in ways):
            raise InputError(
                f"{file}, line {number}: expected the scores of a fold; delete this line and all "
                "later lines, then run the same command again"
            )
    seconds = _lines(file.with_suffix(".seconds.jsonl"))
    durations = [float(line["seconds"]) for line in seconds[: len(folds)]]
    return Outcome(spec, folds, durations, _counts(_counts_file(file, spec)), str(file))


def _counts_file(file: Path, spec: Mapping[str, Any]) -> Path:
    """Return the path of the class counts, which all experiments on the data share."""
    return file.parent / f"classes-{spec['data']}.json"


def _count_classes(data: LabelledTexts, file: Path) -> None:
    if file.is_file():
        return
    counts = np.bincount(data.labels, minlength=len(data.classes))
    with _write_errors(file):
        write_atomically(file, json_bytes({"counts": counts.tolist()}))


@contextmanager
def _write_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{file}: cannot be written: {error.strerror}. All earlier folds are stored; free some "
            "space, then run the same command again"
        ) from error


def _counts(file: Path) -> list[int]:
    """Read the number of rows of each class; [] for older results without this file."""
    if not file.is_file():
        return []
    stored = read_json(file)
    counts = stored.get("counts") if isinstance(stored, dict) else None
    if not isinstance(counts, list) or not all(isinstance(n, int) and n >= 0 for n in counts):
        raise InputError(
            f"{file}: expected the number of rows of each class; delete the file and run the same "
            "`fewshot` command again"
        )
    return counts


def read_outcomes(output: Path) -> list[Outcome]:
    """Read all experiments in a folder that have at least one fold.

    Raises:
        InputError: If there are no such experiments, if another version of polarity-bench wrote a
            file, or if a line is damaged.
    """
    files = (file for file in sorted(output.glob("*/*.jsonl")) if ".seconds." not in file.name)
    begun = ((file, lines) for file in files if (lines := _lines(file)))
    outcomes = [outcome for file, lines in begun if (outcome := _outcome(file, lines)).folds]
    if not outcomes:
        raise InputError(
            f"`output` {output}: the folder contains no results of `fewshot`; check the folder, or "
            "run `fewshot` first"
        )
    return outcomes


def _lines(file: Path) -> list[Any]:
    """Return the complete lines of a JSON Lines file; [] if the file is missing.

    An incomplete last line is ignored. Another process may still be writing the line, or may have
    been killed while writing it.
    """
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return []
    try:
        return [json.loads(line) for line in content.split(b"\n")[:-1]]
    except ValueError as error:
        raise InputError(f"{file}: not a JSON Lines file: {error}") from error


def _cut(file: Path, n_lines: int) -> None:
    """Truncate a file to its first `n_lines` lines."""
    if file.exists():
        lines = file.read_bytes().split(b"\n")[:-1]
        os.truncate(file, sum(len(line) + 1 for line in lines[:n_lines]))


def _append(file: Path, content: Mapping[str, Any]) -> None:
    with _write_errors(file), file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(content) + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def score_by_fold(outcome: Outcome, way: str, measure: str) -> dict[tuple[int, int], float]:
    """Return the score of each fold, keyed by seed and fold number."""
    return {(fold["seed"], fold["fold"]): fold[way][measure] for fold in outcome.folds}


def default_measure(spec: Mapping[str, Any]) -> str:
    """Return the papers' measure: macro F1 for few training rows, accuracy for all rows."""
    return "accuracy" if spec["protocol"]["rows"] is None else "macro_f1"


def score_of(outcome: Outcome) -> float:
    """Return the mean score over folds, in the papers' measure, without proxies, in [0, 1]."""
    scores = score_by_fold(outcome, DENSE, default_measure(outcome.spec))
    return float(np.mean(list(scores.values())))
