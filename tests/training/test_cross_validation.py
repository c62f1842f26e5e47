"""Cross-validation: the same rows for every method, the same bytes however often it is stopped."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from standins import QUERIES, SOURCES, Workshop, write_task

from polarity_bench.cross_validation import fold_results as module
from polarity_bench.cross_validation.fold_results import (
    Experiment,
    folds_of,
    read_experiments,
    run_experiments,
)
from polarity_bench.cross_validation.folds import folds
from polarity_bench.cross_validation.methods import (
    FewShotSetFit,
    FineTuning,
    FoldContext,
    Frozen,
    Method,
    Predictions,
    full_title,
)
from polarity_bench.cross_validation.protocol import PROTOCOLS, Protocol
from polarity_bench.data.sampling import sample
from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError
from polarity_bench.results.frame import read_records
from polarity_bench.results.packed_results import pack
from polarity_bench.results.result_files import read_results
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.training.losses.metric import SoftTriple, SupCon

OFFLINE = EncoderOptions(offline=True)
FEW = Protocol(folds=4, rows=6, seeds=(3,))
QUICK = FineTuning(epochs=2, batch_size=4, rate=1e-3)
PROXIED = FineTuning(loss=SoftTriple(proxies_per_class=2), epochs=2, batch_size=4, rate=1e-3)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> LabelledTexts:
    workshop = Workshop(tmp_path_factory.mktemp("made"))
    workshop.labelled_lines()
    return LabelledTexts.of("little-mr", workshop.access, workshop.tasks)


Make = Callable[..., Experiment]


@pytest.fixture
def make(data: LabelledTexts, tiny_model: Path) -> Make:
    def make(method: Method = QUICK, protocol: Protocol = FEW, **given: Any) -> Experiment:
        more: dict[str, Any] = {"model": str(tiny_model), "options": OFFLINE} | given
        return Experiment(method, more.pop("data", data), protocol, **more)

    return make


def files(output: Path) -> dict[str, list[dict[str, Any]]]:
    """The folds of each stored result, without their durations, by its path."""
    found = {}
    for path in output.rglob("*.queries.safetensors"):
        folds = folds_of(load_file(path))
        kept = [{name: x for name, x in fold.items() if name != "seconds"} for fold in folds]
        found[path.relative_to(output).as_posix()] = kept
    assert found
    return found


def only(output: Path) -> Path:
    """The path of the only result."""
    (name,) = files(output)
    return output / name.replace(".queries.safetensors", ".json")


def stop_in(monkeypatch: pytest.MonkeyPatch, at: int, method: type = FineTuning) -> None:
    """Have a method die when it is called for the so manieth time, from 1."""
    calls: list[int] = []
    predict = method.predict  # type: ignore[attr-defined]

    def dying(self: Method, fold: FoldContext) -> Predictions:
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        found: Predictions = predict(self, fold)
        return found

    monkeypatch.setattr(method, "predict", dying)


# Data and protocols


def test_data_is_all_rows_of_a_transfer_task(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.trec()
    workshop.mrpc()
    trec = LabelledTexts.of("little-trec", workshop.access, workshop.tasks)
    assert len(trec.texts) == len(trec.labels) == 6 * (8 + 4)
    assert np.bincount(trec.labels).tolist() == [12] * 6
    assert trec.classes[0] == "abbreviation"
    mrpc = LabelledTexts.of("little-mrpc", workshop.access, workshop.tasks)
    assert all(len(pair) == 2 for pair in mrpc.texts)
    assert trec.digest != mrpc.digest


def test_a_data_set_too_small_for_sentevals_folds_will_do(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.labelled_lines(n=5)
    assert len(LabelledTexts.of("little-mr", workshop.access, workshop.tasks).texts) == 10


def test_a_task_of_another_kind_is_refused(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path / "made")
    workshop.sts()
    with pytest.raises(InputError, match=r"`tasks` little-sts: expected a task of .*, got sts"):
        LabelledTexts.of("little-sts", workshop.access, workshop.tasks)


def test_data_may_be_all_texts_of_a_polarity_task(tmp_path: Path) -> None:
    write_task(tmp_path)
    data = LabelledTexts.of("mini", DataAccess(offline=True), tmp_path)
    assert sorted(data.texts) == sorted(text for text, _ in [*SOURCES, *QUERIES])
    labels = {text: "good" if label == "1" else "bad" for text, label in [*SOURCES, *QUERIES]}
    named = [data.classes[code] for code in data.labels]
    assert named == [labels[text] for text in data.texts if isinstance(text, str)]


LABELS = np.repeat([0, 1, 2], [30, 20, 10])


def test_splits_are_those_of_the_folds_each_seed_anew() -> None:
    protocol = Protocol(folds=5, rows=6, seeds=(1, 2))
    found = list(protocol.splits(LABELS))
    assert [(seed, fold) for seed, fold, *_ in found] == [(s, f) for s in (1, 2) for f in range(5)]
    for seed, fold, train, test in found:
        all_train, all_test = folds(LABELS, 5, seed)[fold]
        assert test.tolist() == all_test.tolist()
        kept = sample(LABELS[all_train], 6, [seed, fold])
        assert train.tolist() == all_train[kept].tolist()
    assert found[0][3].tolist() != found[5][3].tolist()


def test_the_rows_of_two_folds_have_no_more_in_common_than_by_chance() -> None:
    """One seed for all cuts took the same places of each fold, so much the same rows."""
    labels = np.repeat([0, 1], 2000)
    trains = [set(train.tolist()) for _, _, train, _ in Protocol().splits(labels)]
    common = [len(a & b) for place, a in enumerate(trains) for b in trains[:place]]
    assert np.mean(common) < 0.2  # of 20; 0.1 by chance


def test_a_sample_is_drawn_once_for_all_seeds_and_all_rows_of_it_are_used() -> None:
    protocol = replace(PROTOCOLS["triple-entropy"], sample=30)
    drawn = sample(LABELS, 30, 2)
    for seed in protocol.seeds:
        parts = [part for part in protocol.splits(LABELS) if part[0] == seed]
        assert sorted(row for *_, test in parts for row in test) == drawn.tolist()
        for *_, train, test in parts:
            assert sorted([*train, *test]) == drawn.tolist()


def test_the_papers_protocols() -> None:
    few, triple = PROTOCOLS["few-shot"], PROTOCOLS["triple-entropy"]
    assert (few.folds, few.rows, few.sample) == (40, 20, None)
    assert (triple.folds, triple.rows, triple.seeds) == (5, None, (2, 16, 128, 2048))


@pytest.mark.parametrize("seeds", [(), (1, 1), (-1,), (4_294_967,)])
def test_seeds_are_different_whole_numbers(seeds: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"`seeds` must be distinct integers from 0 to 4,294,966"):
        Protocol(seeds=seeds)


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (
            Protocol(folds=21, rows=None),
            "`folds` must be at most 20, because the class 0 has only 20 rows, got 21",
        ),
        (Protocol(folds=4, rows=31), "`rows` 31: the fold has 30 training rows; choose at most 30"),
        (Protocol(folds=4, rows=1), "`rows` 1: each of the 2 classes needs a row"),
        (Protocol(folds=4, sample=41), "`sample` 41: the data has 40 rows; choose at most 40"),
    ],
)
def test_data_that_cannot_be_divided_so_is_refused_before_any_encoder_is_loaded(
    make: Make, tmp_path: Path, protocol: Protocol, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        run_experiments([make(protocol=protocol, model="no/such-encoder")], tmp_path / "out")
    assert not (tmp_path / "out").exists()


# Methods


def test_every_method_is_given_the_same_rows(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, list[Any]] = {}

    def predict(self: Method, fold: FoldContext) -> Predictions:
        rows = (fold.train.tolist(), fold.test.tolist(), fold.seed, fold.texts_at(fold.train))
        seen.setdefault(full_title(self), []).append(rows)
        return Predictions({"dense": fold.data.labels[fold.test]})

    for method in (FineTuning, Frozen):
        monkeypatch.setattr(method, "predict", predict)
    run_experiments([make(QUICK), make(PROXIED), make(Frozen())], tmp_path)
    first, *others = seen.values()
    assert len(others) == 2
    assert all(other == first for other in others)
    assert len({seed for *_, seed, _ in first}) == 4


def test_frozen_is_a_logistic_regression_on_the_vectors(
    make: Make, data: LabelledTexts, tmp_path: Path, tiny_model: Path
) -> None:
    (result,) = run_experiments([make(Frozen())], tmp_path)
    vectors = SentenceTransformer(str(tiny_model), device="cpu").encode(list(data.texts))
    folds = files(tmp_path).popitem()[1]
    for found, (seed, fold, train, test) in zip(folds, FEW.splits(data.labels), strict=True):
        regression = LogisticRegression(max_iter=1000).fit(vectors[train], data.labels[train])
        guessed, truth = regression.predict(vectors[test]), data.labels[test]
        assert found == {
            "seed": seed,
            "fold": fold,
            "train": 6,
            "test": 10,
            "empty_batches": 0,
            "macro_f1": pytest.approx(f1_score(truth, guessed, average="macro")),
            "accuracy": pytest.approx(accuracy_score(truth, guessed)),
        }
    values = [fold["macro_f1"] for fold in folds]
    assert (result.main.mean, result.main.std) == (np.mean(values), np.std(values))
    assert result.main.n == 4


def test_proxies_predict_beside_the_linear_layer(make: Make, tmp_path: Path) -> None:
    (plain, proxied) = run_experiments([make(), make(PROXIED)], tmp_path)
    assert {str(key) for key in plain.scores} == {"macro_f1", "accuracy"}
    assert {str(key) for key in proxied.scores - plain.scores.keys()} == {
        "macro_f1_proxies",
        "accuracy_proxies",
    }


def test_batches_with_nothing_to_compare_are_counted(make: Make, tmp_path: Path) -> None:
    alone = FineTuning(loss=SupCon(), epochs=1, batch_size=1)
    (result,) = run_experiments([make(alone)], tmp_path)
    assert result.arrays["empty_batches"].tolist() == [6] * 4


def test_the_encoder_is_left_as_it_was(make: Make, tmp_path: Path) -> None:
    run_experiments([make(Frozen())], tmp_path / "before")
    run_experiments([make(), make(Frozen())], tmp_path / "after")
    (name,) = files(tmp_path / "before")
    assert files(tmp_path / "after")[name] == files(tmp_path / "before")[name]


def test_pairs_and_prompts_are_classified(tmp_path: Path, make: Make) -> None:
    workshop = Workshop(tmp_path)
    workshop.mrpc()
    pairs = LabelledTexts.of("little-mrpc", workshop.access, workshop.tasks)
    both = [QUICK, Frozen()]
    plain = run_experiments([make(m, data=pairs) for m in both], tmp_path / "out")
    prompted = replace(OFFLINE, prompt="The soup was ")
    asked = run_experiments([make(m, data=pairs, options=prompted) for m in both], tmp_path / "out")
    assert len(files(tmp_path / "out")) == 4
    prompts = [result.key.encoder.prompt for result in (*plain, *asked)]
    assert prompts == [None, None, *["The soup was "] * 2]


@pytest.mark.slow
@pytest.mark.parametrize(("own", "asked"), [("The soup was ", None), ("The soup was ", "")])
def test_setfits_head_reads_each_text_with_the_prompt_once(
    make: Make, tmp_path: Path, tiny_model: Path, own: str, asked: str | None
) -> None:
    """The texts hold it already; SetFit encodes by the model's own default, for its head alone."""
    model = SentenceTransformer(str(tiny_model), device="cpu")
    model.prompts["say"], model.default_prompt_name = own, "say"
    model.save_pretrained(str(tmp_path / "prompted"), create_model_card=False)
    by_default = make(
        FewShotSetFit(), model=str(tmp_path / "prompted"), options=replace(OFFLINE, prompt=asked)
    )
    (found,) = run_experiments([by_default], tmp_path / "default")
    prompted = replace(OFFLINE, prompt=own if asked is None else None)
    (expected,) = run_experiments([make(FewShotSetFit(), options=prompted)], tmp_path / "given")
    assert found.key.encoder.prompt == expected.key.encoder.prompt
    (folds,), (expected_folds,) = (files(tmp_path / each).values() for each in ("default", "given"))
    assert folds == expected_folds


