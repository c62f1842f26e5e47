"""A classifier in training: its loss by a slow loop, its seeds, kills, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
from standins import SOURCES, tiny_encoder, word_tokenizer
from torch import Tensor

from polarity_bench.classifiers.tokens import encode, encode_all, tokenize
from polarity_bench.errors import InputError
from polarity_bench.training.loops.classifier_training import (
    ClassifierModules,
    FittedHead,
    fit_classifier,
    shape_encoder,
    transformer_of,
)
from polarity_bench.training.loops.descent import Checkpoints, Steps
from polarity_bench.training.losses.metric import METRIC_LOSSES, SoftTriple, SupCon
from polarity_bench.training.objective import OBJECTIVES, CrossEntropy, Objective
from polarity_bench.training.recipes.scl.pooling import repool

TEXTS = [text for text, _ in SOURCES[4:16]]
CLASSES = ("bad", "good")
LABELS = np.array([int(label) for _, label in SOURCES[4:16]])
SMALL = Objective(loss=SoftTriple(proxies_per_class=2), epochs=2, batch_size=5, rate=1e-3)


def load(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu").eval()


def fitted(
    folder: Path, objective: Objective = SMALL, **given: Any
) -> tuple[FittedHead, SentenceTransformer]:
    model = load(folder)
    shape_encoder(model, objective)
    rows = tokenize(model, TEXTS)
    more: dict[str, Any] = {"seed": 1, "labels": LABELS, "classes": CLASSES} | given
    return fit_classifier(model, rows, objective=objective, **more), model


def state(made: tuple[FittedHead, SentenceTransformer]) -> tuple[bytes, list[bytes]]:
    head, model = made
    weights = [each.detach().numpy().tobytes() for each in model.parameters()]
    return head.head.to_bytes(), weights


def by_loops(
    model: SentenceTransformer,
    modules: ClassifierModules,
    objective: Objective,
    rows: Sequence[int],
) -> float:
    """β CE + (1 − β) L, a text at a time, in float64 from the vectors on."""
    entropy, tokens, sentences, owners = 0.0, [], [], []
    dense = modules.dense
    for row in rows:
        features = model.preprocess([TEXTS[row]])
        made = model(features)
        sentence = made["sentence_embedding"][0].double()
        logits = dense.weight.double() @ sentence + dense.bias.double()
        entropy -= float(logits[LABELS[row]] - torch.log(torch.exp(logits).sum()))
        sentences.append(sentence)
        for token in made["token_embeddings"][0].double():
            tokens.append(token)
            owners.append(int(LABELS[row]))
    entropy /= len(rows)
    read = objective.loss.reads == "tokens"
    labels = owners if read else [int(LABELS[row]) for row in rows]
    assert modules.metric is not None
    beside = modules.metric(torch.stack(tokens if read else sentences), torch.tensor(labels))
    return objective.share * entropy + (1 - objective.share) * float(beside)


@pytest.mark.parametrize("name", list(METRIC_LOSSES))
def test_the_loss_of_a_batch_is_that_of_a_slow_loop(tiny_model: Path, name: str) -> None:
    objective = Objective(loss=METRIC_LOSSES[name](), beta=0.3)
    model = load(tiny_model)
    torch.manual_seed(0)
    modules = ClassifierModules(model, CLASSES, objective)
    assert modules.metric is not None
    modules.metric.double()
    rows = [0, 3, 7, 8, 11]
    with torch.no_grad():
        made = encode(model, tokenize(model, TEXTS), np.array(rows), chunk_texts=2)
        made = replace(made, tokens=made.tokens.double())
        found = modules.loss(made, torch.from_numpy(LABELS[rows]))
        expected = by_loops(model, modules, objective, rows)
    assert float(found) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("weighed", [False, True])
def test_the_first_loss_is_that_of_the_weights_it_begins_with(
    tmp_path: Path, weighed: bool
) -> None:
    """Without dropout: the encoder's tokens, cut to those that occur, mean the same."""
    folder = without_dropout(tmp_path)
    if weighed:  # by their numbers in the vocabulary
        model = load(folder)
        repool(model, "mean-without-first")
        folder = tmp_path / "weighed"
        model.save_pretrained(str(folder), create_model_card=False)
    made, _ = fitted(folder)
    model = load(folder)
    torch.manual_seed(1)
    modules = ClassifierModules(model, CLASSES, SMALL)
    batch = np.random.default_rng([1, 0]).permutation(len(TEXTS))[:5].tolist()
    with torch.no_grad():
        assert made.losses[0] == pytest.approx(by_loops(model, modules, SMALL, batch), rel=1e-5)


