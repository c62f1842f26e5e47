"""Which classifier, folds and texts the options of the transfer protocols mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polarity_bench.errors import InputError
from polarity_bench.tasks.senteval.classifiers import (
    OPTIMIZERS,
    ExactLogistic,
    SklearnLogistic,
    TorchClassifier,
)
from polarity_bench.tasks.senteval.presets import PRESETS, choose_preset
from polarity_bench.tasks.senteval.protocol_names import SENTEVAL_PROTOCOLS, TORCH_PRESETS

TORCH = "senteval-torch"


def test_the_default_is_logistic_regression_with_ten_folds() -> None:
    preset = choose_preset()
    assert preset.classifier == ExactLogistic(seed=1111)
    assert (preset.n_folds, preset.lower_case) == (10, False)
    assert choose_preset("senteval-exact", device="cuda") == preset  # the encoder's alone
    classifier = SklearnLogistic(seed=1111)
    assert choose_preset("senteval-sklearn") == replace(preset, classifier=classifier)


def test_the_papers_preset_is_theirs() -> None:
    preset = choose_preset(TORCH, "papers")
    expected = TorchClassifier(optimizer="adam", batch_size=128, tenacity=5, epoch_size=3)
    assert preset.classifier == expected
    assert (preset.n_folds, preset.lower_case, preset.placeholder) == (3, True, "-")
    assert [preset.text(text) for text in ("It WORKS", "")] == ["it works", "-"]


def test_the_literature_preset_is_the_toolkits_and_torchs_default() -> None:
    preset = choose_preset(TORCH, "literature")
    expected = TorchClassifier(optimizer="adam", batch_size=64, tenacity=5, epoch_size=4)
    assert preset.classifier == expected
    assert (preset.n_folds, preset.lower_case) == (10, False)
    assert choose_preset(TORCH) == preset
    assert [preset.text(text) for text in ("It WORKS", "")] == ["It WORKS", "."]


@pytest.mark.parametrize("protocol", SENTEVAL_PROTOCOLS)
def test_folds_can_be_chosen(protocol: str) -> None:
    assert choose_preset(protocol, kfold=2).n_folds == 2


@pytest.mark.parametrize("preset", TORCH_PRESETS)
@pytest.mark.parametrize(
    ("option", "field", "value"),
    [
        ("batch_size=16", "batch_size", 16),
        ("dropout=0.25", "dropout", 0.25),
        ("epoch_size=2", "epoch_size", 2),
        ("max_epoch=7", "max_epochs", 7),
        ("nhid=50", "n_hidden", 50),
        ("optim=rmsprop", "optimizer", "rmsprop"),
        ("seed=3", "seed", 3),
        ("tenacity=1", "tenacity", 1),
    ],
)
def test_each_parameter_changes_itself_alone(
    preset: str, option: str, field: str, value: Any
) -> None:
    changed, plain = choose_preset(TORCH, preset, classifier=option), choose_preset(TORCH, preset)
    assert getattr(changed.classifier, field) == value
    same = {name: v for name, v in vars(changed.classifier).items() if name != field}
    assert same == {name: v for name, v in vars(plain.classifier).items() if name != field}
    assert (changed.n_folds, changed.lower_case) == (plain.n_folds, plain.lower_case)


def test_parameters_are_separated_by_commas_blanks_allowed() -> None:
    classifier = choose_preset(TORCH, classifier=" nhid=5 , dropout=0.1,,").classifier
    assert isinstance(classifier, TorchClassifier)
    assert (classifier.n_hidden, classifier.dropout) == (5, 0.1)


def test_a_changed_preset_says_so_in_its_name() -> None:
    assert choose_preset("senteval-exact").name == choose_preset("senteval-sklearn").name == ""
    assert choose_preset(TORCH, "papers").name == "papers"
    assert choose_preset(TORCH, "papers", classifier="optim=adam").name == "papers"
    changed = choose_preset(TORCH, classifier="tenacity=1,nhid=50")
    assert changed.name == "literature with nhid=50, tenacity=1"
    assert choose_preset(TORCH, classifier="nhid=50,tenacity=1") == changed


def test_the_device_is_where_torch_trains() -> None:
    classifier = choose_preset(TORCH, device="cuda").classifier
    assert isinstance(classifier, TorchClassifier)
    assert classifier.device == "cuda"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"protocol": "senteval-pytorch"},
            "unknown `protocol` 'senteval-pytorch'; did you mean 'senteval-torch'",
        ),
        (
            {"protocol": TORCH, "preset": "paper"},
            r"unknown `preset` 'paper'; did you mean 'papers'\?",
        ),
        (
            {"protocol": TORCH, "preset": "sklearn"},
            "unknown `preset` 'sklearn'; known: literature, papers",
        ),
        ({"protocol": TORCH, "kfold": 1}, "`kfold` must be at least 2, got 1"),
        ({"protocol": "senteval-sklearn", "kfold": 0}, "`kfold` must be at least 2, got 0"),
        (
            {"protocol": "senteval-sklearn", "preset": "papers"},
            "`preset` needs the `protocol` senteval-torch, got senteval-sklearn",
        ),
        (
            {"protocol": "senteval-sklearn", "classifier": "nhid=3"},
            "`classifier` needs the `protocol` senteval-torch, got senteval-sklearn",
        ),
        (
            {"protocol": TORCH, "classifier": "nhidd=3"},
            r"`classifier` nhidd=3: unknown key 'nhidd'; did you mean 'nhid'\?",
        ),
        ({"protocol": TORCH, "classifier": "nhid"}, "`classifier`: expected NAME=VALUE, got nhid"),
        (
            {"protocol": TORCH, "classifier": "nhid=many"},
            "`classifier` nhid=many: 'nhid' must be an integer, got 'many'",
        ),
        (
            {"protocol": TORCH, "classifier": "dropout="},
            "'dropout' must be a number, got ''",
        ),
        (
            {"protocol": TORCH, "classifier": "batch_size=0"},
            "'batch_size' must be at least 1",
        ),
        (
            {"protocol": TORCH, "classifier": "epoch_size=0"},
            "'epoch_size' must be at least 1",
        ),
        ({"protocol": TORCH, "classifier": "nhid=-1"}, "'nhid' must be at least 0"),
        (
            {"protocol": TORCH, "classifier": "seed=4294967296"},
            "'seed' must be at most 4294967295, got '4294967296'",
        ),
        (
            {"protocol": TORCH, "classifier": "tenacity=-1"},
            "'tenacity' must be at least 0",
        ),
        ({"protocol": TORCH, "classifier": "dropout=1"}, "'dropout' must be below 1, got '1'"),
        (
            {"protocol": TORCH, "classifier": "dropout=nan"},
            "'dropout' must be finite, got 'nan'",
        ),
        (
            {"protocol": TORCH, "classifier": "optim=adamm"},
            "`classifier` optim=adamm: 'optim': unknown value 'adamm'; did you mean 'adam'",
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        choose_preset(**arguments)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_is_known_to_the_classifier(name: str) -> None:
    classifier = choose_preset(TORCH, classifier=f"optim={name},max_epoch=0").classifier
    draw = np.random.default_rng(0)
    features, labels = draw.normal(size=(40, 3)), np.arange(40) % 2
    (predict,) = classifier.fit((features, labels), [0.0], n_classes=2)
    assert set(predict(features)) <= {0, 1}


def test_a_preset_or_a_parameter_alone_means_torch() -> None:
    assert choose_preset() == choose_preset("senteval-exact") == PRESETS["exact"]
    assert choose_preset(kfold=3).protocol == "senteval-exact"
    assert choose_preset(preset="papers") == PRESETS["papers"] == choose_preset(TORCH, "papers")
    assert choose_preset(classifier="nhid=3").protocol == TORCH


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_says_which_protocol_its_classifier_is_of(name: str) -> None:
    preset = PRESETS[name]
    families = (ExactLogistic, SklearnLogistic, TorchClassifier)
    (family,) = (each for each in families if each.protocol == preset.protocol)
    assert isinstance(preset.classifier, family)