# Files


def test_a_run_killed_in_a_fold_ends_with_the_same_folds(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_experiments([make(PROXIED)], tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_in(patch, 3)
        with pytest.raises(KeyboardInterrupt):
            run_experiments([make(PROXIED)], tmp_path / "cut")
    (half,) = read_experiments(tmp_path / "cut")
    assert half.main.n == len(half.arrays["fold"]) == 2
    with monkeypatch.context() as patch:
        stop_in(patch, 3)  # of two that are left
        (again,) = run_experiments([make(PROXIED)], tmp_path / "cut")
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    assert again.scores == whole[0].scores
    before = only(tmp_path / "cut").stat()
    with monkeypatch.context() as patch:
        stop_in(patch, 1)  # of none
        assert run_experiments([make(PROXIED)], tmp_path / "cut") == [again]
    assert only(tmp_path / "cut").stat() == before


@pytest.mark.parametrize("n_done", [2, 4])
def test_a_run_killed_while_a_result_is_written_keeps_the_folds(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_done: int
) -> None:
    """The provenance is removed first and written last; the arrays have all folds."""
    whole = run_experiments([make(Frozen())], tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_in(patch, n_done + 1, Frozen)
        with suppress(KeyboardInterrupt):
            run_experiments([make(Frozen())], tmp_path / "cut")
    path = only(tmp_path / "cut")
    path.with_suffix(".provenance.json").unlink()
    with pytest.raises(InputError, match="contains no results of `fewshot`"):
        read_experiments(tmp_path / "cut")
    with monkeypatch.context() as patch:
        stop_in(patch, 5 - n_done, Frozen)  # of those that are left
        (again,) = run_experiments([make(Frozen())], tmp_path / "cut")
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    assert again.scores == whole[0].scores


def test_a_packed_result_of_fewer_folds_is_written_again(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the last of the folds was killed while its result was written."""
    with monkeypatch.context() as patch:
        stop_in(patch, 3, Frozen)
        with suppress(KeyboardInterrupt):
            run_experiments([make(Frozen())], tmp_path)
    pack(tmp_path)
    (whole,) = run_experiments([make(Frozen())], tmp_path)
    whole.path.unlink()
    whole.path.with_suffix(".provenance.json").unlink()
    with pytest.raises(InputError, match="the file is damaged or a Git LFS pointer"):
        read_experiments(tmp_path)
    (again,) = run_experiments([make(Frozen())], tmp_path)
    assert again.scores == whole.scores


def test_a_result_without_its_values_is_done_again(make: Make, tmp_path: Path) -> None:
    (first,) = run_experiments([make(Frozen())], tmp_path)
    only(tmp_path).with_suffix(".queries.safetensors").unlink()
    with pytest.raises(InputError, match="the values per query are missing"):
        read_experiments(tmp_path)
    (again,) = run_experiments([make(Frozen())], tmp_path)
    assert again.scores == first.scores


def test_an_encoder_that_cuts_its_vectors_is_refused(
    make: Make, tmp_path: Path, tiny_model: Path
) -> None:
    cut = SentenceTransformer(str(tiny_model), device="cpu", truncate_dim=12)
    cut.save_pretrained(str(tmp_path / "cut"), create_model_card=False)
    for method in (Frozen(), FineTuning(epochs=1)):
        with pytest.raises(InputError, match=r"the encoder truncates its vectors to 12 dimensions"):
            run_experiments([make(method, model=str(tmp_path / "cut"))], tmp_path / "out")


@pytest.mark.slow
def test_two_workers_write_the_folds_of_one(make: Make, tmp_path: Path) -> None:
    every = [make(PROXIED), make(Frozen())]
    run_experiments(every, tmp_path / "one")
    run_experiments(every, tmp_path / "two", workers=2)
    assert files(tmp_path / "two") == files(tmp_path / "one")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """As at a terminal: what a shell runs in the background ignores interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("how", ["interrupted", "worker killed"])
def test_workers_end_at_once_with_what_goes_wrong(make: Make, tmp_path: Path, how: str) -> None:
    """A fold that would take minutes, begun once the workers have folds behind them."""
    experiments = [make(Frozen()), make(FineTuning(epochs=50_000, batch_size=4))]
    others = set(multiprocessing.active_children())  # joblib's, of tests before
    went_wrong: list[float] = []

    def workers() -> list[Any]:
        return [each for each in multiprocessing.active_children() if each not in others]

    def stop() -> None:
        while not list(tmp_path.rglob("frozen-*/*.json")):
            time.sleep(0.1)
        time.sleep(3)
        went_wrong.append(time.monotonic())
        if how == "interrupted":
            signal.raise_signal(signal.SIGINT)  # to this thread, which wakes no other
        else:
            workers()[0].kill()

    threading.Thread(target=stop).start()
    expected = {
        "interrupted": pytest.raises(KeyboardInterrupt),
        "worker killed": pytest.raises(
            InputError, match=r"`workers` 2: .* died, .* same command again"
        ),
    }
    with expected[how]:
        run_experiments(experiments, tmp_path, workers=2)
    assert time.monotonic() - went_wrong[0] < 30
    assert not workers()
    assert not list(tmp_path.rglob("*.lock"))


def test_damaged_values_of_folds_are_refused_and_made_again(make: Make, tmp_path: Path) -> None:
    (whole,) = run_experiments([make(Frozen())], tmp_path)
    (values,) = tmp_path.rglob("*.queries.safetensors")
    content = bytearray(values.read_bytes())
    content[-1] ^= 1
    values.write_bytes(content)
    with pytest.raises(InputError, match=r"the file is damaged .*, or run little-mr again"):
        read_experiments(tmp_path)
    (again,) = run_experiments([make(Frozen())], tmp_path)
    for name in set(whole.arrays) - {"seconds"}:
        assert np.array_equal(again.arrays[name], whole.arrays[name])
    assert values.read_bytes() != bytes(content)
    assert read_experiments(tmp_path)


def test_a_full_disk_is_said(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        InputError, match=r"the fold cannot be stored; .* same command again: .*No space left"
    ):
        run_experiments([make(Frozen())], tmp_path)


def test_two_processes_do_not_work_on_one_experiment(make: Make, tmp_path: Path) -> None:
    run_experiments([make(Frozen())], tmp_path)
    with (
        FileLock(f"{only(tmp_path)}.lock"),
        pytest.raises(
            InputError,
            match=r"json: another process is running this experiment; wait until that",
        ),
    ):
        run_experiments([make(Frozen())], tmp_path)
    run_experiments([make(Frozen())], tmp_path)
    assert len(files(tmp_path)) == 1  # no lock is left


def test_whatever_decides_scores_decides_the_file(
    make: Make, data: LabelledTexts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method in (Frozen, FineTuning):
        monkeypatch.setattr(
            method, "predict", lambda _, f: Predictions({"dense": f.data.labels[f.test]})
        )
    others = [
        make(),
        make(replace(QUICK, rate=2e-3)),
        make(FineTuning(loss=SupCon())),
        make(FineTuning(loss=SupCon(), beta=0.9)),
        make(Frozen()),
        make(protocol=replace(FEW, rows=7)),
        make(protocol=replace(FEW, seeds=(4,))),
        make(options=replace(OFFLINE, max_tokens=8)),
        make(data=replace(data, texts=[*data.texts[1:], "The a was warm."])),
    ]
    run_experiments(others, tmp_path)
    assert len(files(tmp_path)) == len(others)


def test_a_renamed_encoder_is_run_again_and_read_once(
    make: Make, tmp_path: Path, tiny_model: Path
) -> None:
    """As other results are; both are the same experiment."""
    shutil.copytree(tiny_model, tmp_path / "other")
    (first,) = run_experiments([make(Frozen())], tmp_path / "out")
    (again,) = run_experiments([make(Frozen(), model=str(tmp_path / "other"))], tmp_path / "out")
    assert len(files(tmp_path / "out")) == 2
    assert (again.scores, again.key.digest) == (first.scores, first.key.digest)
    assert len(read_experiments(tmp_path / "out")) == 1


def test_setfit_refuses_pairs_before_anything_is_run(
    make: Make, data: LabelledTexts, tmp_path: Path
) -> None:
    pairs = replace(data, texts=[(str(text), "b") for text in data.texts])
    with pytest.raises(InputError, match="`losses` setfit: SetFit takes single texts, got pairs"):
        run_experiments([make(data=pairs), make(FewShotSetFit(), data=pairs)], tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_encoder_that_was_replaced_in_its_folder_is_another_one(
    make: Make, tmp_path: Path, tiny_model: Path
) -> None:
    """As a notebook does that trains anew into one folder."""
    folder = shutil.copytree(tiny_model, tmp_path / "tuned")
    (first,) = run_experiments([make(Frozen(), model=str(folder))], tmp_path / "out")
    weights = load_file(folder / "model.safetensors")
    moved = {name: weight + 0.1 for name, weight in weights.items()}
    save_file(moved, folder / "model.safetensors", metadata={"format": "pt"})
    (second,) = run_experiments([make(Frozen(), model=str(folder))], tmp_path / "out")
    assert len(files(tmp_path / "out")) == 2
    assert second.key.encoder != first.key.encoder


def test_a_result_of_another_version_is_refused(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_experiments([make(Frozen())], tmp_path)
    monkeypatch.setattr(module, "VERSION", 2)
    with pytest.raises(
        InputError, match=r"expected version 2 of `fewshot`, got version 1; move the file"
    ):
        read_experiments(tmp_path)
    run_experiments([make(Frozen())], tmp_path)  # which has a result of its own
    assert len(files(tmp_path)) == 2


def test_a_damaged_result_is_named(make: Make, tmp_path: Path) -> None:
    run_experiments([make(Frozen())], tmp_path)
    path = only(tmp_path)
    path.write_text(path.read_text().replace('"accuracy": 0', '"accuracy": 1'))
    with pytest.raises(InputError, match=f"{path}: the scores were edited or are incomplete"):
        read_experiments(tmp_path)


def test_a_folder_is_read_as_it_was_written(make: Make, tmp_path: Path) -> None:
    made = run_experiments([make(), make(Frozen())], tmp_path)
    found = {result.path: result for result in read_experiments(tmp_path)}
    assert found == {result.path: result for result in made}
    for result in made:
        assert all((found[result.path].arrays[n] == x).all() for n, x in result.arrays.items())
        assert result.key.encoder.digest == result.path.parents[2].name


def test_results_of_folds_stay_apart_from_those_of_encoders(
    make: Make, tmp_path: Path, data: LabelledTexts
) -> None:
    (made,) = run_experiments([make(Frozen())], tmp_path / "fewshot")
    assert list(read_results(tmp_path)) == []
    assert [result.path for result in read_results(tmp_path, of_folds=None)] == [made.path]
    table = read_records(tmp_path)
    assert set(table["metric"]) == {"macro_f1", "accuracy"}
    assert set(table["n"]) == {4}
    assert set(table["recipe"]) == {"frozen"}
    counts = dict(zip(data.classes, np.bincount(data.labels).tolist(), strict=True))
    assert made.counts == counts


def test_what_cannot_be_trained_is_refused(make: Make, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`model` random: a baseline has no weights"):
        run_experiments([make(model="random")], tmp_path)
    with pytest.raises(InputError, match="`layers` 3: the encoder has 2"):
        run_experiments([make(replace(QUICK, layers=3))], tmp_path)
    assert not list(tmp_path.rglob("*.json"))
