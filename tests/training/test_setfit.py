"""The SetFit baseline: both variants train, one seed gives one encoder, and it can be reused."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from standins import call, word_tokenizer, write_task
from standins.training import run

from polarity_bench.classifiers.head import HEAD_FILE
from polarity_bench.encoders.train_file import TrainFile, read_train_file
from polarity_bench.errors import InputError
from polarity_bench.training.job import Job
from polarity_bench.training.recipes.setfit import recipe as module
from polarity_bench.training.recipes.setfit.pairs import paired_by_rounds, paired_once
from polarity_bench.training.recipes.setfit.recipe import SetFit
from polarity_bench.training.train import TrainingRun, train

LABELS = np.array([1, 0, 0, 2, 1, 0, 2])
SMALL = SetFit(samples_per_class=3, pairs=20, batch_size=8)
FEW = SetFit(variant="setfit", samples_per_class=3)


@pytest.fixture(scope="module")
def base(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny encoder with a prompt of its own."""
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(tiny_model), device="cpu")
    encoder.prompts["say"] = "The "
    encoder.default_prompt_name = "say"
    folder = tmp_path_factory.mktemp("prompted") / "base"
    encoder.save_pretrained(str(folder), create_model_card=False)
    return folder


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    torch.manual_seed(0)
    model = SentenceTransformer(modules=[StaticEmbedding(word_tokenizer(), embedding_dim=8)])
    folder = tmp_path_factory.mktemp("static")
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    write_task(folder)
    return folder


@pytest.fixture(scope="module")
def trained(base: Path, tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingRun:
    """A run as the papers' authors made it."""
    return run(base, tasks, tmp_path_factory.mktemp("run") / "run", SMALL)


def _weights(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ("model.safetensors", HEAD_FILE)]


def test_the_papers_variant_trains_head_and_body(base: Path, trained: TrainingRun) -> None:
    from safetensors.numpy import load_file

    assert [(row["epoch"], row["step"]) for row in trained.rows] == [(0, 0), (1, 3), (6, 8)]
    assert trained.rows[0]["retention"] == pytest.approx(1.0)
    assert trained.figures == {"held_out": 0, "pairs": 20, "texts": 6}
    before, after = (load_file(f / "model.safetensors") for f in (base, trained.folder))
    moved = [name for name in before if not np.array_equal(before[name], after[name])]
    assert "encoder.layer.0.output.dense.weight" in moved
    head = load_file(trained.folder / HEAD_FILE)
    assert {name: tensor.shape for name, tensor in head.items()} == {
        "weight": (2, 32),
        "bias": (2,),
    }


def test_setfits_own_variant_fits_a_logistic_regression(
    base: Path, tasks: Path, tmp_path: Path
) -> None:
    from safetensors.numpy import load_file

    done = run(base, tasks, tmp_path / "run", FEW)
    assert [row["epoch"] for row in done.rows] == [0, 1]
    assert done.figures["pairs"] == 2 * 12  # 21 of two texts, 12 of them of one class
    head = load_file(done.folder / HEAD_FILE)
    assert (head["weight"].shape, head["bias"].shape) == ((1, 32), (1,))


def test_it_trains_static_encoders(static: Path, tasks: Path, tmp_path: Path) -> None:
    done = run(static, tasks, tmp_path / "run", FEW)
    assert _weights(done.folder)[0] != (static / "model.safetensors").read_bytes()


def test_the_same_seed_gives_the_same_bytes(
    base: Path, tasks: Path, trained: TrainingRun, tmp_path: Path
) -> None:
    again = run(base, tasks, tmp_path / "run", SMALL)
    assert _weights(again.folder) == _weights(trained.folder)
    assert again.rows == trained.rows
    other = replace(SMALL, seed=1)
    third = run(base, tasks, tmp_path / "other", other)
    assert _weights(third.folder) != _weights(trained.folder)


def test_the_folder_is_an_encoder_that_knows_its_base(base: Path, trained: TrainingRun) -> None:
    from sentence_transformers import SentenceTransformer

    record = TrainFile.of(trained.folder)
    assert record is not None
    assert record.content["base"] == str(base)
    assert record.base.prompt == "The "
    model = SentenceTransformer(str(trained.folder), device="cpu")
    assert model.prompts[model.default_prompt_name or ""] == "The "
    stored = read_train_file(trained.folder) or {}
    assert stored["spec"]["recipe"]["batch_size"] == 8
    assert (stored["figures"]["pairs"], stored["finished"]) == (20, True)
    assert not list(trained.folder.rglob("*.pkl"))
    assert not (trained.folder / "checkpoints").exists()
    names = {path.name for path in trained.folder.iterdir()}
    assert {"README.md", "history.csv", "history.svg", "train.json", HEAD_FILE} <= names


def test_the_card_says_how_it_was_trained(trained: TrainingRun) -> None:
    card = (trained.folder / "README.md").read_text(encoding="utf-8")
    assert "setfit (variant papers, " in card
    assert "6 texts, one epoch of cosine similarity loss on 20 sentence pairs" in card
    assert f"Run**: {trained.run}" in card
    assert "polarity_at_4" in card


def test_a_finished_run_is_reused_and_another_spec_refused(
    base: Path, tasks: Path, trained: TrainingRun
) -> None:
    again = run(base, tasks, trained.folder, SMALL)
    assert again.reused
    assert (again.figures, again.rows) == (trained.figures, trained.rows)
    with pytest.raises(
        InputError, match=r"contains another run .* recipe.variant: expected 'setfit', got"
    ):
        run(base, tasks, trained.folder, FEW)


def test_another_run_takes_its_place_if_told_to(base: Path, tasks: Path, tmp_path: Path) -> None:
    run(base, tasks, tmp_path, FEW)
    before = _weights(tmp_path)
    other = SetFit(variant="setfit", samples_per_class=2)
    done = run(base, tasks, tmp_path, other, overwrite=True)
    assert not done.reused
    assert all(new != old for new, old in zip(_weights(tmp_path), before, strict=True))


def test_a_run_that_was_stopped_is_not_taken_for_an_encoder(
    base: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "train_head", stop)
        with pytest.raises(KeyboardInterrupt):
            run(base, tasks, tmp_path / "run", FEW)
    with pytest.raises(InputError, match=r"run the same `polarity-bench train` command again$"):
        TrainFile.of(tmp_path / "run")
    assert not run(base, tasks, tmp_path / "run", FEW).reused


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"variant": "paper"}, "`variant`: unknown value 'paper'; did you mean 'papers'"),
        ({"samples_per_class": 1}, "`samples_per_class` must be at least 2, got 1"),
        ({"pairs": 0}, "`pairs` must be at least 2, got 0"),
        ({"pairs": 7}, "`pairs` must be even, got 7; half of the pairs have equal classes"),
        ({"batch_size": 0}, "`batch_size` must be at least 1, got 0"),
        ({"seed": -1}, "`seed` must be at least 0, got -1"),
    ],
)
def test_a_spec_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SetFit(**given)