def without_dropout(folder: Path) -> Path:
    import json

    encoder = tiny_encoder(folder / "still")
    file = encoder / "config.json"
    config = json.loads(file.read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    file.write_text(json.dumps(config))
    return encoder


def test_every_text_is_seen_once_in_every_epoch(tmp_path: Path) -> None:
    folder = without_dropout(tmp_path)
    still = replace(SMALL, loss=CrossEntropy(), beta=1.0, rate=1e-12)
    at_once, _ = fitted(folder, replace(still, batch_size=12))
    made, _ = fitted(folder, still)
    assert len(made.losses) == 2 * 3
    for epoch in (made.losses[:3], made.losses[3:]):
        assert np.average(epoch, weights=[5, 5, 2]) == pytest.approx(at_once.losses[0], rel=1e-5)
    assert made.losses[:3] != made.losses[3:]


def test_with_a_share_of_1_there_is_cross_entropy_alone(tiny_model: Path) -> None:
    plain = fitted(tiny_model, replace(SMALL, loss=CrossEntropy(), beta=1.0))
    whole = fitted(tiny_model, replace(SMALL, beta=1.0))
    assert state(whole) == state(plain)
    assert whole[0].head.proxies is None
    assert state(fitted(tiny_model)) != state(plain)


def test_a_seed_decides_all(tiny_model: Path) -> None:
    torch.manual_seed(5)
    first = fitted(tiny_model)
    torch.manual_seed(6)
    assert state(fitted(tiny_model)) == state(first)
    other = fitted(tiny_model, seed=2)
    assert state(other)[0] != state(first)[0]
    assert state(other)[1] != state(first)[1]


@pytest.mark.parametrize("die_at", [2, 4, 5])
def test_a_run_killed_between_checkpoints_goes_on_to_the_same_bytes(
    tiny_model: Path, tmp_path: Path, die_at: int
) -> None:
    done: list[int] = []

    def kill(n_steps: int) -> None:
        done.append(n_steps)
        if sum(done) == die_at:
            raise KeyboardInterrupt

    checkpoints = Checkpoints(tmp_path / "checkpoints", every=3)
    with pytest.raises(KeyboardInterrupt):
        fitted(tiny_model, steps=Steps(checkpoints, kill))
    assert (checkpoints.latest() is not None) == (die_at > 3)
    resumed: list[int] = []
    again = fitted(tiny_model, steps=Steps(checkpoints, resumed.append))
    whole = fitted(tiny_model)
    assert resumed == ([3, 1, 1, 1] if die_at > 3 else [1] * 6)
    assert state(again) == state(whole)
    assert again[0].losses == whole[0].losses


def test_batches_with_nothing_to_compare_are_counted_across_a_kill(
    tiny_model: Path, tmp_path: Path
) -> None:
    alone = Objective(loss=SupCon(), epochs=1, batch_size=1, rate=1e-3)
    made, _ = fitted(tiny_model, alone)
    assert made.n_empty == len(TEXTS)
    assert np.isfinite(made.losses).all()

    def kill(n_steps: int) -> None:
        if checkpoints.latest():
            raise KeyboardInterrupt

    checkpoints = Checkpoints(tmp_path, every=5)
    with pytest.raises(KeyboardInterrupt):
        fitted(tiny_model, alone, steps=Steps(checkpoints, kill))
    assert fitted(tiny_model, alone, steps=Steps(checkpoints))[0].n_empty == len(TEXTS)
    assert fitted(tiny_model, replace(alone, batch_size=12))[0].n_empty == 0


def test_bfloat16_trains_weights_of_float32(tiny_model: Path) -> None:
    wide, _ = fitted(tiny_model)
    narrow, model = fitted(tiny_model, replace(SMALL, dtype="bfloat16"))
    assert {each.dtype for each in model.parameters()} == {torch.float32}
    assert narrow.losses != wide.losses
    assert narrow.losses == pytest.approx(wide.losses, rel=0.05)


def test_it_learns_what_it_is_shown(tiny_model: Path) -> None:
    long = replace(SMALL, epochs=60, batch_size=12, rate=3e-3)
    made, model = fitted(tiny_model, long)
    vectors = encode_all(model, tokenize(model, TEXTS))
    for with_proxies in (False, True):
        found = made.head.scores(vectors, with_proxies=with_proxies).argmax(axis=1)
        assert found.tolist() == LABELS.tolist()


def test_proxies_have_a_rate_of_their_own(tiny_model: Path) -> None:
    slow, _ = fitted(tiny_model, replace(SMALL, proxy_rate=1e-12))
    fast, _ = fitted(tiny_model)
    assert slow.head.proxies is not None
    assert fast.head.proxies is not None
    torch.manual_seed(1)
    drawn: Any = ClassifierModules(load(tiny_model), CLASSES, SMALL).metric
    begun = drawn.proxies.detach().numpy()
    assert np.abs(slow.head.proxies - begun).max() < 1e-6
    assert np.abs(fast.head.proxies - begun).max() > 1e-4


def test_a_class_without_rows_is_named(tiny_model: Path) -> None:
    with pytest.raises(InputError, match="the class 'middling' has no training rows"):
        fitted(tiny_model, classes=("bad", "good", "middling"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"loss": SupCon(), "beta": 1.1}, "`beta` must be at most 1, got 1.1"),
        ({"loss": SupCon(), "beta": -0.1}, "`beta` must be at least 0, got -0.1"),
        ({"beta": 0.5}, r"`beta` must be 1 with the `loss` cce .*, got 0\.5"),
        ({"warm_up": 1.5}, "`warm_up` must be at most 1, got 1.5"),
        ({"layers": 0}, "`layers` must be at least 1, got 0"),
    ],
)
def test_objectives_that_make_no_sense_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Objective(**given)


