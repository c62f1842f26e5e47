"""The SetFit baseline: an encoder trained on sentence pairs, then with a classifier on its top.

SetFit says of two texts only whether their classes are the same; it has no neighbours and looks at
no similarity. What is compared is its body, the encoder, at an equal number of sentence pairs; the
head lies beside it as tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from polarity_bench.data.sources import DataAccess
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders import EncoderOptions, SentenceTransformerEncoder
from polarity_bench.errors import InputError, nearest
from polarity_bench.progress import Bar, no_bar
from polarity_bench.registry import choose_tasks, load_tasks
from polarity_bench.spec import PolaritySpec
from polarity_bench.training.base import check_packages, load_base
from polarity_bench.training.data import TrainingData, load_training_data
from polarity_bench.training.folder import RunFolder, read_train_file, run_folder
from polarity_bench.training.pool import TrainingPool
from polarity_bench.training.setfit_card import setfit_card
from polarity_bench.training.setfit_pairs import paired_by_rounds, paired_once
from polarity_bench.training.setfit_trainer import (
    BODY_RATE,
    EPOCHS,
    HEAD_RATE,
    PAIR_RATE,
    WEIGHT_DECAY,
    head_tensors,
    make_trainer,
    silent,
    train_head,
    train_on_pairs,
)
from polarity_bench.types import EncoderId, IntArray, digest_of

SetFitRecipe = Literal["papers", "setfit"]
SETFIT_RECIPES: tuple[SetFitRecipe, ...] = get_args(SetFitRecipe)
HEAD_FILE = "head.safetensors"
VERSION = 1  # raised whenever the code gives the same spec other weights

_SAMPLES = {"papers": 625, "setfit": 8}
_BATCH_SIZES = {"papers": 32, "setfit": 16}
_MOST_TEXTS = 5_000  # of which all pairs are listed in memory
_NEEDED = {"setfit": "SetFit", "accelerate": "its trainer", "matplotlib": "the history's figure"}


@dataclass(frozen=True)
class SetFitSpec:
    """How SetFit trains.

    `papers` is what the margins paper's authors ran: one epoch on pairs, in which the head takes no
    part, then five epochs of head and body together by cross-entropy. `setfit` is SetFit's
    default: one epoch on pairs, then a logistic regression on the encoder as it is.

    Attributes:
        recipe: Which of the two.
        samples_per_class: Texts drawn of each class; None takes all, and `usual` the recipe's 625
            or 8.
        n_pairs: Sentence pairs, an even number, half of them within a class; None leaves it to the
            recipe: 40 for each text (`papers`), or every pair of two texts, the fewer kind
            repeated (`setfit`).
        batch_size: Pairs, and end to end texts, in a batch; `usual` is 32 or 16.
        seed: Of the texts, the pairs, their order, the head's first weights and the dropout.
    """

    recipe: SetFitRecipe = "papers"
    samples_per_class: int | Literal["usual"] | None = "usual"
    n_pairs: int | None = None
    batch_size: int | Literal["usual"] = "usual"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.recipe not in SETFIT_RECIPES:
            near = nearest(self.recipe, SETFIT_RECIPES)
            raise InputError(f"--recipe: unknown value {self.recipe!r}{near}")
        if self.samples_per_class == "usual":
            object.__setattr__(self, "samples_per_class", _SAMPLES[self.recipe])
        if self.batch_size == "usual":
            object.__setattr__(self, "batch_size", _BATCH_SIZES[self.recipe])
        for option, value, least in (
            ("--samples-per-class", self.samples_per_class, 2),
            ("--pairs", self.n_pairs, 2),
            ("--batch-size", self.batch_size, 1),
            ("--seed", self.seed, 0),
        ):
            if isinstance(value, int) and value < least:
                raise InputError(f"{option} must be at least {least}, got {value}")
        if self.n_pairs is not None and self.n_pairs % 2:
            raise InputError(
                f"--pairs {self.n_pairs}: an even number is wanted, half the pairs are of one class"
            )


@dataclass(frozen=True)
class SetFitIdentity:
    """All that decides the weights that come out; its digest is the run's id.

    Attributes:
        spec: How the encoder is trained.
        base: The encoder before.
        task: Digest of the task file.
        data: Digest of the texts drawn and their classes.
        evaluation: Digest of the queries and sources that it is scored on.
    """

    spec: SetFitSpec
    base: EncoderId
    task: str
    data: str
    evaluation: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"method": "setfit", "version": VERSION, **asdict(self)}

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over all of it but the encoder's name."""
        return digest_of({**self.to_dict(), "base": self.base.digest})


