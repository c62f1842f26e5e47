"""Specs: what is refused and in which words, what a digest covers, how specs differ."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import fields, replace
from typing import Any

import pytest

from polarity_bench.errors import InputError
from polarity_bench.training.losses import LOSSES
from polarity_bench.training.spec import (
    ExampleSpec,
    RunIdentity,
    TrainSpec,
    differences,
    margin_warning,
)
from polarity_bench.types import EncoderId

BASE = EncoderId(name="base", weights="w0", revision="r0")
GUIDE = EncoderId(name="guide", weights="w1")


def identity(**changes: Any) -> RunIdentity:
    return replace(RunIdentity(TrainSpec(), BASE, GUIDE, "t", "d", "e"), **changes)


# Refusals


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"recipe": "as-writen"}, "--recipe: unknown value 'as-writen'; did you mean 'as-written'"),
        ({"k": 0}, "--neighbours must be at least 1, got 0"),
        ({"threshold": 1.5}, "--threshold must lie in [-1, 1], a cosine, got 1.5"),
        ({"threshold": -1.01}, "--threshold must lie in [-1, 1], a cosine, got -1.01"),
        ({"threshold": math.nan}, "--threshold must lie in [-1, 1], a cosine, got nan"),
        ({"count": 5, "dropout": 0.5}, "give --examples or --dropout, not both"),
        ({"count": 0}, "--examples must be at least 1, got 0"),
        ({"dropout": 1.0}, "--dropout must lie in [0, 1), got 1.0"),
        ({"dropout": -0.1}, "--dropout must lie in [0, 1), got -0.1"),
        ({"dropout": math.nan}, "--dropout must lie in [0, 1), got nan"),
    ],
)
def test_examples_that_cannot_be_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        ExampleSpec(**changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schedule": "cosin"}, "--schedule: unknown value 'cosin'; did you mean 'cosine'?"),
        ({"dtype": "bfloat"}, "--dtype: unknown value 'bfloat'; did you mean 'bfloat16'"),
        ({"epochs": 0}, "--epochs must be at least 1, got 0"),
        ({"batch_size": 0}, "--batch-size must be at least 1, got 0"),
        ({"accumulation": 0}, "--accumulation must be at least 1, got 0"),
        ({"seed": -1}, "--seed must be at least 0, got -1"),
        ({"patience": -1}, "--patience must be at least 0, got -1"),
        ({"held_out": -1}, "--held-out must be at least 0, got -1"),
        ({"rate": 0.0}, "--rate must be above 0, got 0.0"),
        ({"rate": math.inf}, "--rate must be above 0, got inf"),
        ({"rate": math.nan}, "--rate must be above 0, got nan"),
        ({"weight_decay": -0.1}, "--weight-decay must be at least 0, got -0.1"),
        ({"weight_decay": math.inf}, "--weight-decay must be at least 0, got inf"),
        ({"warm_up": "as-relased"}, "--warm-up: unknown value 'as-relased'; did you mean"),
        ({"warm_up": -0.1}, "--warm-up must be at least 0, got -0.1"),
        ({"warm_up": math.inf}, "--warm-up must be at least 0, got inf"),
        ({"warm_up": 1.5}, "--warm-up 1.5: a share of the steps below 1, whole steps, or"),
    ],
)
def test_training_that_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        TrainSpec(**changes)


def test_what_is_just_allowed() -> None:
    ExampleSpec(k=1, threshold=-1, count=1)
    ExampleSpec(threshold=1, dropout=0)
    ExampleSpec(dropout=0.999)
    TrainSpec(epochs=1, batch_size=1, accumulation=1, seed=0, patience=0, held_out=0)
    TrainSpec(weight_decay=0, warm_up=0)
    TrainSpec(warm_up=500)
    TrainSpec(warm_up=500.0)
    TrainSpec(warm_up="as-released")


# How many examples


def test_the_count_is_given_solved_or_all() -> None:
    assert ExampleSpec(count=7).solve_count(100) == 7
    assert ExampleSpec(dropout=0.83).solve_count(100) == 17
    assert ExampleSpec(dropout=0.0).solve_count(10**6) == 10**6
    assert ExampleSpec().solve_count(100) == 100
    assert ExampleSpec().solve_count(10**6) == 50_000


def test_whole_numbers_are_the_floats_that_they_equal() -> None:
    whole = TrainSpec(margin=1, rate=1, warm_up=500, weight_decay=0)
    assert repr(whole) == repr(TrainSpec(margin=1.0, rate=1.0, warm_up=500.0, weight_decay=0.0))
    assert repr(ExampleSpec(threshold=0)) == repr(ExampleSpec(threshold=0.0))


def test_the_released_warm_up_has_its_own_schedule() -> None:
    with pytest.raises(InputError, match=r"--schedule cosine: the warm-up 'as-released' has"):
        TrainSpec(warm_up="as-released", schedule="cosine")


# The losses' parameters


def test_an_unknown_loss_is_answered_with_similar_ones() -> None:
    with pytest.raises(InputError, match=r"--loss: unknown loss 'tripet'; did you mean 'triplet'"):
        TrainSpec(loss="tripet").with_loss_parameters()


@pytest.mark.parametrize("name", LOSSES)
def test_the_papers_parameters_are_filled_in(name: str) -> None:
    filled = TrainSpec(loss=name).with_loss_parameters()
    assert (filled.margin, filled.temperature) == (LOSSES[name].margin, LOSSES[name].temperature)
    assert filled.with_loss_parameters() == filled
    assert replace(filled, margin=None, temperature=None) == TrainSpec(loss=name)


def test_what_is_given_stays() -> None:
    assert TrainSpec(margin=0.3).with_loss_parameters().margin == 0.3
    assert TrainSpec(loss="mnrl", temperature=1.0).with_loss_parameters().temperature == 1.0


@pytest.mark.parametrize("name", ["mnrl", "mnrl-masked", "cosine-similarity"])
def test_a_margin_where_none_is_is_refused_with_those_that_have_one(name: str) -> None:
    said = (
        f"--margin 0.1: the loss '{name}' has none; these have: triplet, contrastive, "
        "online-contrastive"
    )
    with pytest.raises(InputError, match=f"^{said}$"):
        TrainSpec(loss=name, margin=0.1).with_loss_parameters()


@pytest.mark.parametrize("name", ["triplet", "contrastive", "online-contrastive"])
def test_a_temperature_where_none_is_is_refused_with_those_that_have_one(name: str) -> None:
    said = f"--temperature 0.1: the loss '{name}' has none; these have: mnrl, mnrl-masked"
    with pytest.raises(InputError, match=f"^{said}$"):
        TrainSpec(loss=name, temperature=0.1).with_loss_parameters()


@pytest.mark.parametrize("value", [0.0, -0.5, math.nan, math.inf])
def test_margins_and_temperatures_are_above_0(value: float) -> None:
    with pytest.raises(InputError, match=f"--margin must be above 0, got {value}"):
        TrainSpec(margin=value).with_loss_parameters()
    with pytest.raises(InputError, match=f"--temperature must be above 0, got {value}"):
        TrainSpec(loss="mnrl", temperature=value).with_loss_parameters()


@pytest.mark.parametrize("margin", [2.0, 5.0, 7.5, 10.0])
def test_a_triplet_margin_of_two_or_more_warns_that_the_hinge_never_closes(margin: float) -> None:
    said = (
        rf"margin {margin:g}: cosine distance lies in \[0, 2\]; from 2 on the hinge never closes, "
        "so that every such margin trains the same encoder"
    )
    with pytest.warns(UserWarning, match=said):
        assert TrainSpec(margin=margin).with_loss_parameters().margin == margin


@pytest.mark.parametrize("loss", ["contrastive", "online-contrastive"])
def test_a_contrastive_margin_of_two_or_more_warns_that_the_push_never_ends(loss: str) -> None:
    with pytest.warns(UserWarning, match="margin 2: .* no pair is ever far enough apart"):
        TrainSpec(loss=loss, margin=2).with_loss_parameters()
    assert "hinge" not in margin_warning(loss, 2)


def test_a_margin_below_two_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TrainSpec(margin=1.999).with_loss_parameters()


# Identity

OTHER_SPEC: dict[str, Any] = {
    "loss": "mnrl",
    "margin": 0.2,
    "temperature": 0.1,
    "examples": ExampleSpec(k=8),
    "epochs": 6,
    "batch_size": 32,
    "rate": 1e-5,
    "warm_up": 0.2,
    "schedule": "cosine",
    "weight_decay": 0.1,
    "dtype": "bfloat16",
    "accumulation": 2,
    "seed": 1,
    "patience": 4,
    "held_out": 100,
}
OTHER_EXAMPLES: dict[str, Any] = {
    "recipe": "as-released",
    "k": 9,
    "threshold": 0.4,
    "count": 100,
    "dropout": 0.5,
}
OTHER_IDENTITY: dict[str, Any] = {
    "spec": TrainSpec(seed=2),
    "base": GUIDE,
    "example_encoder": None,
    "task": "t2",
    "data": "d2",
    "evaluation": "e2",
}


def test_every_field_is_tried_below() -> None:
    assert set(OTHER_SPEC) == {field.name for field in fields(TrainSpec)}
    assert set(OTHER_EXAMPLES) == {field.name for field in fields(ExampleSpec)}
    assert set(OTHER_IDENTITY) == {field.name for field in fields(RunIdentity)}


def test_each_field_changes_the_digest() -> None:
    digests = [identity().digest]
    digests += [identity(**{name: value}).digest for name, value in OTHER_IDENTITY.items()]
    for name, value in OTHER_SPEC.items():
        digests.append(identity(spec=replace(TrainSpec(), **{name: value})).digest)
    for name, value in OTHER_EXAMPLES.items():
        examples = replace(ExampleSpec(), **{name: value})
        digests.append(identity(spec=TrainSpec(examples=examples)).digest)
    assert len(digests) == len(set(digests)) == 1 + 6 + 15 + 5
    assert all(re.fullmatch("[0-9a-f]{16}", digest) for digest in digests)


def test_an_encoders_name_and_revision_do_not_change_the_digest_but_its_weights_do() -> None:
    ours = identity().digest
    for role, encoder in (("base", BASE), ("example_encoder", GUIDE)):
        assert identity(**{role: replace(encoder, name="another")}).digest == ours
        assert identity(**{role: replace(encoder, revision="another")}).digest == ours
        for field, value in {"weights": "w9", "prompt": "p", "max_tokens": 9}.items():
            assert identity(**{role: replace(encoder, **{field: value})}).digest != ours  # type: ignore[arg-type]


def test_the_two_encoders_do_not_swap() -> None:
    assert identity(base=GUIDE, example_encoder=BASE).digest != identity().digest


def test_a_run_is_json() -> None:
    values = identity().to_dict()
    assert values["version"] == 1
    assert values["base"]["name"] == "base"
    assert values["spec"]["examples"]["k"] == 16


# Differences


def test_differences_by_hand() -> None:
    ours = {"a": 1, "b": {"x": 1, "y": {"z": "p"}}, "c": None, "only": 0}
    theirs = {"a": 1, "b": {"x": 2, "y": {"z": "q"}}, "c": {"n": 1}, "there": 0}
    assert differences(ours, theirs) == [
        "b.x: 1, there 2",
        "b.y.z: 'p', there 'q'",
        "c: None, there {'n': 1}",
        "only: 0, there None",
        "there: None, there 0",
    ]
    assert differences(ours, ours) == []


def test_differences_of_two_runs() -> None:
    ours = identity(spec=TrainSpec(margin=0.1, examples=ExampleSpec(k=8))).to_dict()
    theirs = identity(spec=TrainSpec(margin=0.5), base=GUIDE).to_dict()
    assert differences(ours, theirs) == [
        "base.name: 'base', there 'guide'",
        "base.revision: 'r0', there None",
        "base.weights: 'w0', there 'w1'",
        "spec.examples.k: 8, there 16",
        "spec.margin: 0.1, there 0.5",
    ]
