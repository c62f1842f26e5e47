"""The recipe axis with a tower that is another encoder, and with a teacher's soft labels."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import (
    BoW,
    Dense,
    StaticEmbedding,
)
from standins import QUERIES, SOURCES, Bench, tiny_encoder, word_tokenizer, write_task
from standins.training import HERE, OFFLINE, SMALL, equal, run, weights

from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.axis import SCALE
from polarity_bench.encoders.load import (
    SentenceTransformerEncoder,
    digest_of_model,
    load_encoder,
)
from polarity_bench.encoders.steered import at_strength
from polarity_bench.errors import InputError
from polarity_bench.evaluation.contamination import TrainingTexts
from polarity_bench.evaluation.one_task import training_facts
from polarity_bench.training.loops import descent
from polarity_bench.training.recipes.axis import probe
from polarity_bench.training.recipes.axis.probe import logistic
from polarity_bench.training.recipes.axis.recipe import Axis
from polarity_bench.training.recipes.axis.teacher import read_unlabelled
from polarity_bench.training.recipes.base import Recipe
from polarity_bench.training.train import TrainingRun

TEXTS = [text for text, _ in SOURCES]
LABELS = np.array([int(label) for _, label in SOURCES])
MORE = ["A warm and kind day.", "A cold and dull day.", "The x was swift.", "The x was harsh."]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    write_task(folder)
    return folder


@pytest.fixture(scope="module")
def tower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an encoder whose tokenizer, width and limit differ from those of the base."""
    words = sorted({word.strip(".,").lower() for text in TEXTS for word in text.split()})[::-1]
    return tiny_encoder(tmp_path_factory.mktemp("tower") / "tower", words, width=24, max_tokens=9)


def with_tower(tower: Path, **options: Any) -> Axis:
    return Axis(head="tuned", tower=str(tower), epochs=20, batch_size=12, rate=3e-3, **options)


