"""The recipe axis: every head, what it is learnt from, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from standins import QUERIES, SOURCES, Bench, tiny_encoder, write_task
from standins.training import equal, run, weights

from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.axis import SCALE
from polarity_bench.encoders.load import (
    EncoderOptions,
    SentenceTransformerEncoder,
    load_encoder,
)
from polarity_bench.encoders.probe import TEXTS as PROBE
from polarity_bench.encoders.reference_encoder import find_base
from polarity_bench.encoders.steered import at_strength
from polarity_bench.errors import InputError
from polarity_bench.training.loops import classifier_training, descent
from polarity_bench.training.recipes.axis import probe as probes
from polarity_bench.training.recipes.axis.probe import fisher_weights, logistic, mean_difference
from polarity_bench.training.recipes.axis.recipe import Axis
from polarity_bench.training.recipes.scl.pooling import repool

TUNED = Axis(head="tuned", epochs=20, batch_size=12, rate=3e-3)
SHARED = Axis(head="shared", epochs=20, batch_size=12, rate=3e-3, keep=1.0)
TEXTS = [text for text, _ in SOURCES]
LABELS = np.array([int(label) for _, label in SOURCES])


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    write_task(folder)
    return folder


def vectors_of(folder: Path) -> np.ndarray:
    model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)
    return model.encode_document(TEXTS)


def normed(folder: Path) -> np.ndarray:
    model = SentenceTransformer(str(folder), device="cpu")
    return model.encode(TEXTS, normalize_embeddings=True)


def blobs(n: int = 300, d: int = 5, n_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    labels = np.arange(n) % n_classes
    centres = generator.standard_normal((n_classes, d))
    vectors = centres[labels] + generator.standard_normal((n, d))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), labels


def log_loss(weight: np.ndarray, bias: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    logits = x.astype(np.float64) @ weight.T + bias
    of_label = logits[np.arange(len(y)), y]
    return float(np.mean(np.log(np.exp(logits).sum(axis=1)) - of_label))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_logistic_probe_is_the_regression_of_its_penalty(n_classes: int) -> None:
    x, y = blobs(n_classes=n_classes)
    found = logistic(x, y, seed=1)
    d = x.shape[1]

    def penalised(given: np.ndarray) -> float:
        weight, bias = given[: n_classes * d].reshape(n_classes, d), given[n_classes * d :]
        differences = weight[1] - weight[0] if n_classes == 2 else weight
        norm = (differences**2).sum()
        return float(found.inverse_penalty * len(y) * log_loss(weight, bias, x, y) + norm / 2)

    ours = penalised(np.concatenate([found.weight.ravel(), found.bias]))
    start = np.concatenate([found.weight.ravel(), found.bias]) * 0.9
    best = minimize(penalised, start, method="L-BFGS-B").fun
    assert ours == pytest.approx(best, rel=1e-4)
    assert found.weight.shape == (n_classes, d)


def test_a_class_too_rare_for_a_sample_is_in_every_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of 303 rows: a sample of 30 would have one row, so two folds would lack the class."""
    monkeypatch.setattr(probes, "MOST_ROWS", 30)
    x, _ = blobs(303, n_classes=2)
    found = logistic(x, (np.arange(303) % 101 == 0).astype(np.int64), seed=0)
    assert np.isfinite(found.log_loss)


def test_the_mean_difference_looks_along_it_and_fits_the_labels_best() -> None:
    x, y = blobs(n_classes=2)
    found = mean_difference(x, y)
    difference = x[y == 1].mean(axis=0) - x[y == 0].mean(axis=0)
    direction = found.weight[1] - found.weight[0]
    cosine = direction @ difference / np.linalg.norm(direction) / np.linalg.norm(difference)
    assert cosine == pytest.approx(1, abs=1e-6)
    assert found.log_loss == pytest.approx(log_loss(found.weight, found.bias, x, y))
    for scale, shift in ((0.9, 0), (1.1, 0), (1, 0.1), (1, -0.1)):
        moved = log_loss(scale * found.weight, found.bias + np.array([0, shift]), x, y)
        assert moved > found.log_loss


def test_directions_are_orthonormal_and_hold_every_difference_of_classes() -> None:
    x, y = blobs()
    found = logistic(x, y, 0)
    basis = found.directions
    assert_allclose(basis @ basis.T, np.eye(2), atol=1e-9)
    for other in (1, 2):
        difference = found.weight[other] - found.weight[0]
        assert_allclose(basis.T @ (basis @ difference), difference, atol=1e-9)


