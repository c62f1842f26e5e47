"""Seen in training: hashes of training texts are stored, and counted among a task's texts."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standins import QUERIES, SOURCES, Bench, Done, call, write_task
from standins.training import HERE, SMALL, job_of, made_run, run

from polarity_bench.boards.unseen_columns import seen_in_training
from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.load import SentenceTransformerEncoder, load_encoder
from polarity_bench.encoders.reference_encoder import Base, write_base
from polarity_bench.errors import InputError
from polarity_bench.evaluation.contamination import (
    TEXTS_FILE,
    TrainingTexts,
    are_known,
    known_to,
    seen_rows,
    texts_before,
)
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.progress import no_bar
from polarity_bench.results.result_files import read_results
from polarity_bench.tasks.catalogue import load_task, load_tasks
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.task import PolaritySpec
from polarity_bench.training.data import load_training_data
from polarity_bench.training.recipes.base import Recipe
from polarity_bench.training.recipes.margins.recipe import Margins
from polarity_bench.training.recipes.scl.recipe import Scl
from polarity_bench.training.recipes.setfit.recipe import SetFit
from polarity_bench.training.recipes.triple_entropy import TripleEntropy
from polarity_bench.training.run_folder import run_folder
from polarity_bench.training.train import open_context
from polarity_bench.values import normalised

SOURCE_TEXTS = [text for text, _ in SOURCES]

# Counts


def count_seen(texts: Sequence[str], trained: Sequence[str]) -> dict[str, int]:
    seen = seen_rows(texts, TrainingTexts.of(trained))
    return {way: int(rows.sum()) for way, rows in seen.items()}


def test_the_four_ways_by_hand() -> None:
    trained = ["A warm, kind day", "warm", "art", "the sea at night", "It's over!"]
    counts = count_seen(
        [
            "A warm, kind day",  # letter for letter; it holds "warm"
            "a WARM kind day.",  # but for case and punctuation; so does it
            "kind day",  # inside a longer one
            "sea",  # likewise
            "a warm evening",  # holds "warm"
            "warm",  # letter for letter, and inside a longer one
            "a party",  # holds the letters of "art", not the word
            "the sea at noon",  # holds no whole one
            "warmth",
            "it 's over",  # as a tokeniser leaves it
            "...",
        ],
        trained,
    )
    assert counts == {"exactly": 2, "normalised": 4, "inside": 3, "containing": 3}


def test_nothing_is_seen_of_nothing() -> None:
    none = {"exactly": 0, "normalised": 0, "inside": 0, "containing": 0}
    assert count_seen([], ["a"]) == count_seen(["a"], []) == none
    assert count_seen(["..."], ["!"]) == none, "two texts without a word are not one"
    assert count_seen(["..."], ["..."]) == none | {"exactly": 1, "normalised": 1}


LINES = st.lists(st.text("aB -", max_size=14), max_size=8)


@given(LINES, LINES)
def test_counts_are_those_of_a_double_loop(texts: list[str], trained: list[str]) -> None:
    def holds(long: str, short: str) -> bool:
        """By blanks around both, as nothing in the code does it."""
        whole = f" {normalised(short)} "
        return normalised(short) != "" and whole in f" {normalised(long)} "

    def alike(one: str, other: str) -> bool:
        return one == other or normalised(one) == normalised(other) != ""

    def count(test: Callable[[str, str], bool]) -> int:
        return sum(any(test(text, other) for other in trained) for text in texts)

    def longer(one: str, other: str) -> bool:
        return len(normalised(one)) > len(normalised(other))

    assert count_seen(texts, trained) == {
        "exactly": sum(text in trained for text in texts),
        "normalised": count(alike),
        "inside": count(lambda text, other: holds(other, text) and longer(other, text)),
        "containing": count(lambda text, other: holds(text, other) and longer(text, other)),
    }


def test_long_texts_are_found_by_their_words() -> None:
    """Words beyond those that an index may look at first decide too."""
    trained = ["one two three four five six", "one two three four", "one two three"]
    asked = ["zero one two three four nine", "two three four five", "three four five seven"]
    counts = count_seen(asked, trained)
    assert counts == {"exactly": 0, "normalised": 0, "inside": 1, "containing": 1}


@pytest.mark.real
@pytest.mark.slow
def test_what_training_on_sst2_has_seen(data_dir: Path) -> None:
    """Of the unseen sources six stand among 67,349 phrases, with other punctuation."""
    access = DataAccess(data_dir, offline=True)
    known = load_tasks()
    pool = load_training_data(known["sst2"], access, held_out=0, seed=0).pool
    found = {}
    for name in ("sst2", "sst2-unseen"):
        spec = known[name]
        assert isinstance(spec, PolaritySpec)
        task = spec.load(access, Settings())
        found[name] = count_seen(task.source.texts, pool.texts)
    assert found == {
        "sst2": {"exactly": 4360, "normalised": 4360, "inside": 3755, "containing": 3863},
        "sst2-unseen": {"exactly": 0, "normalised": 6, "inside": 7, "containing": 1788},
    }


# What a run was trained on


def assert_trained_on(folder: Path, texts: Sequence[str]) -> None:
    assert TrainingTexts.read(folder) == TrainingTexts.of(texts)


def known_of(folder: Path, texts: Sequence[str] = SOURCE_TEXTS) -> list[str]:
    """Return those of some texts that an encoder was trained on, letter for letter."""
    trained_on = TrainingTexts.read(folder) or TrainingTexts()
    return [*compress(texts, seen_rows(texts, trained_on)["exactly"])]


def test_a_recipe_of_the_whole_pool(task_dir: Path, tmp_path: Path) -> None:
    folder = made_run(tmp_path / "x", task_dir, Margins(held_out=0))
    assert_trained_on(folder, SOURCE_TEXTS)


def test_rows_held_out_were_not_trained_on(task_dir: Path, tmp_path: Path) -> None:
    found = [
        known_of(made_run(tmp_path / str(seed), task_dir, replace(SMALL, seed=seed)))
        for seed in range(3)
    ]
    assert [len(texts) for texts in found] == [len(SOURCES) - 6] * 3
    assert len({tuple(texts) for texts in found}) > 1, "the seed draws them"


@pytest.mark.parametrize(
    ("recipe", "n_texts"),
    [
        (SetFit(samples_per_class=3), 6),
        (SetFit(samples_per_class=3, seed=1), 6),
        (SetFit(samples_per_class="all"), 24),
        (TripleEntropy(samples=8), 8),
        (TripleEntropy(), 24),
    ],
)
def test_recipes_that_draw(task_dir: Path, tmp_path: Path, recipe: Recipe, n_texts: int) -> None:
    folder = made_run(tmp_path / "x", task_dir, recipe)
    texts = known_of(folder)
    assert_trained_on(folder, texts)
    labels = dict(SOURCES)
    counts = np.unique([labels[text] for text in texts], return_counts=True)[1]
    assert counts.tolist() == [n_texts / 2] * 2


def test_pairs_of_another_place(task_dir: Path, tmp_path: Path) -> None:
    lines = [
        {"gold_label": label, "sentence1": f"Boats {i} sail.", "sentence2": f"A {label} boat."}
        for i, label in enumerate(["entailment", "neutral", "-", "contradiction"])
    ]
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("".join(json.dumps(line) + "\n" for line in lines))
    folder = made_run(tmp_path / "x", task_dir, Scl(pairs=str(pairs)))
    premises = ["Boats 0 sail.", "Boats 1 sail.", "Boats 3 sail."]
    hypotheses = ["A entailment boat.", "A neutral boat.", "A contradiction boat."]
    assert_trained_on(folder, [*premises, *hypotheses])


def test_examples_from_outside(task_dir: Path, tmp_path: Path) -> None:
    import pandas as pd

    rows = {"anchor": ["the a"], "positive": ["the b"], "negative": ["the c"]}
    pd.DataFrame(rows).to_parquet(tmp_path / "own.parquet")
    recipe = Margins(examples_from=tmp_path / "own.parquet", held_out=0)
    folder = made_run(tmp_path / "x", task_dir, recipe)
    assert_trained_on(folder, ["the a", "the b", "the c"])


def test_what_its_base_was_trained_on_counts_too(task_dir: Path, tmp_path: Path) -> None:
    first = made_run(tmp_path / "one", task_dir, SetFit(samples_per_class=3))
    again = SetFit(samples_per_class=2, seed=7)
    second = made_run(tmp_path / "two", task_dir, again, base=str(first))
    alone = made_run(tmp_path / "three", task_dir, again)
    assert_trained_on(second, [*known_of(first), *known_of(alone)])


@pytest.mark.parametrize("trained", [False, True])
def test_a_base_that_nothing_was_better_than_was_trained_on_nothing_more(
    tiny_model: Path, task_dir: Path, tmp_path: Path, trained: bool
) -> None:
    """The learning rate of 0 leaves every epoch as good as the base, and no better."""
    base = tiny_model
    if trained:
        base = as_trained(tiny_model, tmp_path / "one", task_dir, SetFit(samples_per_class=3))
    made = run(base, task_dir, tmp_path / "two", replace(SMALL, rate=1e-12))
    assert made.kept == 0
    assert TrainingTexts.read(made.folder) == (TrainingTexts.read(base) or TrainingTexts())
    assert (TrainingTexts.read(base) is not None) == trained


def test_an_encoder_from_elsewhere_is_not_known(tiny_model: Path) -> None:
    for model in (str(tiny_model), "org/encoder", "minilm"):
        assert TrainingTexts.read(model) is None


def test_the_file_has_no_text_and_equal_texts_give_equal_bytes(
    task_dir: Path, tmp_path: Path
) -> None:
    folder = made_run(tmp_path / "x", task_dir, Margins(held_out=0))
    content = (folder / TEXTS_FILE).read_bytes()
    assert content == TrainingTexts.of(reversed(SOURCE_TEXTS)).to_bytes()
    stored = json.loads(gzip.decompress(content))
    assert stored.keys() == {"exact", "words"}
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in stored["exact"])
    assert all(re.fullmatch("[0-9a-f]{8}( [0-9a-f]{8})*", each) for each in stored["words"])


# Only the name of a case is a parameter: gzip writes the time, and the test's name must not move.
DAMAGED = {
    "empty": b"",
    "not gzip": b"text",
    "a list": gzip.compress(b"[]"),
    "no keys": gzip.compress(b"{}"),
    "deep": gzip.compress(b"[" * 100_000),
    "a byte": gzip.compress(b"{}")[:10] + b"\xff" * 20,
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: str) -> None:
    (tmp_path / TEXTS_FILE).write_bytes(DAMAGED[damage])
    with pytest.raises(InputError, match=rf"{TEXTS_FILE}: (cannot be read|the compressed file is)"):
        TrainingTexts.read(tmp_path)


# What a training on top of a training may hold out


def held_out_of(base: Path, task_dir: Path, recipe: Recipe) -> set[str]:
    job = job_of(base, task_dir, base.parent / "never", recipe)
    with open_context(job, run_folder(job.model, job.output), no_bar) as bench:
        assert bench.data.held_out is not None
        texts = bench.data.held_out.query.texts
        assert not {*texts} & {*bench.data.pool.texts}
        return {*texts}


def as_trained(tiny_model: Path, folder: Path, task_dir: Path, recipe: Recipe) -> Path:
    """An encoder that says that it was trained so; in truth the tiny one."""
    shutil.copytree(tiny_model, folder)
    return made_run(folder, task_dir, recipe, base=str(tiny_model))


def test_nothing_is_known_of_a_base_whose_training_texts_are_lost(
    tiny_model: Path, tmp_path: Path
) -> None:
    """One that was saved again; a training on top of it must not look complete."""
    plain = load_encoder(str(tiny_model))
    assert texts_before(str(tiny_model), plain) == TrainingTexts()
    assert known_to(str(tiny_model), plain) is None
    assert isinstance(plain, SentenceTransformerEncoder)
    write_base(plain.model, Base("org/base", plain.id))
    plain.model.save_pretrained(str(tmp_path / "again"))
    again = load_encoder(str(tmp_path / "again"))
    assert texts_before(str(tmp_path / "again"), again) is None
    with pytest.raises(InputError, match=rf"{TEXTS_FILE} is missing in its folder; copy the file"):
        known_to(str(tmp_path / "again"), again)


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_the_base_was_trained_on_are_not_held_out(
    tiny_model: Path, task_dir: Path, tmp_path: Path, seed: int
) -> None:
    base = as_trained(tiny_model, tmp_path / "b", task_dir, SetFit(samples_per_class=6, seed=seed))
    before = known_of(base)
    assert len(before) == 12
    held_out = held_out_of(base, task_dir, replace(SMALL, held_out=12))
    assert held_out == {*SOURCE_TEXTS} - {*before}


def test_no_encoder_of_a_chain_was_trained_on_what_is_held_out(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    first = as_trained(tiny_model, tmp_path / "one", task_dir, SetFit(samples_per_class=6))
    again = replace(SMALL, checkpoint="last")
    run(first, task_dir, tmp_path / "two", again)
    whole = known_of(tmp_path / "two")
    assert {*known_of(first)} < {*whole}
    assert len(whole) == 18
    left = {*SOURCE_TEXTS} - {*whole}
    assert len(left) == 6
    for seed in range(3):
        assert held_out_of(tmp_path / "two", task_dir, replace(SMALL, seed=seed)) == left


def test_a_base_that_knows_every_row_is_refused_before_anything_is_made(
    bench: Bench, tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    base = as_trained(tiny_model, tmp_path / "all", task_dir, TripleEntropy())
    words = ["train", "--model", base, "--task", "mini", "--no-store", "--output", "x"]
    quick = ["--examples", "16", "--batch-size", "8", "--epochs", "2", "--threshold", "-1"]
    done = bench(*words, *quick)
    assert done.code == 2
    said = "--held-out 2: the base was trained on rows of mini, and only 0 of 24 rows are new"
    assert said in done.err
    assert "--held-out 0 (with --checkpoint last, if the recipe has it)" in done.err
    assert not Path("x").exists()
    done = bench(*words, *quick, "--held-out", "0", "--checkpoint", "last", "--rate", "1e-2")
    assert done.code == 0, done.err
    assert json.loads(Path("x/train.json").read_text())["kept"] == 4


@given(LINES, LINES)
def test_what_is_known_is_what_a_double_loop_finds(texts: list[str], trained: list[str]) -> None:
    def knows(text: str, other: str) -> bool:
        one, two = (f" {normalised(each)} " for each in (text, other))
        n_words, n_theirs = len(one.split()), len(two.split())
        return n_words > 0 < n_theirs and (one in two or (two in one and 2 * n_theirs >= n_words))

    ours = list(map(normalised, texts))
    expected = [any(knows(text, other) for other in trained) for text in ours]
    assert are_known(ours, TrainingTexts.of(trained)).tolist() == expected


def test_rows_of_two_labels_are_not_held_out_on_top_of_a_training(
    tiny_model: Path, task_dir: Path, tmp_path: Path
) -> None:
    """They are in no pool, so that no base was trained on them."""
    twice = [(f"The {noun} was there.", label) for noun in "abcdef" for label in "01"]
    write_task(task_dir, sources=[*SOURCES, *twice])
    base = as_trained(tiny_model, tmp_path / "b", task_dir, TripleEntropy())
    with pytest.raises(InputError, match=r"`held_out` 6: .* only 0 of 36 rows are new to the base"):
        held_out_of(base, task_dir, SMALL)


@pytest.mark.real
@pytest.mark.slow
def test_margins_on_top_of_margins_find_500_rows_of_sst2_to_hold_out(data_dir: Path) -> None:
    """The rows that the base held out, and relatives of theirs, are what it has not seen."""
    access, spec = DataAccess(data_dir, offline=True), load_tasks()["sst2"]
    plain = load_training_data(spec, access, held_out=None, seed=0)
    known = partial(are_known, trained_on=TrainingTexts.of(plain.pool.texts))
    assert plain.held_out is not None
    for seed in (0, 1):
        chained = load_training_data(spec, access, held_out=None, seed=seed, known=known)
        assert chained.held_out is not None
        assert not known(list(map(normalised, chained.held_out.query.texts))).any()
        assert len(chained.held_out.query) == 500


# Training refuses unseen sources


def test_nothing_is_trained_on_sources_that_are_to_be_unseen(task_dir: Path) -> None:
    write_task(task_dir, "fresh", head='unseen_of = "mini"')
    with pytest.raises(
        InputError, match=r"`task` fresh: the sources of this task must stay unseen .* mini"
    ):
        load_training_data(load_tasks(task_dir)["fresh"], HERE, held_out=0, seed=0)


# The command line

FRESH = [(text.replace("The", "Every"), label) for text, label in SOURCES[:-1]]


@pytest.fixture
def bench(
    tmp_path: Path,
    task_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Bench:
    """Run a command line in this process, with `mini` and its twin, which holds one row of it."""
    sources = [*FRESH, (SOURCES[-1][0].upper(), SOURCES[-1][1])]
    write_task(task_dir, "mini-unseen", sources=sources, head='unseen_of = "mini"')
    monkeypatch.chdir(tmp_path)

    def bench(*arguments: str | Path) -> Done:
        return call(monkeypatch, capsys, *arguments, "--task-dir", task_dir)

    return bench


def asked(model: str | Path, *more: str) -> list[str | Path]:
    return ["run", "--model", model, "--tasks", "mini,mini-unseen", *more]


SEEN_MINI = {
    "sources": {"exactly": 24, "normalised": 24, "inside": 0, "containing": 0},
    "queries": {"exactly": 0, "normalised": 0, "inside": 0, "containing": 0},
}
SEEN_TWIN = SEEN_MINI | {
    "sources": {"exactly": 0, "normalised": 1, "inside": 0, "containing": 0},
}


@pytest.fixture
def trained(tiny_model: Path, task_dir: Path, tmp_path: Path) -> Path:
    """A trained encoder, though none in truth: the tiny one, with a run's file beside it."""
    folder = shutil.copytree(tiny_model, tmp_path / "runs" / "x")
    return made_run(folder, task_dir, Margins(held_out=0), base=str(tiny_model))


