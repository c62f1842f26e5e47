"""What is asked of a task: settings, and the protocol that a result names is the one that ran."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from standins import QUICK, BagEncoder, Workshop, write_task
from standins.answers import write_answers

from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import KINDS, load_task, read_task
from polarity_bench.tasks.senteval.classifiers import (
    ClassifierFamily,
    ExactLogistic,
    SklearnLogistic,
    TorchClassifier,
)
from polarity_bench.tasks.senteval.presets import PRESETS, Preset, choose_preset
from polarity_bench.tasks.types.base import Settings


def test_ks_are_distinct_and_ascending() -> None:
    assert Settings(ks=(16, 4, 16)).ks == (4, 16)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("ks", (4, 0), "`ks` must be at least 1, got 0"),
        ("limit", 0, "`limit` must be at least 1, got 0"),
        ("workers", -1, "`workers` must be at least 1, got -1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(field: str, value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [1, 20])
def test_a_limit_cuts_every_kind_of_task_and_is_an_experiment(
    workshop: Workshop, limit: int
) -> None:
    settings = replace(QUICK, limit=limit)
    for spec in (
        *(workshop.trec(), workshop.labelled_lines(), workshop.sst_binary(), workshop.mrpc()),
        *(workshop.sts(), workshop.sick(relatedness=True), workshop.sick(relatedness=False)),
    ):
        whole, task = workshop.load(spec, QUICK), workshop.load(spec, settings)
        assert (whole.limit, task.limit) == (None, limit)
        assert task.experiment == "__".join(filter(None, [whole.experiment, f"limit_{limit}"]))
        assert task.digest != whole.digest
        assert task.digest == workshop.load(spec, settings).digest
        for part, n in task.counts.items():
            assert n == whole.counts[part] or n <= max(limit + 5, 6 * 5)
        assert sum(task.counts.values()) < sum(whole.counts.values())
        made = evaluate(BagEncoder(), task)
        assert made.limit == limit
        assert [*task.retrieved(made.arrays)] == []
        assert 0 <= abs(made.main.mean) <= 1


@pytest.mark.parametrize(
    ("preset", "protocol", "family"),
    [
        (PRESETS["exact"], "senteval-exact", ExactLogistic),
        (PRESETS["sklearn"], "senteval-sklearn", SklearnLogistic),
        (choose_preset(preset="papers", classifier="max_epoch=1"), "senteval-torch", "papers"),
        (choose_preset(classifier="max_epoch=1"), "senteval-torch", "literature"),
    ],
    ids=["exact", "sklearn", "papers", "literature"],
)
def test_a_preset_records_the_very_protocol_that_runs(
    workshop: Workshop,
    monkeypatch: pytest.MonkeyPatch,
    preset: object,
    protocol: str,
    family: object,
) -> None:
    """A state that names one protocol and runs the other's classifier cannot be written down."""
    fitted: list[ClassifierFamily] = []
    for known in (ExactLogistic, SklearnLogistic, TorchClassifier):
        _watch(monkeypatch, known, fitted)
    settings = Settings(of_types=(preset,))
    result = evaluate(BagEncoder(), workshop.load(workshop.sst_binary(), settings))
    assert result.key.protocol["name"] == protocol
    (classifier,) = set(fitted)
    assert classifier == settings.of(Preset).classifier
    if isinstance(classifier, TorchClassifier):
        assert protocol == "senteval-torch"
        assert result.key.protocol["preset"].startswith(f"{family} with ")
        for name in ("batch_size", "epoch_size", "tenacity", "max_epochs"):
            assert result.key.protocol[name] == getattr(classifier, name)
    else:
        assert isinstance(classifier, family)  # type: ignore[arg-type]


def _watch(monkeypatch: pytest.MonkeyPatch, family: type, fitted: list[ClassifierFamily]) -> None:
    name = "fit_subsets" if "fit_subsets" in vars(family) else "fit"
    fit = getattr(family, name)

    def watched(self: ClassifierFamily, *arguments: object, **options: object) -> object:
        fitted.append(self)
        return fit(self, *arguments, **options)

    monkeypatch.setattr(family, name, watched)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_says_what_tables_and_mteb_call_it(name: str) -> None:
    kind = KINDS[name]
    assert kind.mteb_type
    assert kind.mteb_prompt.endswith(".")
    assert {"kind", "version"} & set(kind.moving) == set()  # they count for every kind
    assert set(kind.moving) <= set(kind.model_fields)
    if not kind.has_k:
        assert kind.heading
        assert kind.measure
        assert kind.columns
        assert all(str(key) == str(ScoreKey.parse(str(key))) for _, key in kind.columns)


def test_the_columns_of_a_kind_are_scores_that_it_gives(workshop: Workshop) -> None:
    given: dict[str, set[ScoreKey]] = {}
    specs = [workshop.mrpc(), workshop.stsb(relatedness=True), workshop.sts(), workshop.probing()]
    specs.append(read_task(write_answers(workshop.tasks, head="paired = true")))
    for spec in specs:
        task = workshop.load(spec)
        scores = evaluate(BagEncoder(), task).scores
        given[spec.kind] = set(scores)
        assert task.main_score in scores
    assert set(given) == {name for name, kind in KINDS.items() if kind.columns}
    for name, keys in given.items():
        assert {key for _, key in KINDS[name].columns} <= keys


def test_a_task_is_loaded_by_either_name(tmp_path: Path) -> None:
    write_task(tmp_path)
    access = DataAccess(offline=True)
    for name in ("mini", "MiniPolarityRetrieval"):
        task = load_task(name, Settings(ks=(2,)), access=access, task_dir=tmp_path)
        assert task.protocol["k"] == [2]
        assert task.digest == read_task(tmp_path / "mini.toml").load(access, Settings()).digest
    with pytest.raises(InputError, match=r"unknown task 'minni'; did you mean 'mini'"):
        load_task("minni", access=access, task_dir=tmp_path)