def test_fisher_is_the_variance_between_over_that_within() -> None:
    x, y = blobs(60)
    expected = []
    for column in x.astype(np.float64).T:
        groups = [column[y == c] for c in range(3)]
        between = sum(len(g) / 60 * (g.mean() - column.mean()) ** 2 for g in groups)
        within = sum(len(g) / 60 * g.var() for g in groups)
        expected.append(between / within)
    assert_allclose(fisher_weights(x, y), np.array(expected) / np.mean(expected))


def test_a_linear_axis_keeps_the_base_and_reads_the_class_off_it(
    tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    done = run(tiny_model, tasks, tmp_path / "axis", Axis())
    found, base = vectors_of(done.folder), normed(tiny_model)
    assert_allclose(found[:, 2:], base, atol=1e-6)
    probe = logistic(base, LABELS, 0)
    logit = base @ (probe.weight[1] - probe.weight[0]) + probe.bias[1] - probe.bias[0]
    assert_allclose(found[:, 0] / SCALE, np.tanh(logit / 2), atol=1e-3)
    assert equal(weights(done.folder), weights(tiny_model))
    encoder = load_encoder(str(done.folder))
    assert (encoder.id.similarity, encoder.id.axis, encoder.id.strength) == ("dot", 1, 1.0)
    named = find_base(encoder)
    assert named is not None
    assert named.encoder.name == "tiny"
    assert isinstance(encoder, SentenceTransformerEncoder)
    assert encoder.base is not None
    assert encoder.base.id == load_encoder(str(tiny_model)).id  # both share their stored vectors
    assert done.rows[0]["retention"] == pytest.approx(1)
    card = (done.folder / "README.md").read_text(encoding="utf-8")
    assert "strength=1.0)" in card
    weak = run(tiny_model, tasks, tmp_path / "weak", Axis(strength=0.25))
    assert "strength=0.25)" in (weak.folder / "README.md").read_text(encoding="utf-8")
    assert run(tiny_model, tasks, tmp_path / "axis", Axis()).reused


@pytest.mark.parametrize("base", ["pooled", "normalised", "dot"])
def test_a_linear_axis_is_scored_on_the_vectors_of_its_base(
    bench: Bench,
    tiny_model: Path,
    tasks: Path,
    tmp_path: Path,
    base: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu")
    if base != "pooled":
        model.append(Normalize())
    model.similarity_fn_name = "dot" if base == "dot" else "cosine"
    model.save_pretrained(str(tmp_path / "base"), create_model_card=False)
    encoded: list[str] = []
    tokenize = SentenceTransformerEncoder.tokenize

    def counted(encoder: SentenceTransformerEncoder, texts: Sequence[str]) -> dict[str, Any]:
        encoded.extend(text for text in texts if text not in PROBE)  # without the probes
        return tokenize(encoder, texts)

    monkeypatch.setattr(SentenceTransformerEncoder, "tokenize", counted)
    rows, counts = [], []
    for store in (True, False):
        encoded.clear()
        to = tmp_path / f"axis-{store}"
        rows.append(run(tmp_path / "base", tasks, to, Axis(), store=store).rows)
        counts.append(len(encoded))
    assert rows[0] == rows[1]
    assert counts[0] == len(set(encoded)) < counts[1]
    encoded.clear()
    words = ("run", "--model", "axis-True", "--tasks", "mini", "--task-dir", tasks, "--no-store")
    done = bench(*words)
    assert done.code == 0, done.err
    assert counts[0] == len(encoded)


def test_both_sides_are_given_the_prompt_that_it_was_trained_with(
    tasks: Path, tmp_path: Path
) -> None:
    declared = {"query": "cold ", "document": "slow "}
    base = tiny_encoder(tmp_path / "base", prompts=declared)
    for prompt in ("warm ", ""):
        options = EncoderOptions(offline=True, prompt=prompt)
        done = run(base, tasks, tmp_path / f"axis-{prompt}", Axis(), options=options)
        encoder = load_encoder(str(done.folder))
        assert isinstance(encoder, SentenceTransformerEncoder)
        embedded = Embedder().embed(at_strength(encoder, -0.5), TEXTS)
        model = encoder.model
        theirs = model.encode_query(TEXTS, strength=-0.5) @ model.encode_document(TEXTS).T
        ours = embedded.queries(TEXTS).vectors @ embedded.sources(TEXTS).vectors.T
        assert_allclose(theirs, ours, atol=1e-6)


def test_a_base_is_refused_that_would_not_rank_so_at_strength_0(
    tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu", similarity_fn_name="dot")
    model.save_pretrained(str(tmp_path / "dot"), create_model_card=False)
    with pytest.raises(InputError, match="`model` dot: the base ranks by inner products"):
        run(tmp_path / "dot", tasks, tmp_path / "axis", Axis())
    model.append(Normalize())
    model.save_pretrained(str(tmp_path / "unit"), create_model_card=False)
    run(tmp_path / "unit", tasks, tmp_path / "axis", Axis())
    with pytest.raises(
        InputError, match="`model` axis: the base ranks by inner products of vectors that are not"
    ):
        run(tmp_path / "axis", tasks, tmp_path / "again", Axis())


def test_a_base_is_refused_whose_vectors_are_cut(
    tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu", truncate_dim=16)
    model.save_pretrained(str(tmp_path / "short"), create_model_card=False)
    for recipe in (Axis(), TUNED):
        with pytest.raises(InputError, match="`model` short: the encoder has `truncate_dim` 16,"):
            run(tmp_path / "short", tasks, tmp_path / "axis", recipe)


def test_a_tuned_axis_keeps_the_base_and_knows_the_classes(
    tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    done = run(tiny_model, tasks, tmp_path / "axis", TUNED)
    found = vectors_of(done.folder)
    assert_allclose(found[:, 2:], normed(tiny_model), atol=1e-6)
    assert np.mean((found[:, 0] > 0) == LABELS) > 0.9
    assert done.kept == 40
    assert done.speed is not None


def test_a_shared_axis_moves_the_base_no_further_than_it_must(
    tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    drifts, known = [], []
    for keep in (0.0, 100.0):
        done = run(tiny_model, tasks, tmp_path / f"keep-{keep}", replace(SHARED, keep=keep))
        found = vectors_of(done.folder)
        drifts.append(float((found[:, 2:] * normed(tiny_model)).sum(axis=1).mean()))
        known.append(np.mean((found[:, 0] > 0) == LABELS))
    assert known[0] > 0.9
    assert drifts[0] < drifts[1] <= 1.0001


@pytest.mark.parametrize("recipe", [TUNED, SHARED], ids=["tuned", "shared"])
def test_a_run_killed_between_checkpoints_ends_with_the_same_bytes(
    recipe: Axis,
    tiny_model: Path,
    tasks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = run(tiny_model, tasks, tmp_path / "whole", recipe)
    write = descent.Checkpoints.write

    def stop(self: descent.Checkpoints, step: int, tensors: object) -> None:
        write(self, step, tensors)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(descent.Checkpoints.__init__, "__defaults__", (25,))
    with monkeypatch.context() as patch:
        patch.setattr(descent.Checkpoints, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            run(tiny_model, tasks, tmp_path / "axis", recipe)
    again = run(tiny_model, tasks, tmp_path / "axis", recipe)
    assert again.rows == whole.rows
    for file in sorted(whole.folder.rglob("*.safetensors")):
        other = again.folder / file.relative_to(whole.folder)
        assert other.read_bytes() == file.read_bytes()


def test_a_stretched_space_loads_anywhere_and_is_compared_by_cosine(
    tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    done = run(tiny_model, tasks, tmp_path / "axis", Axis(stretch=5.0))
    model = SentenceTransformer(str(done.folder), device="cpu")  # trusting nobody
    base, found = normed(tiny_model), model.encode(TEXTS)
    probe = logistic(base, LABELS, 0)
    way = probe.weight[1] - probe.weight[0]
    dense: Any = model[-1]
    matrix = dense.linear.weight.detach().numpy().astype(np.float64)
    lengths, directions = np.linalg.eigh(matrix)
    assert_allclose(lengths, [1.0] * (len(matrix) - 1) + [5.0], atol=1e-5)
    # The solver stops early, so rounding of the vectors moves the probe a little.
    assert abs(directions[:, -1] @ way) > 0.99 * np.linalg.norm(way)
    assert_allclose(found, base @ matrix, atol=1e-5)
    assert load_encoder(str(done.folder)).id.similarity == "cosine"


def test_dimensions_may_be_weighed_by_fishers_ratio(
    tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    done = run(tiny_model, tasks, tmp_path / "axis", Axis(probe="fisher"))
    base = normed(tiny_model)
    found = SentenceTransformer(str(done.folder), device="cpu").encode(TEXTS)
    assert_allclose(found, base * np.sqrt(fisher_weights(base, LABELS)), atol=1e-5)


def test_a_base_that_weighs_tokens_is_shared_with_its_tokens_whole_and_has_no_tower(
    tiny_model: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu")
    repool(model, "mean-without-first")
    model.save_pretrained(str(tmp_path / "weighed"), create_model_card=False)
    with pytest.raises(InputError, match="`model` weighed: `head` tuned needs"):
        run(tmp_path / "weighed", tasks, tmp_path / "tuned", TUNED)

    def refuse(*_: object) -> None:  # its weights are by the tokens' numbers
        raise AssertionError

    monkeypatch.setattr(classifier_training, "trimmed", refuse)
    done = run(tmp_path / "weighed", tasks, tmp_path / "shared", replace(SHARED, epochs=2))
    assert done.kept == 4


def test_a_resumed_run_says_the_speed_of_what_it_trained_itself(
    tiny_model: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = descent.Checkpoints.write

    def stop(self: descent.Checkpoints, step: int, tensors: object) -> None:
        write(self, step, tensors)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(descent.Checkpoints.__init__, "__defaults__", (30,))
    with monkeypatch.context() as patch:
        patch.setattr(descent.Checkpoints, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            run(tiny_model, tasks, tmp_path / "axis", TUNED)
    clock = iter([0.0, 2.0])
    stopped = SimpleNamespace(perf_counter=lambda: next(clock))
    for module in ("recipes.base", "loops.descent"):
        monkeypatch.setattr(f"polarity_bench.training.{module}.time", stopped)
    again = run(tiny_model, tasks, tmp_path / "axis", TUNED)
    assert again.speed == 10 * 12 / 2  # ten of forty steps were left, of 12 texts each


def test_few_labels_may_be_drawn_and_another_tasks_taken(
    tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    few = run(tiny_model, tasks, tmp_path / "few", Axis(labels=8))
    assert few.figures["texts"] == 8
    other = tmp_path / "other"
    other.mkdir()
    write_task(other)
    write_task(
        other,
        "more",
        sources=[(f"So {text}", label) for text, label in SOURCES],
        queries=[(f"So {text}", label) for text, label in QUERIES],
    )
    done = run(tiny_model, other, tmp_path / "more", Axis(labels_from="more"))
    assert done.figures["texts"] == 32
    card = (done.folder / "README.md").read_text(encoding="utf-8")
    assert "32 labelled texts of more" in card


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ({"labels": 2}, "`labels` 2: expected at least 2 texts of each class, got 1 of 'bad'"),
        ({"labels": 25}, "`labels` 25: the data has 24 rows"),
        ({"labels_from": "nowhere"}, "unknown task 'nowhere'"),
        (
            {"labels_from": "contrast"},
            "expected the classes of mini .*, got negative, positive;",
        ),
        ({"labels_from": "mini"}, "the examples, row 24: text is a query of the task"),
    ],
)
def test_what_labels_cannot_be_is_refused(
    tiny_model: Path, tasks: Path, tmp_path: Path, recipe: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        run(tiny_model, tasks, tmp_path / "axis", Axis(**recipe))  # type: ignore[arg-type]
    assert not (tmp_path / "axis" / "train.json").exists()


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ({"head": "tuned", "probe": "fisher"}, "`probe` fisher has no effect with .* linear"),
        ({"head": "shared", "stretch": 2.0}, "`stretch` 2.0 has no effect with .* linear"),
        ({"epochs": 3}, "`epochs` 3 has no effect with the head 'linear'; omit `epochs`, or"),
        ({"batch_size": 8}, "`batch_size` 8 has no effect .* `head` tuned or shared"),
        ({"rate": 1e-4}, "`rate` 0.0001 has no effect"),
        ({"dtype": "bfloat16"}, "`dtype` bfloat16 has no effect"),
        ({"keep": 1}, "`keep` 1.0 has no effect .* `head` shared"),
        ({"head": "tuned", "keep": 1}, "`keep` 1.0 has no effect with the head 'tuned'"),
        ({"stretch": 5, "strength": 2}, "`strength` 2.0 has no effect without an axis; omit"),
        ({"probe": "fisher", "strength": 2}, "`strength` 2.0 has no effect without an axis"),
        (
            {"probe": "fisher", "stretch": 2.0},
            "`stretch` 2 needs a `probe` with directions, got fisher",
        ),
        ({"strength": -1.0}, "`strength` must be at least 0"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(
    recipe: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        Axis(**recipe)  # type: ignore[arg-type]


@pytest.mark.parametrize("epochs", [2, 3])
def test_the_command_refuses_an_option_without_effect_and_writes_nothing(
    bench: Bench, tiny_model: Path, tasks: Path, tmp_path: Path, epochs: int
) -> None:
    """The usual value, too: 2 epochs are as little trained as 3."""
    train = ("train", "--recipe", "axis", "--model", tiny_model, "--task", "mini", "-o", "axis")
    done = bench(*train, "--epochs", str(epochs), "--task-dir", tasks, "--no-store")
    assert done.code == 2
    assert f"--epochs {epochs} has no effect with the head 'linear'; omit --epochs, or" in done.err
    assert "or use the --head tuned or shared" in done.err
    assert not (tmp_path / "axis").exists()


def test_the_command_trains_and_scores_it_at_strengths(
    bench: Bench, tiny_model: Path, tasks: Path, tmp_path: Path
) -> None:
    common = ("--task-dir", tasks, "--no-store")
    tuned = ("--head", "tuned", "--epochs", "20", "--batch-size", "12", "--rate", "3e-3")
    train = ("train", "--recipe", "axis", "--model", tiny_model, "--task", "mini", "-o", "axis")
    done = bench(*train, *tuned, *common)
    assert done.code == 0, done.err
    words = ("run", "--model", "axis", "--tasks", "mini", *common)
    done = bench(*words, "--strength", "-1,0,0.5,1", "--json")
    assert done.code == 0, done.err
    results = json.loads(done.out)["results"]
    assert len({result["encoder_digest"] for result in results}) == 4
    polarity = [result["scores"]["polarity_at_4"] for result in results]
    assert polarity == sorted(polarity)
    assert polarity[0] < polarity[-1]
    (base,) = json.loads(bench("run", "-m", tiny_model, "-t", "mini", *common, "--json").out)[
        "results"
    ]
    for name, value in base["scores"].items():
        if name != "sgts":
            assert results[1]["scores"][name] == pytest.approx(value, abs=1e-7), name
    shown = bench(*words, "--strength", "-1,0,0.5,1", "--wide")
    assert "32 encoded" not in shown.err  # all was reused
    rows = [line.split("|")[3].strip() for line in shown.out.splitlines() if "| mini" in line]
    assert rows[:4] == ["-1", "0", "0.5", "1"]


def test_encoders_of_one_name_and_strengths_that_are_near_are_told_apart(
    tiny_model: Path, tasks: Path, tmp_path: Path, bench: Bench
) -> None:
    for place, labels in (("a", 8), ("b", 12)):
        run(tiny_model, tasks, tmp_path / place / "axis", Axis(labels=labels))
    asked = ("--task-dir", tasks, "--tasks", "mini", "--output", "results")
    models = ("--model", "a/axis", "--model", "b/axis")
    for k in ("4", "6"):
        strengths = ("--strength=-0.0,0.1,0.10000001", "--k", k)
        done = bench("run", *models, *strengths, *asked, "--json")
        said = json.loads(done.out)
        assert len({each["encoder_digest"] for each in said["results"]}) == 6
        assert [[p["strength"] for p in each["points"]] for each in said["curves"]] == [
            [0, 0.1, 0.10000001]
        ] * 2
        assert len({each["file"] for each in said["curves"]}) == 2
    plain = json.loads(bench("run", *models, "--strength", "0", *asked, "--json").out)
    assert all(each["reused"] for each in plain["results"])
    tables = json.loads(bench("leaderboard", "results", "--json").out)["tables"]
    curves = [row for row in tables[-1]["rows"] if "best strength" in row["encoder"]]
    assert [row["k"] for row in curves].count("4") == 2
    assert [row["k"] for row in curves].count("6") == 2


@pytest.mark.parametrize(
    ("strength", "said"),
    [
        ("1,x", "error: --strength 1,x: expected numbers such as -1,0,0.5,1, got 'x'"),
        ("nan", "error: --strength nan: expected numbers such as -1,0,0.5,1, got 'nan'"),
        ("1,1.0", "error: --strength 1,1.0: 1.0 is given twice"),
        ("", "error: --strength : expected numbers such as -1,0,0.5,1, got ''"),
        ("1", "error: --strength 1: random has no axis; train an encoder"),
    ],
)
def test_strengths_that_are_none_are_refused(bench: Bench, strength: str, said: str) -> None:
    done = bench("run", "--model", "random", "--tasks", "contrast", "--strength", strength)
    assert done.code == 2
    assert said in done.err


def test_strengths_below_0_are_refused_where_nothing_is_ranked(bench: Bench) -> None:
    """Before an encoder is loaded: this one does not exist."""
    done = bench("run", "--model", "none", "--tasks", "contrast,cr", "--strength=1,-1")
    assert done.code == 2
    assert (
        "--strength 1,-1: a negative strength needs a task with queries and sources, got cr"
        in done.err
    )