def test_a_variant_fills_in_what_is_usual() -> None:
    papers, own = SetFit(), SetFit(variant="setfit")
    assert (papers.samples_per_class, papers.batch_size) == (625, 32)
    assert (own.samples_per_class, own.batch_size) == (8, 16)
    assert SetFit(samples_per_class="all").samples_per_class == "all"
    assert SetFit(samples_per_class=625) == papers


def test_too_few_texts_are_refused(base: Path, tasks: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match="`samples_per_class` 625: mini has only 12 distinct training texts of the class '",
    ):
        run(base, tasks, tmp_path / "run", SetFit())


def test_too_many_texts_for_all_their_pairs_are_refused(
    base: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_TEXTS", 20)
    spec = SetFit(variant="setfit", samples_per_class="all")
    with pytest.raises(InputError, match="pairs of texts, so at most 20 texts are allowed, got 24"):
        run(base, tasks, tmp_path / "run", spec)
    few = SetFit(variant="setfit", labels=22)
    with pytest.raises(InputError, match="got 22; use a smaller `labels`, or the `variant` papers"):
        run(base, tasks, tmp_path / "few", few)


def test_bases_that_cannot_be_trained_are_refused(
    static: Path, base: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="`model` random: a baseline has no weights"):
        run(Path("random"), tasks, tmp_path / "run", SMALL)
    with pytest.raises(InputError, match=r"the static encoder .* use the `variant` setfit"):
        run(static, tasks, tmp_path / "run", SMALL)
    monkeypatch.setattr("sentence_transformers.util.get_device_name", lambda: "mps")
    with pytest.raises(InputError, match="`device` cpu: SetFit always uses mps if available"):
        run(base, tasks, tmp_path / "run", SMALL)
    assert not (tmp_path / "run").exists()


def test_several_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentence_transformers.util.get_device_name", lambda: "cuda:0")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    base: Any = SimpleNamespace(device="cuda:0", model=SimpleNamespace(tokenizer=print))
    with pytest.raises(InputError, match=r"must use one GPU, got 2, .* set CUDA_VISIBLE_DEVICES=0"):
        module.check_base(base, SMALL)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "polarity_bench.errors.find_spec",
        lambda name: None if name == "setfit" else name,
    )
    with pytest.raises(InputError, match=r"needs setfit; .* pip install -e '\.\[setfit\]'"):
        train(Job(SMALL, "minilm", "mini", tmp_path))


