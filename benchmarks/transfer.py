"""Dials of several tasks, to measure what each of them does on the other tasks.

    python benchmarks/transfer.py dials --model minilm [--task sst2] [--labels 1200] [--seeds 1]
    python benchmarks/transfer.py dials --model e5-small --prompt "query: "

Each dial has the weights that this command gives:

    polarity-bench train axis --model MODEL --task TASK --labels 1200 --strength 0.25 --output RUN

The dials of CR and IMDb are trained with `--task sst2 --labels-from cr` or, with the task file
beside this program, `--task-dir benchmarks/imdb.toml --labels-from imdb`. The command also scores
the dial on its own task, which embeds all texts of the task for training. This program scores it
with the vectors that `polarity-bench run` has stored, and encodes only the labelled texts. Vectors
that were stored by another command differ by rounding, so the scores in `history.csv` do too. The
same command resumes, and makes only the dials that are missing.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from unittest.mock import patch

from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.training.data import TrainingData
from polarity_bench.training.job import Job
from polarity_bench.training.recipes.axis.recipe import Axis
from polarity_bench.training.train import train

TASKS = ("sst2", "cr", "imdb", "contrast", "sarcastic-headlines", "tweeteval-irony", "emotion")
LABELS = 1200
"""Number of labels of each dial; `contrast` has 1,210 labelled sources."""
STRENGTH = 0.25
_OF_SST2 = ("cr", "imdb")
"""Tasks of training only; their dials are scored on sst2, which has the same classes."""
_IMDB = Path(__file__).parent / "imdb.toml"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path, help="folder for the folders of the dials")
    parser.add_argument("--model", action="append", required=True, help="base; may be repeated")
    parser.add_argument("--prompt", help="prompt of the bases, which their dials keep")
    parser.add_argument("--task", action="append", choices=TASKS, help="default: all")
    parser.add_argument("--labels", type=int, action="append", help=f"default: {LABELS}")
    parser.add_argument("--seeds", type=int, default=1, help="number of draws of the labels")
    options = parser.parse_args()
    for model in options.model:
        for task in options.task or TASKS:
            for labels in options.labels or [LABELS]:
                for seed in range(options.seeds):
                    job = job_of(options.output, model, task, labels, seed, options.prompt)
                    print(train_with_stored_vectors(job), flush=True)


def job_of(
    output: Path, model: str, task: str, labels: int, seed: int, prompt: str | None = None
) -> Job:
    """Return the training of a dial. Its folder is named by all settings that differ."""
    name = f"{task}-{model}" + ("" if labels == LABELS else f"-{labels}")
    given = task if task in _OF_SST2 else None
    recipe = Axis(labels=labels, labels_from=given, strength=STRENGTH, seed=seed)
    scored_on = "sst2" if given else task
    folder = output / (f"{name}-{seed}" if seed else name)
    own = _IMDB if task == "imdb" else None
    options = EncoderOptions(prompt=prompt)
    return Job(recipe, model, scored_on, folder, options, task_dir=own, store=True)


def train_with_stored_vectors(job: Job) -> str:
    """Train a dial, unless it is finished, and return its name and its scores on its own task."""

    def in_groups(_: TrainingData, embedder: Embedder) -> Embedder:
        return embedder

    with patch.object(TrainingData, "in_groups", in_groups):
        run = train(job)
    ends = [f"P {row['polarity']:.4f}, S {row['similarity']:.4f}" for row in run.rows]
    return f"{run.folder.name}: {' to '.join(ends)}{', already there' if run.reused else ''}"


if __name__ == "__main__":
    main()