@pytest.fixture(scope="module")
def towered(
    tiny_model: Path, tower: Path, tasks: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return run(
        tiny_model, tasks, tmp_path_factory.mktemp("runs") / "axis", with_tower(tower)
    ).folder


def plain(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)


def static_encoder(folder: Path) -> Path:
    words = sorted({word.strip(".,").lower() for text in TEXTS for word in text.split()})
    tokenizer = word_tokenizer(words)
    drawn = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), 16))
    static = StaticEmbedding(tokenizer, embedding_weights=drawn.astype(np.float32))
    model = SentenceTransformer(modules=[static], device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


@pytest.mark.parametrize("kind", ["transformer", "static"])
def test_a_tower_moves_the_coordinate_and_no_bit_of_the_base(
    kind: str, tiny_model: Path, tower: Path, towered: Path, tasks: Path, tmp_path: Path
) -> None:
    base = tiny_model
    if kind == "static":
        base = static_encoder(tmp_path / "static")
        towered = run(base, tasks, tmp_path / "axis", with_tower(tower)).folder
    expected = SentenceTransformer(str(base), device="cpu")
    expected.append(Normalize())
    found = plain(towered).encode_document(TEXTS)
    assert np.array_equal(found[:, 2:], expected.encode(TEXTS))
    assert np.mean((found[:, 0] > 0) == LABELS) > 0.9
    assert equal(weights(towered), weights(base)) or kind == "static"
    # The coordinate is that of the tower alone, by its own tokenizer and limit.
    axis: Any = plain(towered)[-1]
    alone = SentenceTransformer(modules=list(axis.tower.values()), device="cpu").encode(TEXTS)
    logits = alone @ axis.head.weight.detach().numpy().T + axis.head.bias.detach().numpy()
    expected_place = SCALE * np.tanh((logits[:, 1] - logits[:, 0]) / 2)
    assert_allclose(found[:, 0], expected_place, atol=1e-6)
    trained = axis.tower["tower"].auto_model.state_dict()
    before: Any = SentenceTransformer(str(tower), device="cpu")[0]
    assert not torch.equal(
        trained["encoder.layer.0.output.dense.weight"],
        before.auto_model.state_dict()["encoder.layer.0.output.dense.weight"],
    )


def test_a_tower_reads_every_batch_and_no_prompt(towered: Path) -> None:
    encoder = load_encoder(str(towered))
    assert isinstance(encoder, SentenceTransformerEncoder)
    batches = np.concatenate([encoder.encode(TEXTS[:9]), encoder.encode(TEXTS[9:])])
    model = plain(towered)
    assert_allclose(batches, model.encode_document(TEXTS), atol=1e-6)
    prompted = model.encode_document(TEXTS, prompt="cold cruel ")
    assert np.array_equal(prompted[:, 0], model.encode_document(TEXTS)[:, 0])
    assert not np.allclose(prompted[:, 2:], model.encode_document(TEXTS)[:, 2:])
    embedded = Embedder().embed(at_strength(encoder, -0.5), TEXTS)
    ours = embedded.queries(TEXTS).vectors @ embedded.sources(TEXTS).vectors.T
    theirs = model.encode_query(TEXTS, strength=-0.5) @ model.encode_document(TEXTS).T
    assert_allclose(ours, theirs, atol=1e-6)


def test_a_tower_reads_as_many_tokens_as_the_digest_says(towered: Path) -> None:
    long = "The x was warm. " * 5
    axis: Any = (model := plain(towered))[-1]
    whole = model.encode_document([long])[0]
    assert_allclose(model.encode_document([long + "Bad."])[0, 0], whole[0], atol=1e-6)
    axis.tower["tower"].max_seq_length = 30
    assert_allclose(model.encode_document([long])[0], whole, atol=1e-6)
    axis.max_tokens = 30
    assert abs(model.encode_document([long])[0, 0] - whole[0]) > 1e-6


def test_digests_cover_the_tower_and_the_folder_keeps_them(
    tiny_model: Path, tower: Path, towered: Path, tasks: Path, tmp_path: Path
) -> None:
    encoder = load_encoder(str(towered))
    assert isinstance(encoder, SentenceTransformerEncoder)
    again = SentenceTransformerEncoder(plain(towered), name="again")
    assert again.id.weights == encoder.id.weights
    axis: Any = again.model[-1]
    assert axis.max_tokens == 9  # of the tower, not of the base
    axis.max_tokens = 8
    assert digest_of_model(again.model) != encoder.id.weights
    axis.max_tokens = 9
    with torch.no_grad():
        axis.tower["tower"].auto_model.embeddings.word_embeddings.weight[0] += 1
    assert digest_of_model(again.model) != encoder.id.weights
    # The run is identified by the tower's content, not by its name.
    other = tiny_encoder(tmp_path / "other", n_layers=1)
    copy = tmp_path / "copy"
    SentenceTransformer(str(tower), device="cpu").save_pretrained(
        str(copy), create_model_card=False
    )
    assert run(tiny_model, tasks, towered, with_tower(copy)).reused
    for recipe in (with_tower(other), replace(with_tower(tower), tower=None)):
        with pytest.raises(InputError, match="another run"):
            run(tiny_model, tasks, towered, recipe)


def test_the_card_says_what_the_tower_is_and_what_encoding_costs(towered: Path) -> None:
    card = (towered / "README.md").read_text(encoding="utf-8")
    model = plain(towered)
    axis: Any = model[-1]
    n_tower = sum(each.numel() for each in axis.tower.parameters())
    n_base = sum(each.numel() for each in model[0].parameters())
    assert (
        f"- **Encoding**: two forward passes per text: base {n_base:,} parameters, "
        f"tower {n_tower:,} parameters"
    ) in card
    assert "- **Tower**: tower (digest " in card
    assert "licence: not stated), fine-tuned; it reads the text without a prompt" in card
    assert "strength=1.0)" in card


def kill_and_resume(steps: int, monkeypatch: pytest.MonkeyPatch, train: Any, to: Path) -> None:
    write = descent.Checkpoints.write

    def stop(self: descent.Checkpoints, step: int, tensors: object) -> None:
        write(self, step, tensors)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(descent.Checkpoints.__init__, "__defaults__", (steps,))
    with monkeypatch.context() as patch:
        patch.setattr(descent.Checkpoints, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            train(to)
    train(to)


@pytest.mark.parametrize("teacher", [False, True], ids=["labels", "teacher"])
def test_a_killed_run_with_a_tower_ends_with_the_same_bytes(
    teacher: bool,
    tiny_model: Path,
    tower: Path,
    towered: Path,
    tasks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "more.txt"
    file.write_text("\n".join(MORE), encoding="utf-8")
    options: dict[str, Any] = {"distil_from": str(towered), "unlabelled": file}
    recipe = with_tower(tower, **(options if teacher else {}))

    def train(to: Path) -> None:
        run(tiny_model, tasks, to, recipe)

    train(tmp_path / "whole")
    kill_and_resume(25, monkeypatch, train, tmp_path / "axis")
    files = sorted((tmp_path / "whole").rglob("*.safetensors"))
    assert len(files) == 3
    for each in files:
        other = tmp_path / "axis" / each.relative_to(tmp_path / "whole")
        assert other.read_bytes() == each.read_bytes()


@pytest.mark.parametrize("head", ["linear", "tuned", "shared"])
def test_a_teacher_teaches_every_head(
    head: str, tiny_model: Path, towered: Path, tasks: Path, tmp_path: Path
) -> None:
    """The labels are of no use: the teacher's coordinates are turned around."""
    turned = plain(towered)
    axis: Any = turned[-1]
    with torch.no_grad():
        axis.head.weight.neg_()
        axis.head.bias.neg_()
    turned.save_pretrained(str(tmp_path / "turned"), create_model_card=False)
    trained: dict[str, Any] = {"epochs": 20, "batch_size": 12, "rate": 3e-3}
    options = {"linear": {}, "tuned": trained, "shared": trained | {"keep": 0.0}}[head]
    recipe = Axis(head=head, distil_from=str(tmp_path / "turned"), **options)  # type: ignore[arg-type]
    done = run(tiny_model, tasks, tmp_path / "axis", recipe)
    found = plain(done.folder).encode_document(TEXTS)
    if head == "linear":  # the vectors of random weights say little of the class
        assert np.corrcoef(found[:, 0], LABELS)[0, 1] < -0.3
    else:
        assert np.mean((found[:, 0] < 0) == LABELS) > 0.9
    card = (done.folder / "README.md").read_text(encoding="utf-8")
    assert "- **Labels**: class probabilities of turned" in card
    assert run(tiny_model, tasks, tmp_path / "axis", recipe).reused
    with pytest.raises(InputError, match="another run"):
        run(tiny_model, tasks, tmp_path / "axis", replace(recipe, distil_from=str(towered)))


def test_a_teacher_at_strength_0_teaches_too(
    tiny_model: Path, towered: Path, tasks: Path, tmp_path: Path
) -> None:
    still = plain(towered)
    axis: Any = still[-1]
    axis.strength = 0.0
    still.save_pretrained(str(tmp_path / "still"), create_model_card=False)
    found = [
        vectors_of(
            run(tiny_model, tasks, tmp_path / teacher.name[:2], Axis(distil_from=str(teacher)))
        )
        for teacher in (towered, tmp_path / "still")
    ]
    assert np.array_equal(found[0], found[1])


def vectors_of(done: TrainingRun) -> np.ndarray:
    return plain(done.folder).encode_document(TEXTS)


def test_a_probe_of_soft_labels_minimises_the_cross_entropy_to_them() -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((60, 4)).astype(np.float32)
    logits = x @ generator.standard_normal((4, 3))
    soft = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = logistic(x, soft.argmax(axis=1), 0, soft.astype(np.float32))

    def loss(given: np.ndarray) -> float:
        weight, bias = given[:12].reshape(3, 4), given[12:]
        total = 0.0
        for vector, shares in zip(x.astype(np.float64), soft, strict=True):
            scores = weight @ vector + bias
            total += np.log(np.exp(scores).sum()) - float(shares @ scores)
        return float(found.inverse_penalty * total + (weight**2).sum() / 2)

    start = np.concatenate([found.weight.ravel(), found.bias])
    best = minimize(loss, start * 0.9, method="L-BFGS-B").fun
    assert loss(start) == pytest.approx(best, rel=1e-4)
    hard = np.eye(3, dtype=np.float32)[soft.argmax(axis=1)]
    of_hard, of_labels = (
        logistic(x, hard.argmax(axis=1), 0, hard),
        logistic(x, hard.argmax(axis=1), 0),
    )
    assert_allclose(of_hard.weight, of_labels.weight, atol=1e-3)
    assert of_hard.log_loss == pytest.approx(of_labels.log_loss, rel=1e-3)


def test_unlabelled_texts_are_learnt_without_those_that_are_evaluated(
    tiny_model: Path, towered: Path, tasks: Path, tmp_path: Path
) -> None:
    file = tmp_path / "more.txt"
    query, part = QUERIES[0][0].upper(), "a calm and solid answer"
    lines = [
        *MORE,
        "",
        f"  {MORE[0]} ",
        query,
        part,
        f"They said: {QUERIES[5][0]} Indeed.",
        TEXTS[0],
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    recipe = Axis(distil_from=str(towered), unlabelled=file)
    done = run(tiny_model, tasks, tmp_path / "axis", recipe)
    numbers = {"held_out": 0, "texts": 28, "unlabelled": 4, "left_out": 3}
    assert numbers.items() < done.figures.items()
    card = (done.folder / "README.md").read_text(encoding="utf-8")
    assert (
        "- **Unlabelled texts**: 4; 3 more are related to queries or held-out rows, and left out"
    ) in card
    seen = TrainingTexts.read(done.folder)
    assert seen is not None
    assert seen == TrainingTexts.of([*TEXTS, *MORE])
    file.write_text("\n".join(MORE[:3]), encoding="utf-8")
    with pytest.raises(InputError, match="another run"):
        run(tiny_model, tasks, tmp_path / "axis", recipe)


def test_what_a_teacher_and_a_tower_were_trained_on_counts_as_seen(
    tiny_model: Path, towered: Path, tower: Path, tasks: Path, tmp_path: Path
) -> None:
    copies: dict[str, Path] = {}
    for name, folder in (("teacher", towered), ("tower", tower)):
        copies[name] = tmp_path / name
        plain(folder).save_pretrained(str(copies[name]), create_model_card=False)
        known = TrainingTexts.of([f"Only the {name} has seen it."])
        (copies[name] / "training_texts.json.gz").write_bytes(known.to_bytes())
    recipe = with_tower(copies["tower"], distil_from=str(copies["teacher"]))
    done = run(tiny_model, tasks, tmp_path / "axis", replace(recipe, epochs=2))
    expected = [*TEXTS, "Only the teacher has seen it.", "Only the tower has seen it."]
    assert TrainingTexts.read(done.folder) == TrainingTexts.of(expected)


@pytest.mark.parametrize("role", ["distil_from", "tower", "example_encoder"])
def test_a_run_does_not_replace_the_encoder_that_it_reads(
    role: str, tiny_model: Path, towered: Path, tower: Path, tasks: Path, tmp_path: Path
) -> None:
    """Before, the teacher was lost, and what it was trained on did not count as seen."""
    read = shutil.copytree(towered if role == "distil_from" else tower, tmp_path / "read")
    recipes: dict[str, Recipe[Any]] = {
        "distil_from": Axis(distil_from=str(read)),
        "tower": with_tower(read),
        "example_encoder": replace(SMALL, example_encoder=str(read)),
    }
    said = f"`output` .*: the folder contains the `{role}` .*read; use another folder"
    for output in (read, tmp_path):
        with pytest.raises(InputError, match=said):
            run(tiny_model, tasks, output, recipes[role], overwrite=True)
    assert read.is_dir()


def test_runs_with_another_teacher_or_other_texts_are_no_seeds_of_one_method(
    tiny_model: Path, towered: Path, tasks: Path, tmp_path: Path
) -> None:
    """Before, a board averaged runs with different towers or teachers as seeds of one method."""
    file, other = tmp_path / "more.txt", tmp_path / "other.txt"
    file.write_text("\n".join(MORE))
    other.write_text("\n".join([*MORE[:3], "The x was dull."]))
    taught = {"distil_from": str(towered)}
    given: list[dict[str, Any]] = [{}, taught]
    given += [taught | {"unlabelled": each} for each in (file, other)]
    found = []
    for seed, options in enumerate([*given, *given]):
        done = run(tiny_model, tasks, tmp_path / str(seed), Axis(seed=seed, **options))
        _, facts = training_facts(load_encoder(str(done.folder)))
        assert facts is not None
        assert facts.pop("seed") == seed
        found.append(facts)
    assert found[:4] == found[4:]
    assert found[0].keys() == {"recipe", "base", "task"}
    teacher = f"{towered.name} ({load_encoder(str(towered)).id.digest})"
    assert [each.get("encoders") for each in found[:3]] == [None, *[{"distil_from": teacher}] * 2]
    assert len({each.get("unlabelled") for each in found[1:4]}) == 3


def test_runs_on_other_tasks_are_no_seeds_of_one_method(
    tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    """Before, a board averaged runs on different tasks as seeds of one method."""
    other = (tasks / "mini.toml").read_text().replace('name = "mini"', 'name = "other"')
    other = other.replace("MiniPolarityRetrieval", "OtherPolarityRetrieval")
    (tasks / "other.toml").write_text(other.replace("k = 4", "k = 2"))
    found = []
    for seed, task in enumerate(["mini", "mini", "other"]):
        done = run(tiny_model, tasks, tmp_path / str(seed), Axis(seed=seed), task=task)
        _, facts = training_facts(load_encoder(str(done.folder)))
        assert facts is not None
        found.append(facts["task"])
    assert found[0] == found[1] != found[2]


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    file = tmp_path / "more.txt"
    file.write_bytes(b"\xef\xbb\xbfA calm lake.\r\nA cold soup.\r\n")
    assert read_unlabelled(file) == ["A calm lake.", "A cold soup."]


def test_who_was_trained_on_held_out_rows_teaches_nobody(
    tiny_model: Path, tower: Path, towered: Path, tasks: Path, tmp_path: Path
) -> None:
    said = r"`distil_from` .*axis: the encoder was trained on 6 of the 6 held-out rows; train it"
    with pytest.raises(InputError, match=said):
        run(tiny_model, tasks, tmp_path / "axis", Axis(distil_from=str(towered), held_out=6))
    teacher = run(tiny_model, tasks, tmp_path / "teacher", Axis(held_out=6, seed=3)).folder
    again = Axis(distil_from=str(teacher), held_out=6)
    assert run(tiny_model, tasks, tmp_path / "axis", again).figures["held_out"] == 6
    (teacher / "training_texts.json.gz").unlink()
    with pytest.raises(InputError, match=r"`distil_from` .*teacher: rows that the encoder has not"):
        run(tiny_model, tasks, tmp_path / "other", again)


def test_held_out_rows_are_scored_and_not_learnt_and_the_same_for_all_seeds(
    tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    trained: list[TrainingTexts | None] = []
    for seed in (0, 1):
        done = run(tiny_model, tasks, tmp_path / f"{seed}", Axis(held_out=6, seed=seed))
        assert done.figures["held_out"] == 6
        assert int(done.figures["texts"]) <= 18
        assert "held_out_joint" in done.rows[-1]
        trained.append(TrainingTexts.read(done.folder))
    assert trained[0] == trained[1]


def test_a_sweep_watches_every_other_input_and_counts_the_texts(
    tower: Path, towered: Path, tmp_path: Path
) -> None:
    file = tmp_path / "more.txt"
    file.write_text("\n".join(MORE), encoding="utf-8")
    recipe = with_tower(tower, distil_from=str(towered), unlabelled=file)
    names = [f"`tower` {tower}", f"`distil_from` {towered}", f"`unlabelled` {file}"]
    inputs = recipe.additional_inputs(HERE, None, OFFLINE)
    assert sorted(inputs) == sorted(names)
    before = [inputs[name]() for name in names]
    assert before[:2] == [load_encoder(str(each)).id.digest for each in (tower, towered)]
    assert recipe.n_trained_on(24, HERE) == 20 * (24 + 4)
    file.write_text("\n".join(MORE[1:]), encoding="utf-8")
    assert inputs[names[2]]() != before[2]
    assert Axis().additional_inputs(HERE, None, OFFLINE) == {}


def test_later_parameters_leave_earlier_identities_as_they_were() -> None:
    later = {"tower", "distil_from", "unlabelled", "held_out"}
    assert not later & Axis(head="tuned").to_dict().keys()
    given = Axis(head="tuned", tower="a", distil_from="b", unlabelled=Path("c"), held_out=5)
    assert later <= given.to_dict().keys()
    assert Axis.from_dict(given.to_dict()) == given


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ({"tower": "x"}, "`tower` x has no effect with the head 'linear'; omit `tower`, or"),
        ({"head": "shared", "tower": "x"}, "`tower` x has no effect with the head 'shared'"),
        ({"unlabelled": Path("x")}, "`unlabelled` x has no effect without a teacher; omit"),
        (
            {"distil_from": "x", "probe": "fisher"},
            "`distil_from` x has no effect with the `probe` fisher; omit one of them",
        ),
        ({"held_out": -1}, "`held_out` must be at least 0"),
    ],
    ids=["linear", "shared", "no teacher", "fisher", "held out"],
)
def test_options_without_effect_are_refused(recipe: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Axis(**recipe)


def saved(folder: Path, modules: Sequence[Any]) -> Path:
    model = SentenceTransformer(modules=list(modules), device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


def test_encoders_that_are_no_tower_and_no_base_of_one_are_refused(
    tiny_model: Path, tower: Path, towered: Path, tasks: Path, tmp_path: Path
) -> None:
    static = static_encoder(tmp_path / "static")
    cut = SentenceTransformer(str(tower), device="cpu", truncate_dim=8)
    cut.save_pretrained(str(tmp_path / "cut"), create_model_card=False)
    for name, said in (
        ("random", "`tower` random: expected a transformer to fine-tune, got a baseline; use"),
        (str(towered), "expected a transformer to fine-tune, got an encoder with an axis"),
        (str(static), "`tower` .*static: a classifier needs a transformer with pooling"),
        (str(tmp_path / "cut"), "`tower` .*cut: the encoder truncates its vectors to 8"),
        (str(tmp_path / "none"), "no such folder"),
    ):
        with pytest.raises(InputError, match=said):
            run(tiny_model, tasks, tmp_path / "axis", Axis(head="tuned", tower=name))
    bow = saved(tmp_path / "bow", [BoW(["warm", "cold", "kind"]), Dense(3, 4)])
    with pytest.raises(
        InputError,
        match=r"`model` bow: with a `tower`, the base must begin with a Transformer .* BoW",
    ):
        run(bow, tasks, tmp_path / "axis", with_tower(tower))
    assert not (tmp_path / "axis").exists()


def test_what_is_no_teacher_is_refused(
    tiny_model: Path, towered: Path, tasks: Path, tmp_path: Path
) -> None:
    other = plain(towered)
    axis: Any = other[-1]
    axis.classes = ["cold", "warm"]
    other.save_pretrained(str(tmp_path / "other"), create_model_card=False)
    for name, said in (
        (str(tiny_model), "expected an encoder with an axis, but tiny has none; give the folder"),
        ("random", "`distil_from` random: expected an encoder with an axis"),
        (
            str(tmp_path / "other"),
            "other: expected an axis of the classes bad, good, got cold, warm; use a teacher that",
        ),
    ):
        with pytest.raises(InputError, match=said):
            run(tiny_model, tasks, tmp_path / "axis", Axis(distil_from=name))
    assert not (tmp_path / "axis").exists()


@pytest.mark.parametrize(("bias", "most_rows", "n_rarest"), [(50.0, 20_000, "0"), (0.0, 1, r"\d+")])
def test_a_teacher_of_one_class_is_refused(
    bias: float,
    most_rows: int,
    n_rarest: str,
    tiny_model: Path,
    towered: Path,
    tasks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, it taught nothing, or the folds warned that a class has too few texts."""
    constant = plain(towered)
    axis: Any = constant[-1]
    with torch.no_grad():
        axis.head.bias += torch.tensor([0.0, bias])
    constant.save_pretrained(str(tmp_path / "constant"), create_model_card=False)
    monkeypatch.setattr(probe, "MOST_ROWS", most_rows)
    said = rf"constant: the teacher gives {n_rarest} of 24 texts the class '\w+', which is too few"
    with pytest.raises(InputError, match=said):
        run(tiny_model, tasks, tmp_path / "axis", Axis(distil_from=str(tmp_path / "constant")))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\n \n", "`unlabelled` .*more.txt: the file has no texts; write one text per line"),
        (b"\xff\xfe", "`unlabelled` .*more.txt: cannot be read: .*; give a text file in UTF-8"),
        (
            None,
            "`unlabelled` .*more.txt: cannot be read: No such file or directory; check",
        ),
    ],
    ids=["empty", "not UTF-8", "missing"],
)
def test_what_is_no_file_of_texts_is_refused(
    content: bytes | None, said: str, tiny_model: Path, towered: Path, tasks: Path, tmp_path: Path
) -> None:
    file = tmp_path / "more.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=said):
        run(
            tiny_model,
            tasks,
            tmp_path / "axis",
            Axis(distil_from=str(towered), unlabelled=file),
        )
    assert not (tmp_path / "axis").exists()


def test_the_command_trains_a_tower_and_scores_it_at_strengths(
    bench: Bench, tiny_model: Path, tower: Path, tasks: Path
) -> None:
    common = ("--task-dir", tasks, "--no-store")
    tuned = ("--head", "tuned", "--tower", tower, "--epochs", "20", "--batch-size", "12")
    train = ("train", "axis", "--model", tiny_model, "--task", "mini", "-o", "axis")
    done = bench(*train, *tuned, "--rate", "3e-3", *common)
    assert done.code == 0, done.err
    words = ("run", "--model", "axis", "--tasks", "mini", *common)
    done = bench(*words, "--strength", "0,1", "--json")
    assert done.code == 0, done.err
    results = json.loads(done.out)["results"]
    (base,) = json.loads(bench("run", "-m", tiny_model, "-t", "mini", *common, "--json").out)[
        "results"
    ]
    polarity = [result["scores"]["polarity_at_4"] for result in (base, *results)]
    assert polarity[0] == pytest.approx(polarity[1], abs=1e-7)
    assert polarity[1] < polarity[2]
    refused = bench(*train, "--tower", tower, *common)
    assert refused.code == 2
    assert "--tower" in refused.err