@dataclass(frozen=True)
class SetFitRun:
    """What came of a run.

    Attributes:
        folder: Where the encoder and its head lie.
        identity: What was run.
        rows: Scores before, after the pairs, and after the end-to-end epochs if there are some.
        n_pairs: Sentence pairs trained on.
        n_texts: Distinct texts that they were made of.
        reused: Whether it had finished there before.
    """

    folder: Path
    identity: SetFitIdentity
    rows: Sequence[Mapping[str, float | None]]
    n_pairs: int
    n_texts: int
    reused: bool = False


def train_setfit(
    model: str,
    task: str,
    output: str | Path,
    spec: SetFitSpec | None = None,
    *,
    options: EncoderOptions | None = None,
    access: DataAccess | None = None,
    task_dir: Path | None = None,
    embedder: Embedder | None = None,
    overwrite: bool = False,
    bar: Bar = no_bar,
) -> SetFitRun:
    """Train an encoder with SetFit on a polarity task, judged by P and S before and after.

    The authors' script is for SetFit before 1.0: from then on its `freeze` freezes the body too, so
    that the first step fails, and what it gives `train` is ignored. `papers` does with SetFit 1.2
    what the script does with 0.7, pairs included: 20 rounds, in each of which every text is joined
    with one of its own class and one of another. What differs: the texts are distinct; our seed
    draws them and the pairs; a prompt is a part of the texts; and end to end, texts are padded to
    the longest of them instead of the model's limit, so that dropout falls elsewhere.

    Args:
        model: The base: any name that `load_encoder` takes but a baseline's.
        task: A polarity task's name.
        output: The folder of the run: a sentence-transformers folder in the end.
        spec: How to train; the papers' recipe by default.
        options: How to load the base. Its prompt is put before every text.
        access: Where the task's data may come from.
        task_dir: A folder with task files of your own.
        embedder: How to embed with the base; without a store by default.
        overwrite: Replace another run in the folder.
        bar: Opens progress bars.

    Raises:
        InputError: If SetFit is not installed or anything given cannot be used.

    References:
        Tunstall et al. (2022), Efficient few-shot learning without prompts,
        https://arxiv.org/abs/2209.11055
    """
    check_packages(_NEEDED, "the SetFit baseline", extra="setfit")
    spec = spec or SetFitSpec()
    folder = run_folder(model, output)
    (chosen,) = choose_tasks(load_tasks(task_dir), names=[task])
    data = load_training_data(
        chosen, access or DataAccess.from_environment(), held_out=0, seed=spec.seed
    )
    assert isinstance(chosen, PolaritySpec)  # noqa: S101  load_training_data saw to it
    drawn = _draw_texts(data.pool, spec, chosen.name)
    texts, labels = [data.pool.texts[i] for i in drawn], data.pool.labels[drawn]
    base = load_base(model, options or EncoderOptions())
    _check_base(base, spec)
    identity = SetFitIdentity(
        spec=spec,
        base=base.id,
        task=chosen.digest,
        data=digest_of([texts, [data.pool.classes[label] for label in labels]]),
        evaluation=data.task.digest,
    )
    if folder.claim(identity, overwrite=overwrite):
        stored = read_train_file(folder.path) or {}
        kept = {key: stored[key] for key in ("n_pairs", "n_texts")}
        return SetFitRun(folder.path, identity, stored["history"], **kept, reused=True)
    return _train(folder, identity, base, data, texts, labels, embedder or Embedder(), bar)