def test_rounds_join_each_text_with_its_class_and_another() -> None:
    positions, same = paired_by_rounds(LABELS, None, seed=0)
    assert len(positions) == 40 * len(LABELS)
    assert same.tolist() == [True, False] * (20 * len(LABELS))
    equal = LABELS[positions[:, 0]] == LABELS[positions[:, 1]]
    assert np.array_equal(equal, same)
    assert set(Counter(positions[:, 0].tolist()).values()) == {40}


def test_in_enough_rounds_each_text_meets_every_other_and_itself() -> None:
    positions, _ = paired_by_rounds(LABELS, 100 * len(LABELS), seed=0)
    assert len({tuple(pair) for pair in positions.tolist()}) == len(LABELS) ** 2


def test_rounds_are_cut_to_the_number_asked_for() -> None:
    positions, same = paired_by_rounds(LABELS, 18, seed=3)
    assert (len(positions), int(same.sum())) == (18, 9)
    assert np.array_equal(LABELS[positions[:, 0]] == LABELS[positions[:, 1]], same)
    assert np.array_equal(positions, paired_by_rounds(LABELS, 18, seed=3)[0])


@pytest.mark.parametrize("n_pairs", [None, 6])
def test_all_pairs_are_those_of_setfits_own_sampler(n_pairs: int | None) -> None:
    from polarity_bench.training.recipes.setfit.recipe import silent

    with silent():
        from setfit.sampler import ContrastiveDataset  # type: ignore[import-untyped]

        theirs = list(
            ContrastiveDataset(
                [str(i) for i in range(len(LABELS))],
                LABELS.tolist(),
                multilabel=False,
                max_pairs=-1 if n_pairs is None else n_pairs,
            )
        )
    positions, same = paired_once(LABELS, n_pairs, seed=0)
    assert same.tolist() == [pair["label"] == 1.0 for pair in theirs]
    assert np.array_equal(LABELS[positions[:, 0]] == LABELS[positions[:, 1]], same)
    if n_pairs is None:
        counts = Counter(map(tuple, positions.tolist()))
        expected = Counter((int(p["sentence_1"]), int(p["sentence_2"])) for p in theirs)
        assert set(counts) == set(expected)
        assert sorted(counts.values()) == sorted(expected.values())


def test_the_command_trains_and_keeps_stdout_for_results(
    base: Path,
    tasks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = f"train --recipe setfit -m {base} -t mini --variant setfit --samples-per-class 2"
    words += f" --pairs 8 --json --no-store -o {tmp_path / 'run'} --task-dir {tasks}"
    done = call(monkeypatch, capsys, *words.split())
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert (said["figures"], said["reused"]) == ({"held_out": 0, "pairs": 8, "texts": 4}, False)
    assert "Running training" not in done.err


def test_the_command_wants_a_number_of_samples(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["train", "--recipe", "setfit", "--samples-per-class", "few", "-o", str(tmp_path)]
    done = call(monkeypatch, capsys, *words)
    assert done.code == 2
    assert "--samples-per-class must be an integer or 'all', got 'few'" in done.err


def test_labels_draw_the_rows_of_axis(base: Path, tasks: Path, tmp_path: Path) -> None:
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.tasks.catalogue import load_tasks
    from polarity_bench.training.data import load_training_data
    from polarity_bench.training.recipes.axis.recipe import Axis

    access = DataAccess(tasks)
    data = load_training_data(load_tasks(tasks)["mini"], access, held_out=0, seed=0)
    context: Any = SimpleNamespace(data=data)
    for seed in (0, 1):
        few = SetFit(variant="setfit", labels=4, seed=seed)
        assert few.samples_per_class == "all"
        drawn = few.read(context).examples
        same = Axis(labels=4, seed=seed).read(context).examples.labelled
        assert sorted(zip(drawn.texts, drawn.labels.tolist(), strict=True)) == sorted(
            zip(same.texts, same.labels.tolist(), strict=True)
        )
    assert SetFit(labels=4, samples_per_class="all") == SetFit(labels=4)
    with pytest.raises(InputError, match="`labels` and `samples_per_class` exclude each other"):
        SetFit(labels=4, samples_per_class=2)