def seen_of(done: Done) -> dict[str, Any]:
    assert done.code == 0, done.err
    return {result["task"]: result["seen"] for result in json.loads(done.out)["results"]}


def test_run_counts_what_was_seen_and_lays_both_side_by_side(bench: Bench, trained: Path) -> None:
    done = bench(*asked("runs/x"))
    assert done.code == 0, done.err
    heading = (
        "## mini: sources of the training file, as in the papers, and unseen ones (mini-unseen)"
    )
    head, _, row = done.out.partition(heading)[2].strip().splitlines()[:3]
    cells = dict(zip(_cells(head), _cells(row), strict=True))
    assert list(cells) == ["k", "P", "S", "seen", "P, unseen", "S, unseen", "seen, unseen"]
    assert (cells["k"], cells["seen"], cells["seen, unseen"]) == ("4", "100.00", "4.17")
    last = next(part for part in done.out.split("\n\n") if "seen exactly" in part).splitlines()
    assert [_cells(line)[:4] for line in (last[0], *last[2:])] == [
        ["task", "of", "seen exactly", "seen normalised"],
        ["mini", "24 sources", "100.00", "100.00"],
        ["mini", "8 queries", "0.00", "0.00"],
        ["mini-unseen", "24 sources", "0.00", "4.17"],
        ["mini-unseen", "8 queries", "0.00", "0.00"],
    ]
    stored = {result.task: result.seen for result in read_results(Path("results"))}
    assert stored == {"mini": SEEN_MINI, "mini-unseen": SEEN_TWIN}


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_counts_stay_with_the_results_and_move_no_digest(
    bench: Bench, trained: Path, tmp_path: Path
) -> None:
    """A copy that does not say how it was trained is the same encoder, with the same results."""
    plain = shutil.copytree(trained, tmp_path / "copies" / "x")
    for name in ("train.json", TEXTS_FILE):
        (plain / name).unlink()
    before = json.loads(bench(*asked(plain), "--json").out)["results"]
    assert [result["seen"] for result in before] == [None, None]
    after = bench(*asked("runs/x"), "--json", "--reference", plain)
    assert seen_of(after) == {"mini": SEEN_MINI, "mini-unseen": SEEN_TWIN}
    results = json.loads(after.out)["results"]
    assert [result["run"] for result in results] == [result["run"] for result in before]
    again = bench(*asked(plain), "--json")
    assert seen_of(again) == {"mini": SEEN_MINI, "mini-unseen": SEEN_TWIN}
    assert all(result["reused"] for result in json.loads(again.out)["results"])