def _train(
    folder: RunFolder,
    identity: SetFitIdentity,
    base: SentenceTransformerEncoder,
    data: TrainingData,
    texts: list[str],
    labels: IntArray,
    embedder: Embedder,
    bar: Bar,
) -> SetFitRun:
    from polarity_bench.training.evaluation import EpochEvaluator
    from polarity_bench.training.history import write_history

    spec, body, task = identity.spec, base.model, data.task.spec
    assert isinstance(spec.batch_size, int)  # noqa: S101  the spec filled it in
    end_to_end = spec.recipe == "papers"
    draw_pairs = paired_by_rounds if end_to_end else paired_once
    positions, same = draw_pairs(labels, spec.n_pairs, spec.seed)
    n_steps = -(-len(positions) // spec.batch_size)
    n_more = EPOCHS * -(-len(texts) // spec.batch_size) if end_to_end else 0
    evaluator = EpochEvaluator(data, base, embedder, base.id.prompt)
    rows: list[dict[str, float | None]] = []

    def judge(epoch: int, step: int, loss: float | None = None) -> None:
        scores = evaluator(body)
        rows.append({"epoch": epoch, "step": step, "loss": loss, "learning_rate": None, **scores})

    with bar(f"training {folder.path.name}", n_steps + n_more) as advance, silent():
        judge(0, 0)
        body.default_prompt_name = None  # SetFit has none: the prompt becomes a part of the texts
        texts = [f"{base.id.prompt or ''}{text}" for text in texts]
        trainer = make_trainer(
            base,
            texts,
            n_classes=len(data.pool.classes),
            end_to_end=end_to_end,
            batch_size=spec.batch_size,
            seed=spec.seed,
            folder=folder.checkpoints,
            progress=advance,
        )
        judge(1, n_steps, train_on_pairs(trainer, texts, positions, same))
        train_head(trainer, texts, labels, spec.seed)
        if end_to_end:
            judge(1 + EPOCHS, n_steps + n_more)
    write_history(rows, folder.path, f"{base.id.name} on {task.title}, SetFit")
    done = SetFitRun(folder.path, identity, rows, len(positions), len(texts))
    card = setfit_card(folder.path.name, base.id, task, _in_words(done), identity.digest, done.rows)
    head = head_tensors(trainer.model.model_head, data.pool.classes)
    beside = {"README.md": card.encode(), HEAD_FILE: head}
    files = folder.publish(body, beside, prompt=base.id.prompt)
    outcome = {"n_pairs": done.n_pairs, "n_texts": done.n_texts, "history": rows}
    folder.record(identity, finished=True, files=files, outcome=outcome)
    return done


def _draw_texts(pool: TrainingPool, spec: SetFitSpec, task: str) -> IntArray:
    """The positions of the texts to train on, in random order."""
    rng = np.random.default_rng(spec.seed)
    drawn = []
    for code, name in enumerate(pool.classes):
        members = rng.permutation(np.flatnonzero(pool.labels == code))
        count = len(members) if spec.samples_per_class is None else spec.samples_per_class
        assert isinstance(count, int)  # noqa: S101  the spec filled it in
        if count > len(members):
            raise InputError(
                f"--samples-per-class {count:,}: {task} has {len(members):,} distinct training "
                f"texts of the class {name!r}; ask for fewer"
            )
        drawn.append(members[:count])
    found: IntArray = rng.permutation(np.concatenate(drawn))
    if spec.recipe == "setfit" and len(found) > _MOST_TEXTS:
        raise InputError(
            f"--recipe setfit takes pairs from all that its {len(found):,} texts make; at most "
            f"{_MOST_TEXTS:,} texts: lower --samples-per-class, or say --recipe papers"
        )
    return found


def _check_base(base: SentenceTransformerEncoder, spec: SetFitSpec) -> None:
    """Refuse what SetFit cannot train, or would train elsewhere than it was asked to."""
    import torch
    from sentence_transformers.util import get_device_name

    if spec.recipe == "papers" and not callable(base.model.tokenizer):
        raise InputError(
            f"--recipe papers: {base.id.name} is a static encoder, whose tokenizer SetFit cannot "
            "use end to end; say --recipe setfit"
        )
    best = torch.device(get_device_name()).type
    if torch.device(base.device).type != best:
        raise InputError(
            f"--device {base.device}: SetFit's trainer takes {best} wherever there is one; hide it "
            "(CUDA_VISIBLE_DEVICES='') or train there"
        )
    if best == "cuda" and (n_gpus := torch.cuda.device_count()) > 1:
        raise InputError(
            f"SetFit's trainer takes a batch for each of the {n_gpus} GPUs, and so larger steps: "
            "show it one of them, by CUDA_VISIBLE_DEVICES=0"
        )


def _in_words(run: SetFitRun) -> str:
    spec = run.identity.spec
    said = (
        f"recipe `{spec.recipe}`, {run.n_texts:,} texts, {run.n_pairs:,} sentence pairs, one epoch "
        f"of cosine similarity loss, batches of {spec.batch_size}, rate {PAIR_RATE:g}; then "
    )
    if spec.recipe == "papers":
        said += f"{EPOCHS} epochs with the head, rates {BODY_RATE:g} and {HEAD_RATE:g}"
    else:
        said += "a logistic regression"
    return f"{said}; weight decay {WEIGHT_DECAY:g}, seed {spec.seed}"
