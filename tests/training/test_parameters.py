"""Parameters: what is refused and in which words, what they fill in, how they are read back."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from standins.training import run

from polarity_bench.errors import InputError
from polarity_bench.training.examples.spec import ExampleSpec
from polarity_bench.training.parameters import (
    Parameters,
    ParameterWarning,
    declared,
    from_flat,
    parameter,
)
from polarity_bench.training.recipes import RECIPES
from polarity_bench.training.recipes.margins.losses import LOSSES, Contrastive, Ranking, Triplet
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.training.recipes.setfit.recipe import SetFit

# Refusals


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mining": "as-writen"}, "`mining`: unknown value 'as-writen'; did you mean 'as-written'"),
        ({"neighbours": 0}, "`neighbours` must be at least 1, got 0"),
        ({"threshold": 1.5}, "`threshold` must be at most 1, got 1.5"),
        ({"threshold": -1.01}, "`threshold` must be at least -1, got -1.01"),
        ({"threshold": math.nan}, "`threshold` must be finite, got nan"),
        ({"examples": 5, "dropout": 0.5}, "give `examples` or `dropout`, not both"),
        ({"examples": 0}, "`examples` must be at least 1, got 0"),
        ({"dropout": 1.0}, "`dropout` must be below 1, got 1.0"),
        ({"dropout": -0.1}, "`dropout` must be at least 0, got -0.1"),
        ({"dropout": math.nan}, "`dropout` must be finite, got nan"),
    ],
)
def test_examples_that_cannot_be_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        ExampleSpec(**changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schedule": "cosin"}, "`schedule`: unknown value 'cosin'; did you mean 'cosine'?"),
        ({"dtype": "bfloat"}, "`dtype`: unknown value 'bfloat'; did you mean 'bfloat16'"),
        ({"epochs": 0}, "`epochs` must be at least 1, got 0"),
        ({"batch_size": 0}, "`batch_size` must be at least 1, got 0"),
        ({"accumulation": 0}, "`accumulation` must be at least 1, got 0"),
        ({"seed": -1}, "`seed` must be at least 0, got -1"),
        ({"patience": -1}, "`patience` must be at least 0, got -1"),
        ({"held_out": -1}, "`held_out` must be at least 0, got -1"),
        ({"rate": 0.0}, "`rate` must be above 0, got 0.0"),
        ({"rate": math.inf}, "`rate` must be finite, got inf"),
        ({"rate": math.nan}, "`rate` must be finite, got nan"),
        ({"weight_decay": -0.1}, "`weight_decay` must be at least 0, got -0.1"),
        ({"weight_decay": math.inf}, "`weight_decay` must be finite, got inf"),
        (
            {"warm_up": "as-relased"},
            "`warm_up` must be a number or 'as-released', got 'as-relased'; did you mean 'as-rel",
        ),
        ({"warm_up": -0.1}, "`warm_up` must be at least 0, got -0.1"),
        ({"warm_up": math.inf}, "`warm_up` must be finite, got inf"),
        ({"warm_up": 1.5}, "`warm_up` must be a share of the steps below 1, an integer"),
    ],
)
def test_training_that_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        Margins(**changes)


def test_what_is_just_allowed() -> None:
    ExampleSpec(neighbours=1, threshold=-1, examples=1)
    ExampleSpec(threshold=1, dropout=0)
    ExampleSpec(dropout=0.999)
    Margins(epochs=1, batch_size=1, accumulation=1, seed=0, patience=0, held_out=0)
    Margins(weight_decay=0, warm_up=0)
    Margins(warm_up=500)
    Margins(warm_up=500.0)
    Margins(warm_up="as-released")


# How many examples


def test_the_count_is_given_solved_or_all() -> None:
    assert ExampleSpec(examples=7).solve_count(100) == 7
    assert ExampleSpec(dropout=0.83).solve_count(100) == 17
    assert ExampleSpec(dropout=0.0).solve_count(10**6) == 10**6
    assert ExampleSpec().solve_count(100) == 100
    assert ExampleSpec().solve_count(10**6) == 50_000


def test_whole_numbers_are_the_floats_that_they_equal() -> None:
    whole = Margins(loss=Triplet(margin=1), rate=1, warm_up=500, weight_decay=0)
    assert repr(whole) == repr(
        Margins(loss=Triplet(margin=1.0), rate=1.0, warm_up=500.0, weight_decay=0.0)
    )
    assert repr(ExampleSpec(threshold=0)) == repr(ExampleSpec(threshold=0.0))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epochs": 2.5}, "`epochs` must be an integer, got 2.5"),
        ({"epochs": True}, "`epochs` must be an integer, got True"),
        ({"rate": "fast"}, "`rate` must be a number, got 'fast'"),
        ({"loss": "triplet"}, "`loss`: unknown value 'triplet'"),
        ({"examples_from": 3}, "`examples_from` must be a path, got 3"),
        ({"report_to": None}, "`report_to` must be text, got None"),
    ],
)
def test_a_value_of_another_type_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        Margins(**changes)


def test_accumulated_batches_are_said_to_be_no_large_batch_where_the_loss_compares_them() -> None:
    """The loss of each example is its own in `triplet`, so that nothing is to be said there."""
    compared = ("mnrl", "mnrl-masked", "online-contrastive")
    for name, loss in LOSSES.items():
        remarks = Margins(loss=loss(), accumulation=3, batch_size=16).remarks
        assert len(remarks) == (name in compared)
        said = f"accumulation 3: the loss {name} compares .* not equivalent to one batch of 48"
        assert all(re.match(said, remark) for remark in remarks)
        assert Margins(loss=loss(), batch_size=16).remarks == ()


def test_the_released_warm_up_has_its_own_schedule() -> None:
    with pytest.raises(
        InputError, match=r"`schedule` must be linear with the `warm_up` as-released, .* got cosine"
    ):
        Margins(warm_up="as-released", schedule="cosine")


# The losses' parameters


@pytest.mark.parametrize("value", [0.0, -0.5])
def test_margins_and_temperatures_are_above_0(value: float) -> None:
    with pytest.raises(InputError, match=f"`margin` must be above 0, got {value}"):
        Triplet(margin=value)
    with pytest.raises(InputError, match=f"`temperature` must be above 0, got {value}"):
        Ranking(temperature=value)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_margins_are_finite(value: float) -> None:
    with pytest.raises(InputError, match=f"`margin` must be finite, got {value}"):
        Triplet(margin=value)


@pytest.mark.parametrize("margin", [2.0, 5.0, 7.5, 10.0])
def test_a_triplet_margin_of_two_or_more_warns_that_the_hinge_never_closes(
    margin: float, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    said = (
        rf"margin {margin:g}: cosine distances are at most 2; from a margin of 2 on, "
        "the hinge is always active, and all such margins train the same encoder"
    )
    recipe = Margins(loss=Triplet(margin=margin), examples=10**6)
    with (
        pytest.warns(ParameterWarning, match=said),
        pytest.raises(InputError, match="triplets, but 1,000,000 were requested"),
    ):
        run(tiny_model, task_dir, tmp_path / "x", replace(recipe, threshold=-1.0))


def test_a_contrastive_margin_of_two_or_more_never_ends_the_push() -> None:
    for kind in (Contrastive, LOSSES["online-contrastive"]):
        (said,) = Margins(loss=from_flat(LOSSES, kind.name, {"margin": 2})).remarks
        assert (
            "margin 2: cosine distances are at most 2; from a margin of 2 on, no pair is far"
            in said
        )
    assert Margins(loss=Triplet(margin=1.999)).remarks == ()


# Flat, as on the command line, and as tables, as in a job


def test_flat_parameters_reach_the_loss_that_they_are_of() -> None:
    made = from_flat(RECIPES, "margins", {"loss": "mnrl", "temperature": 1, "epochs": 3})
    assert made == Margins(loss=Ranking(temperature=1.0), epochs=3)
    assert from_flat(RECIPES, "margins", {}) == Margins()
    assert from_flat(RECIPES, "setfit", {"variant": "setfit"}) == SetFit(variant="setfit")


@pytest.mark.parametrize(
    ("recipe", "given", "said"),
    [
        ("margin", {}, "`recipe`: unknown recipe 'margin'; did you mean 'margins'"),
        ("margins", {"loss": "tripet"}, "`loss`: unknown loss 'tripet'; did you mean 'triplet'"),
        (
            *("margins", {"loss": "mnrl", "margin": 0.1}),
            "`margin` 0.1: the loss 'mnrl' has no such parameter; use one of triplet, contrastive",
        ),
        (
            *("margins", {"temperature": 0.1}),
            "`temperature` 0.1: the loss 'triplet' has no such parameter; use one of mnrl, ",
        ),
        (
            *("margins", {"variant": "papers"}),
            "`variant` papers: the recipe 'margins' has no such parameter; use one of setfit",
        ),
        (
            "setfit",
            {"margin": 1},
            "`margin` 1: the recipe 'setfit' has no such parameter; use one of margins",
        ),
    ],
)
def test_a_parameter_of_another_is_refused_naming_whose_it_is(
    recipe: str, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(said)}"):
        from_flat(RECIPES, recipe, given)


@pytest.mark.parametrize(
    "made",
    [
        Margins(),
        Margins(loss=Ranking(temperature=0.2), dropout=0.5, warm_up="as-released"),
        Margins(examples_from=Path("a/b"), held_out=0),
        SetFit(samples_per_class="all", pairs=8),
        *(loss() for loss in LOSSES.values()),
    ],
)
def test_parameters_are_read_back(made: Parameters) -> None:
    assert type(made).from_dict(made.to_dict()) == made


def test_a_table_with_an_unknown_parameter_is_refused() -> None:
    said = "unknown parameter 'epoch' of the recipe 'margins'; did you mean 'epochs'"
    with pytest.raises(InputError, match=said):
        Margins.from_dict({"name": "margins", "epoch": 3})
    with pytest.raises(InputError, match="unknown parameter 'temperature' of the loss 'triplet'"):
        Margins.from_dict({"loss": {"name": "triplet", "temperature": 1.0}})
    assert Margins.from_dict({"loss": {"margin": 0.3}}).loss == Triplet(margin=0.3)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_every_parameter_says_what_it_is_and_none_that_may_be_left_out_has_another_default(
    recipe: type[Parameters],
) -> None:
    """TOML has no null: what is left out there must mean None."""
    for each in declared(recipe):
        assert each.help
        assert type(None) not in each.kinds or each.default is None


def test_roles_choose_what_is_written() -> None:
    @dataclass(frozen=True)
    class Some(Parameters):
        family: ClassVar[str] = "some"
        name: ClassVar[str] = "some"
        moves: int = parameter(1, "x")
        place: Path = parameter(Path("a"), "x", role="place")
        aside: Literal["a", "b"] = parameter("a", "x", role="aside")

    assert Some().to_dict() == {"name": "some", "moves": 1, "place": "a", "aside": "a"}
    assert Some().to_dict("moves") == {"name": "some", "moves": 1}