def test_a_stored_result_is_counted_when_the_training_becomes_known(
    bench: Bench, trained: Path
) -> None:
    """One made while the hashes were damaged is not evaluated again for that."""
    made = (trained / TEXTS_FILE).read_bytes()
    (trained / TEXTS_FILE).write_bytes(b"damaged")
    first = bench(*asked("runs/x"), "--json")
    assert seen_of(first) == {"mini": None, "mini-unseen": None}
    assert "texts seen in training are not counted: " in first.err
    assert f"{TEXTS_FILE}: the compressed file is damaged" in first.err
    (trained / TEXTS_FILE).write_bytes(made)
    second = bench(*asked("runs/x"), "--json")
    assert seen_of(second) == {"mini": SEEN_MINI, "mini-unseen": SEEN_TWIN}
    assert all(result["reused"] for result in json.loads(second.out)["results"])


def test_parts_of_unknown_trainings_are_those_of_texts(task_dir: Path) -> None:
    result = evaluate("constant", load_task("mini", task_dir=task_dir))
    assert result.seen is None
    assert "overlap" in result.counts
    table = seen_in_training([result])
    assert dict(table.heads)["of"] == ["24 sources", "8 queries"]


def test_what_is_not_known_is_not_zero(bench: Bench, tiny_model: Path) -> None:
    done = bench(*asked(tiny_model))
    assert "seen exactly" not in done.out
    row = next(li for li in reversed(done.out.splitlines()) if li.startswith("|"))
    assert [_cells(row)[i] for i in (3, 6)] == ["-", "-"]


def test_a_quick_look_counts_what_it_looks_at(bench: Bench, trained: Path) -> None:
    done = bench(*asked("runs/x", "--limit", "2"), "--json")
    seen = seen_of(done)
    assert seen["mini"]["sources"]["exactly"] == 24
    (result, _) = json.loads(done.out)["results"]
    assert result["counts"]["queries"] == 2


def test_an_encoder_really_trained_is_counted(
    bench: Bench, tiny_model: Path, task_dir: Path
) -> None:
    done = run(tiny_model, task_dir, Path("runs/y"), replace(SMALL, held_out=6, epochs=1))
    seen = seen_of(bench(*asked("runs/y"), "--json"))
    assert seen["mini"] is not None
    assert seen["mini"]["sources"]["exactly"] == (18 if done.kept else 0)
    queries = {text for text, _ in QUERIES}
    assert not known_of(Path("runs/y"), [*queries])
