"""Digests and saved files hold names of classes and fields: those of before, whatever is renamed.

The expected values were computed at 50edbdc6, when the names were still hashed as they were.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from standins import Workshop, word_tokenizer

from polarity_bench.data.senteval import Row
from polarity_bench.encoders import axis
from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import digest_of_model, load_encoder
from polarity_bench.tasks.senteval.presets import PRESETS
from polarity_bench.tasks.types.rows_task import RowsTask

WORDS = ["a", "film", "was", "good", "bad"]
DIGEST = "6343e68c065e181c"
"""Of the encoder that `with_axis` makes."""


class Line(Row):
    """A row, by another name."""


# With both quotes, a backslash, line ends and characters that are no letters.
ODD = 'it\'s "good"\\ \u00e9\u2028\U0001f600\x85'


def rows_task(workshop: Workshop, row: type[Row]) -> RowsTask:
    task = workshop.load(workshop.sts())
    assert isinstance(task, RowsTask)
    pairs = [row(("a'b", 'c"d'), 2), row(("x\ty", "\u200b"), 3.4), row(("p", "q"), 0.1 + 0.2)]
    return replace(task, parts={"train": [row((ODD,), 1), row(("",), 0)], "test": pairs})


@pytest.mark.parametrize("row", [Row, Line])
def test_the_digest_of_rows_does_not_depend_on_the_names_of_their_classes(
    row: type[Row], workshop: Workshop
) -> None:
    assert repr(Line(("x",), 0)) != repr(Row(("x",), 0))
    assert rows_task(workshop, row).digest == "652efbec89a08565"


def test_the_identity_of_an_encoder_has_the_keys_of_before() -> None:
    plain = EncoderId("a", "w1")
    whole = EncoderId(
        "a",
        "w1",
        revision="r",
        prompt="p: ",
        max_tokens=7,
        dtype="bfloat16",
        pooling_added=True,
        similarity="dot",
        axis=1,
        strength=0.5,
    )
    assert (plain.digest, whole.digest) == ("4384ee06c04dcbd2", "34d4e63e6c0015a4")
    keys = ["name", "weights", "revision", "prompt", "max_tokens", "dtype", "pooling_added"]
    assert list(plain.to_dict()) == keys
    assert list(whole.to_dict()) == [*keys, "similarity", "axis", "strength"]
    assert list(plain.to_dict(with_defaults=True)) == [*keys, "similarity", "axis", "strength"]
    scaled = replace(whole, axis_scale=0.25)
    assert list(scaled.to_dict()) == [*keys, "similarity", "axis", "strength", "axis_scale"]
    assert scaled.digest == "3732e53998737e97"


def test_the_parameters_of_classifiers_have_the_keys_of_before() -> None:
    assert PRESETS["sklearn"].classifier.parameters == {"seed": 1111}
    assert PRESETS["papers"].classifier.parameters == {
        "n_hidden": 0,
        "dropout": 0.0,
        "optimizer": "adam",
        "batch_size": 128,
        "tenacity": 5,
        "epoch_size": 3,
        "max_epochs": 200,
        "seed": 1111,
        "device": "cpu",
    }


def renamed_axis(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """Define the class again by another name, as if it had been renamed and moved."""
    source = Path(axis.__file__).read_text(encoding="utf-8")
    source = re.sub(r"(?<![\w.])Axis\b", "Coordinates", source)
    assert "class Coordinates(" in source
    module = ModuleType("polarity_bench.encoders.load.coordinates")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(source, module.__name__, "exec"), vars(module))
    cls: type[Any] = module.Coordinates
    return cls


def with_axis(cls: type[Any]) -> SentenceTransformer:
    tokenizer = word_tokenizer(WORDS)
    vectors = torch.arange(tokenizer.get_vocab_size() * 4, dtype=torch.float32).reshape(-1, 4)
    head = cls(["bad", "good"], 4, 0.25)
    with torch.no_grad():
        head.head.weight.fill_(0.5)
        head.head.bias.fill_(-0.25)
    words = StaticEmbedding(tokenizer, embedding_weights=vectors)
    return SentenceTransformer(modules=[words, head], device="cpu")


@pytest.mark.parametrize("renamed", [False, True])
def test_an_axis_is_hashed_and_saved_by_the_name_of_before(
    renamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls = renamed_axis(monkeypatch) if renamed else axis.Axis
    assert (cls is axis.Axis) != renamed
    model = with_axis(cls)
    told = (
        "Axis({'classes': ['bad', 'good'], 'dimension': 4, 'strength': 0.25, 'has_tower': False, "
        "'scale': 0.25})"
    )
    assert repr(model[-1]) == told
    assert digest_of_model(model) == DIGEST
    model.save_pretrained(str(tmp_path), create_model_card=False)
    saved = json.loads((tmp_path / "modules.json").read_bytes())[-1]
    assert saved["type"] == "polarity_bench.encoders.axis.Axis"
    assert saved["path"] == "1_Axis"
    config = json.loads((tmp_path / "1_Axis" / "config.json").read_bytes())
    assert list(config) == ["classes", "dimension", "strength", "has_tower", "scale"]
    assert load_encoder(str(tmp_path)).id.weights == DIGEST


def test_a_model_class_of_ours_is_hashed_as_the_one_of_sentence_transformers(
    tmp_path: Path,
) -> None:
    """`encoders.folder` loads with a subclass; whether it puts the class back decides nothing."""
    model = with_axis(axis.Axis)
    place = {"__module__": "polarity_bench.encoders.load.any"}
    ours = type("Anything", (SentenceTransformer,), place)
    model.__class__ = ours
    assert str(model).startswith("Anything(")
    assert digest_of_model(model) == DIGEST
