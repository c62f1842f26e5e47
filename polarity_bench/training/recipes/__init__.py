"""Recipes: training methods, by name."""

from __future__ import annotations

from polarity_bench.errors import InputError
from polarity_bench.registers import Register
from polarity_bench.training.parameters import flattened
from polarity_bench.training.recipes.axis.recipe import Axis
from polarity_bench.training.recipes.base import Recipe
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.training.recipes.scl.recipe import Scl
from polarity_bench.training.recipes.setfit.recipe import SetFit
from polarity_bench.training.recipes.triple_entropy import TripleEntropy


def _check(recipe: type[Recipe]) -> None:
    flattened(recipe)
    if not isinstance(getattr(recipe, "sources", None), str):
        raise InputError("`sources`, the credits for the model card, is missing; add it, a text")


RECIPES: Register[type[Recipe]] = Register(
    "polarity_bench.recipes",
    Recipe,
    {
        "margins": Margins,
        "setfit": SetFit,
        "scl": Scl,
        "triple-entropy": TripleEntropy,
        "axis": Axis,
    },
    check=_check,
)
"""All recipes by name, the default first. The command line builds its options from them."""