def test_the_share_of_cross_entropy_goes_with_the_loss() -> None:
    assert {name: Objective(loss=loss()).share for name, loss in OBJECTIVES.items()} == {
        name: 1.0 if name == "cce" else 0.5 for name in OBJECTIVES
    }
    assert Objective(loss=SupCon(), beta=0).share == 0


# Shapes of encoders


def vector_of(model: SentenceTransformer) -> Tensor:
    found: Tensor = model(model.preprocess(TEXTS[:2]))["sentence_embedding"]
    return found


@pytest.mark.parametrize(
    ("pooling", "pooling_added", "token"),
    [("first", False, 0), ("own", True, 0), ("own", False, None), ("mean", True, None)],
)
def test_a_text_is_its_first_token_or_the_mean(
    tiny_model: Path, pooling: Any, pooling_added: bool, token: int | None
) -> None:
    model = load(tiny_model)
    shape_encoder(model, Objective(pooling=pooling), pooling_added=pooling_added)
    tokens = model(model.preprocess(TEXTS[:1]))["token_embeddings"][0]
    expected = tokens.mean(dim=0) if token is None else tokens[token]
    torch.testing.assert_close(vector_of(model)[0], expected)


def test_what_normalises_goes(tiny_model: Path) -> None:
    plain, model = load(tiny_model), load(tiny_model)
    model.append(Normalize())
    shape_encoder(model, Objective())
    torch.testing.assert_close(vector_of(model), vector_of(plain))
    assert len(model) == 2


def test_tokens_that_the_encoder_weighs_before_pooling_stay_weighed(tiny_model: Path) -> None:
    """As what `scl` publishes does: its first token weighs nothing."""
    model = load(tiny_model)
    repool(model, "mean-without-first")
    weighed = vector_of(model)
    shape_encoder(model, Objective(layers=2))
    torch.testing.assert_close(vector_of(model), weighed)
    tokens = model(model.preprocess(TEXTS[:1]))["token_embeddings"][0]
    shape_encoder(model, Objective(pooling="mean"))
    assert len(model) == 2
    plain = model(model.preprocess(TEXTS[:1]))
    torch.testing.assert_close(plain["token_embeddings"][0][1:], tokens[1:])
    assert plain["token_embeddings"][0][0].abs().sum() > 0
    torch.testing.assert_close(vector_of(model)[0], plain["token_embeddings"][0].mean(dim=0))


def test_layers_are_kept_from_below(tiny_model: Path, tmp_path: Path) -> None:
    model, whole = load(tiny_model), load(tiny_model)
    shape_encoder(model, Objective(layers=1))
    states = transformer_of(whole)(
        **{k: v for k, v in whole.preprocess(TEXTS[:2]).items() if isinstance(v, Tensor)},
        output_hidden_states=True,
    ).hidden_states
    made = model(model.preprocess(TEXTS[:2]))
    torch.testing.assert_close(made["token_embeddings"], states[1])
    model.save_pretrained(str(tmp_path / "cut"), create_model_card=False)
    again = load(tmp_path / "cut")
    assert len(transformer_of(again).encoder.layer) == 1
    torch.testing.assert_close(vector_of(again), vector_of(model))


def test_encoders_that_cannot_be_shaped_are_refused(tiny_model: Path) -> None:
    static = SentenceTransformer(modules=[StaticEmbedding(word_tokenizer(), embedding_dim=8)])
    with pytest.raises(InputError, match="`model`: a classifier needs a transformer with pooling"):
        shape_encoder(static, Objective())
    with pytest.raises(InputError, match="`layers` 3: the encoder has 2"):
        shape_encoder(load(tiny_model), Objective(layers=3))
    other = load(tiny_model)
    del transformer_of(other).encoder.layer
    with pytest.raises(InputError, match="`layers` 1: BertModel has no list of layers"):
        shape_encoder(other, Objective(layers=1))
