"""One fold of cross-validation, by us and by the plain Hugging Face trainer.

    POLARITY_BENCH_DATA=... python benchmarks/folds.py [--task mr] [--model minilm] [--layers 3]

The first fold of the few-shot protocol (20 rows, 128 epochs) and of TripleEntropy's (800 rows of a
sample, 8 epochs), by cross-entropy alone, in batches of 64: from the loaded encoder to the classes
of the fold that is tested. The trainer is transformers', with its BERT for classification, texts
padded to the longest of their batch, or to 128 tokens as its example `run_glue.py` has it. All have
as many threads as there are workers; the last row is of several of our folds at a time, one thread
each, as `fewshot --workers` has it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from tabulate import tabulate

from polarity_bench.cross_validation.methods import FineTuning, FoldContext
from polarity_bench.cross_validation.protocol import PROTOCOLS
from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.load import SentenceTransformerEncoder, load_encoder
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.training.loops.classifier_training import shape_encoder, transformer_of

warnings.filterwarnings("ignore")
os.environ["TOKENIZERS_PARALLELISM"] = "false"
RATE = 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="mr")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.workers)
    for name, epochs in (("few-shot", 128), ("triple-entropy", 8)):
        method = FineTuning(rate=RATE, epochs=epochs, layers=asked.layers)
        fold = first_fold(name, method, asked.task, asked.model)
        n_texts = epochs * len(fold.train)
        rows = []
        ways: dict[str, Callable[[], Any]] = {
            "polarity-bench": partial(method.predict, fold),
            "polarity-bench, bfloat16": partial(replace(method, dtype="bfloat16").predict, fold),
            "Trainer, longest of the batch": partial(by_trainer, fold, method, None),
            "Trainer, 128 tokens": partial(by_trainer, fold, method, 128),
        }
        for title, way in ways.items():
            seconds = min(timed(way) for _ in range(asked.repeats))
            rows.append([title, asked.workers, 1, seconds, n_texts / seconds])
            print(*rows[-1], file=sys.stderr)
        seconds = at_once(name, asked) / asked.workers
        rows.append(["polarity-bench", 1, asked.workers, seconds, n_texts / seconds])
        print(f"\n{name}: {len(fold.train)} rows, {epochs} epochs, {len(fold.test)} tested\n")
        heads = ["", "threads", "folds at a time", "seconds a fold", "texts a second in training"]
        print(tabulate(rows, heads, tablefmt="pipe", floatfmt=("", "", "", ".1f", ".0f")))


def first_fold(name: str, method: FineTuning, task: str, model: str) -> FoldContext:
    """Load a data set and an encoder, and cut the first fold."""
    data = LabelledTexts.of(task, DataAccess.from_environment())
    encoder = load_encoder(model)
    assert isinstance(encoder, SentenceTransformerEncoder)
    shape_encoder(encoder.model, method)
    seed, _, train, test = next(iter(PROTOCOLS[name].splits(data.labels)))
    return FoldContext(encoder.model, data, train, test, seed)


def timed(way: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    way()
    return time.perf_counter() - begun


def at_once(name: str, asked: argparse.Namespace) -> float:
    """Return the seconds that as many folds as there are workers take, side by side."""
    context = get_context("spawn")
    barrier, found = context.Barrier(asked.workers), context.Queue()
    workers = [
        context.Process(target=work, args=(name, asked, barrier, found))
        for _ in range(asked.workers)
    ]
    for worker in workers:
        worker.start()
    seconds: float = max(found.get() for _ in workers)
    for worker in workers:
        worker.join()
    return seconds


def work(name: str, asked: argparse.Namespace, barrier: Any, found: Any) -> None:
    torch.set_num_threads(1)
    epochs = 128 if name == "few-shot" else 8
    method = FineTuning(rate=RATE, epochs=epochs, layers=asked.layers)
    fold = first_fold(name, method, asked.task, asked.model)
    seconds = []
    for _ in range(asked.repeats):
        barrier.wait()
        seconds.append(timed(lambda: method.predict(fold)))
    found.put(min(seconds))


def by_trainer(fold: FoldContext, method: FineTuning, width: int | None) -> np.ndarray:
    """Do the same by transformers' trainer, as its users write it."""
    from transformers import (
        BertForSequenceClassification,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    set_seed(fold.seed)
    tokenizer: Any = fold.model.tokenizer
    encoder = transformer_of(fold.model)
    config = deepcopy(encoder.config)
    config.num_labels = len(fold.data.classes)
    model = BertForSequenceClassification(config)
    model.bert.load_state_dict(encoder.state_dict(), strict=False)

    def rows(chosen: np.ndarray) -> list[dict[str, Any]]:
        padding = {"padding": "max_length", "max_length": width} if width else {"max_length": 256}
        made = tokenizer(fold.texts_at(chosen), truncation=True, **padding)
        return [
            {**{key: made[key][i] for key in made}, "labels": int(fold.data.labels[row])}
            for i, row in enumerate(chosen)
        ]

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=method.epochs,
            per_device_train_batch_size=method.batch_size,
            per_device_eval_batch_size=method.batch_size,
            learning_rate=method.rate,
            weight_decay=method.weight_decay,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=fold.model.device.type == "cpu",
        )
        trainer = Trainer(
            model,
            arguments,
            train_dataset=rows(fold.train),
            data_collator=DataCollatorWithPadding(tokenizer),
        )
        trainer.train()
        found = trainer.predict(rows(fold.test))  # type: ignore[arg-type]
    classes: np.ndarray = np.asarray(found.predictions).argmax(axis=1)
    return classes


if __name__ == "__main__":
    main()
