"""Tables of README.md and docs/ show numbers of boards, by the raw files of these."""

from __future__ import annotations

import csv
import json
import math
import re
import tomllib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from standins.programs import load_program
from traced.raw import Raw, label, read_raw
from traced.shown import Grid, of_markdown

from polarity_bench.cross_validation.protocol import PROTOCOLS, Protocol
from polarity_bench.data.sources import DataAccess
from polarity_bench.results.frame import read_records
from polarity_bench.results.means import mean_over_seeds
from polarity_bench.results.result_files import read_results
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.values import FloatArray, normalised, shortest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TRAINING = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
DIAL = (ROOT / "docs" / "dial.md").read_text(encoding="utf-8")
FINDINGS = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
SCORES = (ROOT / "docs" / "p-and-s.md").read_text(encoding="utf-8")
FRONT = (ROOT / "leaderboards" / "front.toml").read_text(encoding="utf-8")
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
OF_CONTRAST = {"all-MiniLM-L6-v2": MINILM, "`tfidf` (bag of words)": "tfidf"}
OF_CONTRAST |= {"`random` vectors": "random"}
"""The constant vector has no result: chance is its score."""
OF_THE_TOWERS = {
    "MiniLM": [f"tower-minilm-1e-4{seed}" for seed in ("", "-1", "-2")],
    "mpnet": ["tower-mpnet", "tower-mpnet-1"],
    "distilled": ["tower-distilled"],
    "MiniLM, every label": [f"axis-tuned-{seed}" for seed in range(3)],
    "mpnet, all labels": ["tower-mpnet-all", "tower-mpnet-all-1"],
    "distilled, all labels": [f"tower-soft-{seed}" for seed in range(3)],
    "distilled, unlabelled": [f"tower-student-{seed}" for seed in range(3)],
}
SIX_CLASSES = "tower-minilm-emotion (strength 1)"
OF_THE_AXIS = {
    "the base": [MINILM],
    "`--stretch 5`": ["stretch-5"],
    "`--probe fisher`": ["fisher"],
    "`--probe mean-difference`": ["mean-difference"],
    "`--labels-from cr`": ["linear-from-cr"],
    "`--labels 2000`, mean of three seeds": [f"linear-2000-{seed}" for seed in range(3)],
    "`linear`": ["linear"],
    "`tuned`, 3 epochs, rate 1e-4, bfloat16, mean of three seeds": [
        f"axis-tuned-{seed}" for seed in range(3)
    ],
    "`tuned` with `--tower all-mpnet-base-v2`, 1 epoch, rate 3e-5, bfloat16, mean of two seeds": (
        OF_THE_TOWERS["mpnet, all labels"]
    ),
    "`tuned` with `--tower all-mpnet-base-v2`, 20,000 labels, 1 epoch, rate 3e-5, mean of two "
    "seeds": OF_THE_TOWERS["mpnet"],
    "`tuned`, 20,000 labels, 1 epoch, rate 1e-4, mean of three seeds": OF_THE_TOWERS["MiniLM"],
    "the same with `--distil-from` a tower of mpnet, one seed": OF_THE_TOWERS["distilled"],
    "`tuned` with `--distil-from` a tower of mpnet with all labels, 3 epochs, rate 1e-4, bfloat16, "
    "mean of three seeds": OF_THE_TOWERS["distilled, all labels"],
    "`tuned` with `--distil-from` a tower of mpnet with all labels, and `--unlabelled` 38,770 "
    "sentences, 2 epochs, rate 1e-4, bfloat16, mean of three seeds": (
        OF_THE_TOWERS["distilled, unlabelled"]
    ),
    "`shared`, 2 epochs, rate 1e-4, bfloat16, mean of three seeds": [
        f"axis-shared-{seed}" for seed in range(3)
    ],
}


def raw_of(board: str) -> list[Raw]:
    return read_raw(ROOT / "leaderboards" / board)


def table_of(text: str, *titles: str) -> Grid:
    """The table of a page whose columns begin with these."""
    grids = of_markdown(text)
    (found,) = [grid for grid in grids if [*grid.titles[: len(titles)]] == [*titles]]
    return found


def mean_percent(raw: list[Raw], task: str, labels: list[str], score: str) -> float:
    """The mean of a score over encoders, each of which has one result of the task."""
    found = [r.score(score) for r in raw if r.task == task and label(r.made["encoder"]) in labels]
    assert len(found) == len(labels), (task, labels)
    return 100 * fmean(found)


def percent(raw: list[Raw], task: str, labels: list[str], score: str) -> str:
    return f"{mean_percent(raw, task, labels, score):.2f}"


def test_contrast_on_the_page_of_p_and_s_is_that_of_the_board() -> None:
    raw = raw_of("polarity")
    grid = table_of(SCORES, "encoder", "P", "topic", "minimal pairs")
    names = {"P": "polarity_at_16", "topic": "topic_at_16", "minimal pairs": "pairwise_accuracy"}
    assert OF_CONTRAST.keys() < {row[0] for row in grid.rows}
    for name, *shown in grid.rows:
        for title, text in zip(grid.titles[1:], shown, strict=True):
            score = names.get(title, f"polarity_of_{title.removeprefix('P, ')}_at_16")
            if name in OF_CONTRAST:
                assert text == percent(raw, "contrast", [OF_CONTRAST[name]], score), (name, title)


def check_two_dials(file: str, *titles: str) -> list[dict[str, Any]]:
    """Compare a table with the output of benchmarks/cross_talk.py, and return this output."""
    rows: list[dict[str, Any]] = json.loads((ROOT / "docs" / file).read_text(encoding="utf-8"))
    grid = table_of(DIAL, *titles)
    assert len(grid.rows) == 9
    shown = {
        (title.partition(", ")[2], float(row[0]), float(row[1]), title[0]): text
        for row in grid.rows
        for title, text in zip(grid.titles[2:], row[2:], strict=True)
    }
    measured = {
        (row["task"], *row["strengths"], name): f"{100 * row[name]:.2f}"
        for row in rows
        for name in ("P", "S")
    }
    assert shown == measured
    return rows


def test_two_towers_on_the_page_of_the_dial_are_those_of_the_measurement() -> None:
    rows = check_two_dials("cross-talk-towers.json", "polarity, tower", "sarcasm, tower")
    beside, alone = list[float](), dict[str, list[list[float]]]()
    for row in rows:
        of_polarity = row["task"] == "sst2"
        other = "P gained by dial 2" if of_polarity else "P gained by dial 1"
        if all(row["strengths"]):
            beside.append(abs(row[other][0]))
        elif other in row:
            alone.setdefault(row["task"], []).append([100 * each for each in row[other]])
    assert f"changes by at most {100 * max(beside):.2f} points when the other" in plain(DIAL)
    lost = [f"{-mean:.1f}" for mean, *_ in alone["sarcastic-headlines"]]
    assert f"`sarcastic-headlines`** by {' and '.join(lost)} points, as the linear" in plain(DIAL)
    assert all(low < 0 < high for _, low, high in alone["sst2"])
    most = max(abs(mean) for mean, *_ in alone["sst2"])
    assert f"`sst2` by at most {most:.1f} points, and both intervals" in plain(DIAL)
    both = {row["task"]: row for row in rows if row["strengths"] == [0.25, 0.25]}
    off = {row["task"]: row for row in rows if row["strengths"] == [0, 0]}
    said = " and ".join(
        f"from {100 * off[task]['S']:.2f} to {100 * both[task]['S']:.2f} on `{task}`"
        for task in ("sst2", "sarcastic-headlines")
    )
    assert f"{said} with both at 0.25" in plain(DIAL)


def test_two_dials_on_the_page_of_the_dial_are_those_of_the_measurement() -> None:
    rows = check_two_dials("cross-talk.json", "polarity", "sarcasm")
    name = "P gained by dial 2"
    of_sarcasm = [r[name] for r in rows if r["task"] == "sst2" and name in r and r["strengths"][0]]
    assert all(low < 0 < high for _, low, high in of_sarcasm)
    name = "P gained by dial 1"
    of_polarity = [r[name] for r in rows if r["task"] != "sst2" and name in r]
    assert all(high < 0 for _, _, high in of_polarity)
    assert (len(of_sarcasm), len(of_polarity)) == (4, 6)


def test_the_papers_tasks_on_the_page_of_p_and_s_are_those_of_the_board_and_of_the_paper() -> None:
    raw = raw_of("polarity")
    expected = (ROOT / "polarity_bench/expected/margins-table-1.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(expected)["rows"]
    cited = {row["task"]: row["scores"] for row in rows if row["encoder"] == "all-MiniLM-L6-v2"}
    grid = table_of(SCORES, "task", "P", "S", "P uniform", "S uniform")
    assert len(grid.rows) == len(cited)
    for task, *shown in grid.rows:
        names = [f"{m}{w}_at_16" for w in ("", "_uniform") for m in ("polarity", "similarity")]
        assert shown[:4] == [percent(raw, task, [MINILM], name) for name in names]
        assert shown[4:] == [str(cited[task][name]) for name in names[2:]]


def check_the_axis(text: str) -> None:
    raw = raw_of("axis")
    grid = table_of(text, "", "strength", "P", "S", "P, unseen sources")
    names = [f"{metric}_uniform_at_16" for metric in ("polarity", "similarity")]
    said, n_held = "", 0
    for name, strength, *shown in grid.rows:
        said = name or said
        if said in OF_THE_AXIS:
            dial = f" (strength {strength})" if strength else ""
            labels = [f"{each}{dial}" for each in OF_THE_AXIS[said]]
            tasks = ("sst2", "sst2-unseen")
            assert shown == [percent(raw, task, labels, score) for task in tasks for score in names]
            n_held += 1
    assert n_held == len(grid.rows) - 3, "gold labels and the papers' two are from elsewhere"


def test_what_was_found_of_the_axis_is_that_of_the_board() -> None:
    check_the_axis(FINDINGS)


def test_what_was_found_of_sarcasm_is_that_of_the_board() -> None:
    raw = raw_of("axis-sarcastic-headlines")
    grid = table_of(FINDINGS, "encoder", "P", "S", "P, unseen sources")
    assert [*grid.titles[4:]] == ["S, unseen"]
    by_mpnet = "`tuned` with `--tower all-mpnet-base-v2`"
    encoders = {
        "the base": [MINILM],
        "`tuned`": [f"axis-tuned-sarcasm-{seed}" for seed in range(3)],
        "`shared`, three epochs": [f"axis-shared-sarcasm-{seed}" for seed in range(3)],
        f"{by_mpnet}, one epoch, one seed": ["tower-mpnet-sarcasm"],
        f"{by_mpnet}, three epochs, one seed": ["tower-mpnet-sarcasm-3"],
    }
    assert [row[0] for row in grid.rows] == [*encoders]
    tasks = ("sarcastic-headlines", "sarcastic-headlines-unseen")
    names = [f"{metric}_uniform_at_16" for metric in ("polarity", "similarity")]
    for row, labels in zip(grid.rows, encoders.values(), strict=True):
        dials = [each if each == MINILM else f"{each} (strength 1)" for each in labels]
        assert [*row[1:]] == [percent(raw, task, dials, name) for task in tasks for name in names]
    _, tuned, _, once, thrice = np.array([row[1:] for row in grid.rows], float)
    found = plain(FINDINGS)
    assert f"and {(once - tuned)[2]:.1f} points more with unseen sources" in found
    p, s = (thrice - tuned)[::2], (thrice - tuned)[1::2]
    assert np.ptp(np.round(p, 1)) == 0
    said = (
        f"Three epochs have {p[0]:.1f} points more P than MiniLM's copy, with seen and with unseen"
    )
    assert f"{said} sources, and {s.min():.1f} to {s.max():.1f} points more S." in found


def test_the_towers_on_the_page_of_the_dial_are_those_of_the_board() -> None:
    raw, grid = raw_of("axis"), table_of(DIAL, "classifier", "strength", "P", "S")
    dials = [
        [f"{name} (strength {strength})" for name in names]
        for names in OF_THE_TOWERS.values()
        for strength in ("0.25", "1")
    ]
    names = [f"{metric}_uniform_at_16" for metric in ("polarity", "similarity")]
    places = [(task, name) for task in ("sst2", "sst2-unseen") for name in names]
    scores = [
        [mean_percent(raw, task, of_row, name) for task, name in places]
        for of_row in ([MINILM], *dials)
    ]
    assert [row[2:] for row in grid.rows] == [[f"{x:.2f}" for x in row] for row in scores]
    small, large = (np.array(scores[i : i + 2]) for i in (1, 3))
    p, s = (large - small)[:, ::2], (large - small)[:, 1::2]
    assert f"P is {p.min():.1f} to {p.max():.1f} points higher" in plain(DIAL)
    pair = OF_THE_TOWERS["MiniLM"][0], *OF_THE_TOWERS["distilled"]
    by_labels, distilled = (
        [
            mean_percent(raw, task, [f"{name} (strength {strength})"], "polarity_uniform_at_16")
            for task in ("sst2", "sst2-unseen")
            for strength in ("0.25", "1")
        ]
        for name in pair
    )
    lost = [one - other for one, other in zip(by_labels, distilled, strict=True)]
    said = f"{min(lost):.1f} to {max(lost):.1f} points below that of the"
    assert f"P of the distilled copy is {said} copy" in plain(DIAL)
    found = plain(FINDINGS)
    assert f"has a P {said} tower" in found
    assert f"raises P by {p.min():.1f} to {p.max():.1f} points** at strengths 0.25 and 1." in found
    assert f"At strength 0.25, S differs by at most {s[0].max():.2f} points; at 1," in found
    assert f"it is {s[1].min():.1f} to {s[1].max():.1f} points higher with mpnet's" in found


def test_what_all_labels_give_the_larger_tower_is_that_of_the_board() -> None:
    raw, key = raw_of("axis"), "polarity_uniform_at_16"
    drawn, of_all = (
        mean_percent(raw, "sst2", [f"{name} (strength 0.25)" for name in OF_THE_TOWERS[of]], key)
        for of in ("mpnet", "mpnet, all labels")
    )
    assert f"has a P {of_all - drawn:.1f} points higher still at strength 0.25" in plain(FINDINGS)
    shares = {
        r.task: 100 * r.made["seen"]["sources"]["normalised"] / r.made["counts"]["sources"]
        for r in raw
        if label(r.made["encoder"]) == "tower-mpnet-all (strength 0.25)"
    }
    seen, unseen = shares["sst2"], shares["sst2-unseen"]
    said = f"{seen:.0f} % of the sources of `sst2` and {unseen:.1f} % of `sst2-unseen`"
    assert f"Its training texts are {said}" in plain(FINDINGS)
    assert f"{seen:.0f} % of the last three" in plain(DIAL)
    assert f"has seen {seen:.0f} % of these sources" in plain(README)
    assert f"P is {of_all:.1f} at strength 0.25" in plain(FRONT)


def test_a_tower_of_six_classes_has_the_scores_of_the_board() -> None:
    raw = raw_of("axis-emotion")
    of_p, of_s = (
        [percent(raw, "emotion", [name], f"{metric}_at_16") for name in (MINILM, SIX_CLASSES)]
        for metric in ("polarity", "similarity")
    )
    assert f"raises P from {of_p[0]} to {of_p[1]} at strength 1, and S" in plain(DIAL)
    assert f"S falls from {of_s[0]} to {of_s[1]} (linear weights" in plain(DIAL)
    rounded = " to ".join(f"{float(each):.0f}" for each in of_p)
    assert f"P rises from {rounded}" in plain(FRONT)
    assert f"raises P from {rounded}" in plain(introduction_of("axis-emotion"))


def test_what_a_teacher_gives_the_smaller_tower_is_that_of_the_board() -> None:
    raw = raw_of("axis")

    def scores_of(names: list[str], key: str = "polarity_uniform_at_16") -> FloatArray:
        places = [(task, at) for task in ("sst2", "sst2-unseen") for at in ("0.25", "1")]
        found = [
            mean_percent(raw, task, [f"{n} (strength {at})" for n in names], key)
            for task, at in places
        ]
        return np.array(found)

    tuned = OF_THE_TOWERS["MiniLM, every label"]
    taught, further = (OF_THE_TOWERS[f"distilled, {of}"] for of in ("all labels", "unlabelled"))
    found = plain(FINDINGS)
    all_gains = np.array([scores_of(students) - scores_of(tuned) for students in (taught, further)])
    seen, unseen = all_gains[:, :2], all_gains[:, 2:]
    said = f"P is {seen.min():.1f} to {seen.max():.1f} points above that of the copy that learned"
    assert f"{said} every label, and {unseen.min():.1f} to {unseen.max():.1f} points with" in plain(
        DIAL
    )
    for gains in all_gains:
        said = f"is {gains[0]:.1f} and {gains[1]:.1f} points above that of `tuned`, and with unseen"
        assert f"{said} sources {gains[2]:.1f} and {gains[3]:.1f} points." in found
    apart = np.abs(scores_of(taught) - scores_of(further)).max()
    assert f"P of the two towers differs by at most {apart:.1f} points" in found
    singles = [scores_of([name])[1] for name in (*taught, *further)]
    assert f"at strength 1 is between {min(singles):.1f} and {max(singles):.1f};" in found
    similarity = "similarity_uniform_at_16"
    lost = scores_of(tuned, similarity) - scores_of(taught, similarity)
    assert f"S is {lost.min():.1f} to {lost.max():.1f} points lower" in found
    below = scores_of(["tower-mpnet-all-1"]) - scores_of(taught)
    assert f"P is {below.min():.1f} to {below.max():.1f} points below its teacher" in found


def test_what_a_search_gives_a_loss_with_proxies_is_that_of_the_boards() -> None:
    def gains(board: str, method: str) -> tuple[float, float, float]:
        file = ROOT / "leaderboards" / board / "table.csv"
        with file.open(encoding="utf-8", newline="") as stream:
            (row,) = (
                row
                for row in csv.DictReader(stream)
                if "first 3 layers, 20 rows, 40 folds" in row["table"]
                and row["table"].endswith("/ trec")
                and row["column"] == "minus CCE"
                and re.fullmatch(method, row["method"])
            )
        value, low, high = (100 * float(row[name]) for name in ("value", "low", "high"))
        return value, low, high

    untuned, *_ = gains("fewshot", r"CCE \+ ProxyAnchor \(.*\) \+ inf")
    chosen = gains("fewshot-search", r"CCE \+ ProxyAnchor .* halving \+ inf")
    without, *_ = gains("fewshot-search", r"CCE \+ ProxyAnchor .* halving")
    found = plain(FINDINGS)
    assert f"is {-untuned:.1f} points of macro F1 below" in found
    assert "is then {:.1f} points above cross-entropy [{:+.1f}, {:+.1f}]".format(*chosen) in found
    assert f"for the linear layer alone is {-without:.1f} points below" in found
    text = plain(introduction_of("fewshot-search"))
    assert f"is {-untuned:.1f} points below" in text
    assert f"stays {-without:.1f} points below" in text


def test_the_headline_of_the_readme_is_what_was_found() -> None:
    """The base, `tuned` at both strengths, a tower, the bound; the published row is the paper's."""
    grid = table_of(FINDINGS, "", "strength", "P", "S")
    found = [tuple(row[2:4]) for row in grid.rows]
    cells = [row[1:3] for row in table_of(README, "encoder", "P", "S").rows]
    shown = [tuple(cell.partition(" [")[0] for cell in row) for row in cells]
    bound, base = found[0], found[1]
    at, tower, *_ = [i for i, row in enumerate(grid.rows) if row[0].startswith("`tuned`")]
    of_the_dial = found[at + 1], found[at + 2], found[tower + 1]
    assert shown == [base, ("83.2", "30.5"), *of_the_dial, bound]
    scores = read_records(ROOT / "leaderboards" / "axis").query("task == 'sst2' and k == 16")
    tuned, by_mpnet = (OF_THE_TOWERS[of] for of in ("MiniLM, every label", "mpnet, all labels"))
    of_rows: dict[int, tuple[list[str], float]] = {
        0: ([MINILM], math.nan),
        2: (tuned, 0.25),
        3: (tuned, 1),
        4: (by_mpnet, 0.25),
    }
    for i, (names, strength) in of_rows.items():
        runs = scores[scores.encoder.isin(names) & (scores.weighting == "uniform")]
        runs = runs if math.isnan(strength) else runs[runs.strength == strength]
        for metric, cell in zip(("polarity", "similarity"), cells[i], strict=True):
            mean = mean_over_seeds(runs[runs.metric == metric].to_dict("records"))
            values = (f"{100 * mean[name]:.2f}" for name in ("value", "ci_low", "ci_high"))
            assert cell == "{} [{}, {}]".format(*values)
    published = (ROOT / "leaderboards/margins/published.csv").read_text(encoding="utf-8")
    assert "83.2" in published
    assert "30.5" in published


def check_the_map_of_transfer(text: str) -> None:
    """Gains of P over the base, and the mean change of S, of the dials on MiniLM."""
    raw = raw_of("transfer-axis")
    grid = table_of(text, "dial of", "contrast", "sst2")
    tasks = grid.titles[1:-1]
    assert {row[0] for row in grid.rows} == {*tasks, "cr", "imdb"}

    def change(name: str, task: str, metric: str) -> float:
        (after, before) = (
            next(r for r in raw if r.task == task and label(r.made["encoder"]) == encoder)
            for encoder in (f"{name}-minilm (strength 0.25)", MINILM)
        )
        return 100 * (after.score(f"{metric}_at_16") - before.score(f"{metric}_at_16"))

    for name, *shown in grid.rows:
        gains = [change(name, task, "polarity") for task in tasks]
        of_meaning = fmean(change(name, task, "similarity") for task in tasks)
        assert shown == [f"{number:+.2f}" for number in [*gains, of_meaning]], name


def test_the_map_of_transfer_on_the_page_of_the_dial_is_that_of_the_board() -> None:
    check_the_map_of_transfer(DIAL)
    with pytest.raises(AssertionError, match="emotion"):
        check_the_map_of_transfer(DIAL.replace("| +4.23 |", "| +4.24 |"))


def test_dials_of_sentiment_gain_on_their_own_task_and_on_the_other() -> None:
    raw = raw_of("transfer-axis")
    scores = {(label(r.made["encoder"]), r.task): r.score("polarity_at_16") for r in raw}
    bases = {"minilm": MINILM} | {n: n for n in ("gte-small", "e5-small", "all-mpnet-base-v2")}
    gains = {
        (dial, task, name): 100
        * (scores[f"{dial}-{name} (strength 0.25)", task] - scores[base, task])
        for dial in ("contrast", "sst2", "cr", "imdb")
        for task in ("contrast", "sst2")
        for name, base in bases.items()
        if (dial, name) != ("imdb", "all-mpnet-base-v2")  # not trained
    }
    own = [gain for (dial, task, _), gain in gains.items() if dial == task]
    others = {
        task: [gain for (dial, at, _), gain in gains.items() if dial != task == at]
        for task in ("contrast", "sst2")
    }
    every = [*others["contrast"], *others["sst2"]]
    text, of_own = (
        plain(introduction_of("transfer-axis")),
        f"{min(own):.1f} to {max(own):.1f} points",
    )
    low, high = (f"by {min(each):.1f} to {max(each):.1f}" for each in others.values())
    assert f"raise P on `contrast` {low} points" in text
    assert f"raise P on `sst2` {high}. On their own task, the two dials gain {of_own}." in text
    of_others = f"{min(every):.1f} to {max(every):.1f} on another"
    assert f"raise P by {of_own} on their own task, and by {of_others}" in plain(FRONT)


def test_dials_of_sarcasm_and_irony_gain_little_on_other_tasks() -> None:
    raw = raw_of("transfer-axis")
    scores = {(label(r.made["encoder"]), r.task): r.score("polarity_at_16") for r in raw}
    bases = {"minilm": MINILM} | {n: n for n in ("gte-small", "e5-small", "all-mpnet-base-v2")}
    dials = ("sarcastic-headlines", "tweeteval-irony")
    gains = {
        (dial, task): [
            100 * (scores[f"{dial}-{name} (strength 0.25)", task] - scores[base, task])
            for name, base in bases.items()
        ]
        for dial in dials
        for task in {r.task for r in raw}
    }
    own = [gain for dial in dials for gain in gains[dial, dial]]
    most = max(gain for (dial, task), each in gains.items() if dial != task for gain in each)
    assert most == 100 * (
        scores["sarcastic-headlines-minilm (strength 0.25)", "sst2"] - scores[MINILM, "sst2"]
    )
    ends = f"{min(own):.1f} to {max(own):.1f} points on their own task"
    assert f"raise P by {ends}, and by {most:.1f} at most on others" in plain(FRONT)
    assert f"raise P by {ends}" in plain(introduction_of("transfer-axis"))
    assert f"raises P on `sst2` by {most:.1f} points" in plain(introduction_of("transfer-axis"))
    assert f"these dials gain {most:.1f} points at most" in plain(DIAL)


def test_a_dial_at_strength_0_has_the_scores_of_its_base_as_closely_as_is_said() -> None:
    raw = [r for r in raw_of("axis") if r.task != "sst2-transfer"]
    base = {r.task: r.score("main_score") for r in raw if label(r.made["encoder"]) == MINILM}
    off = [
        100 * abs(r.score("main_score") - base[r.task])
        for r in raw
        if re.match(r"(axis-tuned|linear).*\(strength 0\)", label(r.made["encoder"]))
    ]
    assert len(off) == 15
    assert 0 < max(off) < 0.005
    assert "no main score differs by 0.005 points or more" in plain(FINDINGS)
    for text in (introduction_of("axis"), FRONT):
        assert "main scores equal the base's to 0.005 points" in plain(text)


def test_what_one_epoch_of_contrastive_losses_keeps_is_that_of_the_board() -> None:
    raw, names = raw_of("training-sst2"), ("sst2-contrastive", "sst2-online-contrastive")
    shown = [
        f"{100 * r.score(f'{metric}_at_16'):.{digits}f}"
        for metric, digits in (("polarity", 1), ("retention", 0))
        for name in names
        for r in raw
        if (label(r.made["encoder"]), r.task) == (name, "sst2")
    ]
    said = "P on SST-2 is {} and {} (online) at retention {} and {}.".format(*shown)
    assert said in plain(FINDINGS)


def test_what_int8_costs_is_that_of_the_board() -> None:
    rows = {label(r.made["encoder"]): r for r in raw_of("vectors")}
    moved = {"polarity": 0.0, "similarity": 0.0}
    for name, row in rows.items():
        if "int8 vectors" in name:
            whole = rows[name.replace(" (int8 vectors)", "").replace(", int8 vectors", "")]
            for metric in moved:
                change = abs(row.score(f"{metric}_at_16") - whole.score(f"{metric}_at_16"))
                moved[metric] = max(moved[metric], 100 * change)
    assert f"P moves by at most {moved['polarity']:.2f} points" in plain(introduction_of("vectors"))
    assert moved["similarity"] < 0.01


def test_the_share_of_sources_that_the_dial_beside_others_saw_is_that_of_its_result() -> None:
    (row,) = (
        r
        for r in raw_of("dial-beside-others")
        if (label(r.made["encoder"]), r.task) == ("sst2-minilm (strength 1)", "sst2")
    )
    share = row.made["seen"]["sources"]["normalised"] / row.made["counts"]["sources"]
    said = f"{100 * share:.2f} % of the sources of `sst2` are among these texts"
    assert said in text_of("dial-beside-others")


def check_the_draws(text: str) -> None:
    """How well small draws keep the ranking, computed again from the scores of all draws."""
    program = load_program(ROOT / "benchmarks" / "nano.py")
    found = json.loads((ROOT / "docs" / "nano.json").read_text(encoding="utf-8"))
    names = {"CR": "cr", "contrast": "contrast", "SST-2": "sst2", "irony": "tweeteval-irony"}
    grid = table_of(text, "data set", "queries, sources", "highest P")
    assert [row[0] for row in grid.rows] == [*names, "mean P of the four"]
    for name, counts, highest, *shown in grid.rows:
        each = found.get(names.get(name, ""))
        kept = program.agreement([each["full"]], [[n] for n in each["draws"]]) if each else None
        if each:
            assert counts == f"{each['counts']['queries']}, {each['counts']['sources']:,}"
            assert highest == f"{100 * max(each['full']):.1f}"
        kept = kept or program.summary(found)
        rank = "{:.3f} [{:.3f}, {:.3f}]".format(*kept["spearman"])
        turned = "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * share for share in kept["turned"]))
        assert shown == [rank, turned], name


def test_the_table_of_small_draws_is_that_of_its_record() -> None:
    text = (ROOT / "docs" / "multilingual.md").read_text(encoding="utf-8")
    check_the_draws(text)
    with pytest.raises(AssertionError, match="irony"):
        check_the_draws(text.replace("28.6 [", "28.7 ["))


def check_the_board_of_opposites(text: str) -> None:
    """What the introduction says of each strength is the least and the greatest change."""
    bases = {name: name for name in ("gte-small", "e5-small", "all-mpnet-base-v2")}
    bases |= {"minilm": MINILM}
    scores = {
        label(each.made["encoder"]): 100 * each.score("ndcg_at_10")
        for each in raw_of("opposite")
        if each.task == "contrast-opposite"
    }

    def ends(strength: str, sign: int, names: Sequence[str], tasks: Sequence[str]) -> list[str]:
        changes = sorted(
            sign * (scores[f"{task}-{name} (strength {strength})"] - scores[bases[name]])
            for task in tasks
            for name in names
        )
        return [f"{changes[0]:.1f}", f"{changes[-1]:.1f}"]

    both, own = ["contrast", "sst2"], [*bases]
    gained = r"base: by (\S+) points \[0.1, 0.7\] .* to (\S+) points \[7.8, 13.1\]"
    for strength, sign, names, tasks, said in (
        ("-0.05", 1, own, both, gained),
        ("-0.05", 1, own, ["sst2"], r"of `sst2` gain (\S+) to (\S+) points"),
        ("-1", -1, own, both, r"all eight dials are (\S+) to (\S+) points below their base: other"),
        ("-0.25", 1, own[2:3], both, r"all-mpnet-base-v2 gain (\S+) and (\S+) points"),
        ("-0.25", -1, own[:2], both, r"e5-small lose (\S+) to (\d+\.\d)\."),
        (
            "0.25",
            -1,
            own,
            both,
            r"0.25, all eight dials are (\S+) to (\S+) points below their base",
        ),
    ):
        shown = tuple(ends(strength, sign, names, tasks))
        assert re.findall(said, plain(text)) == [shown], strength


def test_the_board_of_opposites_says_what_its_results_say() -> None:
    text = introduction_of("opposite")
    check_the_board_of_opposites(text)
    with pytest.raises(AssertionError, match="49"):
        check_the_board_of_opposites(text.replace("49.3", "49.4"))
    assert "by 0.3 to 10.4 points of nDCG@10. At strength -1 all eight score" in plain(DIAL)
    assert "lower than their base, by at least 10.9 points" in plain(DIAL)


def test_the_board_of_twins_says_what_its_results_say() -> None:
    """The page of the dial and the introduction name these scores; the details name alpha."""
    raw = {label(each.made["encoder"]): each for each in raw_of("opposite-beside-others")}
    sparse, *controls = (
        raw[f"contrast-minilm-{name}"]
        for name in ("sparsecl-3-epochs-0", "cl-1-epochs-0", "cl-1-epochs-1")
    )
    dial = "contrast-minilm (strength -0.{})"
    rows = [[sparse], controls, *([raw[name]] for name in (MINILM, dial.format("05"), "tfidf"))]
    shown = [f"{100 * fmean(each.score('ndcg_at_10') for each in of):.2f}" for of in rows]
    trained, control, base, small, words = shown
    larger = f"{100 * raw[dial.format('1')].score('ndcg_at_10'):.2f}"
    text = plain(introduction_of("opposite-beside-others"))
    assert f"nDCG@10 is {trained} and that of the base {base}." in text
    assert f"The mean of two seeds is {control}." in text
    assert f"has {small} at strength -0.05 and {larger} at -0.1." in text
    assert f"`tfidf` has {words}." in text
    said = f"nDCG@10 {trained} and its control with the cosine {control}. The dial has {small} at"
    assert f"{said} strength -0.05, and the base {base}." in plain(DIAL)
    higher = 100 * (controls[0].score("ndcg_at_10") - sparse.score("ndcg_at_10"))
    assert f"the first seed of CL is {higher:.1f} points above SparseCL" in text
    recipe = sparse.made["training"]["recipe"]
    assert f"with the {recipe['labels'] // 2} pairs of twins" in text
    assert f"It chose {recipe['alpha']}." in plain(text_of("opposite-beside-others"))


def test_the_board_of_other_methods_says_what_its_results_say() -> None:
    """Each sentence has the changes of its rows on `sst2` and `contrast`."""
    raw, end = raw_of("dial-beside-others"), ""
    text = plain(introduction_of("dial-beside-others"))

    def changes(name: str, metric: str) -> tuple[str, str]:
        """How far a row is from the base on `contrast` and on `sst2`."""
        of = {(label(each.made["encoder"]), each.task): each for each in raw}
        rows = [[of[name, t], of[MINILM, t]] for t in ("contrast", "sst2")]
        points = (
            100 * (after.score(f"{metric}_at_16") - base.score(f"{metric}_at_16"))
            for after, base in rows
        )
        first, second = (f"{abs(each):.1f}" for each in points)
        return first, second

    dial, boosted = "sst2-minilm (strength 0.25)", f"first 100 rescored, boost 0.25{end}"
    (p, q), (s, t) = changes(dial, "polarity"), changes(dial, "similarity")
    (u, v), (w, x) = changes(boosted, "polarity"), changes(boosted, "similarity")
    assert f"gains {q} points of P and loses {t} points of S" in text
    assert f"gains {v} points at boost 0.25 and loses as much S" in text
    assert t == x
    assert (
        f"the dial gains {p} points and loses {s}, and rescoring gains {u} and loses {w}." in text
    )
    gold, told = (f"label word, {how}{end}" for how in ("gold label given", "predicted"))
    assert "P rises by {} and {} points".format(*changes(gold, "polarity")) in text
    assert "it rises by {} and {}.".format(*changes(told, "polarity")) in text
    instructed = f"instruction before the query{end}"
    assert "lowers P by {} and {} points".format(*changes(instructed, "polarity")) in text
    assert changes(instructed, "similarity") == ("5.9", "5.9")
    assert "and S by 5.9." in text
    erased = [f"erased {how}{end}" for how in ("by LEACE", "along the mean difference")]
    lost = [
        sorted(number for name in erased for number in changes(name, metric))
        for metric in ("polarity", "similarity")
    ]
    ends = [number for numbers in lost for number in (numbers[0], numbers[-1])]
    assert "by {} to {} points, and S by {} to {}.".format(*ends) in text
    for name, subject in (
        ("triplet", "the triplet loss"),
        ("senticse", "SentiCSE's objective"),
        ("setfit", "SetFit"),
    ):
        (p, q), (s, t) = (changes(f"sst2-minilm-{name}", m) for m in ("polarity", "similarity"))
        change = f"gains {p} and {q} points of P and loses {s} and {t} points of S"
        assert f"{subject} {change}" in text
    (p, q), (s, t) = (
        changes("sst2-minilm-tuned (strength 1)", m) for m in ("polarity", "similarity")
    )
    assert f"gains {p} and {q} points of P at strength 1, and loses {s} and {t} points of S" in text


def introduction_of(board: str) -> str:
    """The introduction of a board, as its author wrote it."""
    file = ROOT / "leaderboards" / board / "board.toml"
    return str(tomllib.loads(file.read_text(encoding="utf-8"))["introduction"])


def test_a_wrong_number_is_told() -> None:
    with pytest.raises(AssertionError, match=r"89\.58"):
        check_the_axis(FINDINGS.replace("| 89.57 |", "| 89.58 |"))


# What the settings of the headline were chosen by


def plain(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def text_of(board: str) -> str:
    """What the author of a board wrote above and below its tables."""
    text = (ROOT / "leaderboards" / board / "board.toml").read_text(encoding="utf-8")
    values = tomllib.loads(text)
    return plain(f"{values['introduction']} {values.get('details', '')}")


def test_no_page_says_that_queries_took_no_part_in_any_choice() -> None:
    """The rate and the epochs of `tuned` were compared by P of the test queries."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("leaderboards/*/board.toml")]
    pages += [ROOT / "leaderboards" / "front.toml", *ROOT.glob("polarity_bench/**/*.py")]
    said = {page: plain(page.read_text(encoding="utf-8")) for page in pages}
    assert len(said) > 100
    assert not [page for page, text in said.items() if "no query takes part" in text]
    headline = [page for page, text in said.items() if re.search(r"\b89\.7\b(?! %)", text)]
    assert len(headline) == 4
    for page in [*headline, *ROOT.glob("leaderboards/axis*/board.toml")]:
        rate_and_epochs = (
            r"rate and (the|a)? ?(number of )?epochs .{0,40}chosen by (this |the )?P\b"
        )
        assert re.search(rate_and_epochs, said[page]), page


def test_the_settings_that_were_compared_have_the_means_that_are_said() -> None:
    """Of three seeds each, but for the last."""
    rows = table_of(FINDINGS, "epochs", "rate", "each seed", "mean").rows
    means = [f"{fmean(map(float, seeds.split(', '))):.2f}" for _, _, seeds, _ in rows]
    assert [mean for *_, mean in rows] == means
    assert [len(seeds.split(", ")) for _, _, seeds, _ in rows] == [3, 3, 3, 1]
    assert max(means) == means[0], "the best of them is what the table shows"


def test_how_many_examples_a_run_sees_is_worked_out() -> None:
    """Five times 50,000, of the 250,000 that were left once, or of all 8.4 million triplets."""
    text = plain(TRAINING)
    for said, n_candidates in (("247,000 of our 8.4 million", 8.4e6), ("168,000 of the", 250e3)):
        n_seen = n_candidates * (1 - (1 - 50_000 / n_candidates) ** 5)
        assert f"{round(n_seen, -3):,.0f}" in said
        assert said in text
    assert "the same dropout" not in text
    assert "does so once, with seed 42, which leaves about 250,000 examples" in text


# Cross-validation

PAPERS = {"SST-2": "67k", "TREC": "5k", "MRPC": "4k"}
"""The rows that Table 1 of the papers gives, of the training parts."""
TASKS = {"SST-2": "sst2-transfer"}


def n_rows(name: str) -> dict[str, int]:
    """The rows of each part of a data set."""
    text = (ROOT / "tasks" / "transfer" / f"{name}.toml").read_text(encoding="utf-8")
    return {part: file["rows"] for part, file in tomllib.loads(text)["files"].items()}


def test_pools_of_all_parts_are_said_to_be_larger_than_those_of_the_papers() -> None:
    for name, printed in PAPERS.items():
        parts = n_rows(TASKS.get(name, name.lower()))
        assert f"{parts['train'] // 1000}k" == printed
        n = f"{sum(parts.values()):,}"
        assert re.search(rf"{n} (rows )?of {name}\b", plain(TRAINING))
        assert re.search(rf"{name} (has )?{n}\b", text_of("triple-entropy"))
    assert "counts the training parts alone (67k, 5k, 4k)" in plain(TRAINING)
    assert "counts only the training parts (67k, 5k and 4k)" in text_of("triple-entropy")
    assert "TREC, for example, has 5,952 rows; Table 1 of the paper counts only its training" in (
        text_of("fewshot")
    )


def shared(name: str, protocol: Protocol, data_dir: Path) -> float:
    """The share of tested rows that equal a training row of their fold, by normalised text."""
    data = LabelledTexts.of(name, DataAccess(data_dir, offline=True))
    texts = [_key(text) for text in data.texts]
    equal = []
    for _, _, train, test in protocol.splits(data.labels):
        known = {texts[row] for row in train}
        equal += [texts[row] in known for row in test]
    return fmean(equal)


def _key(text: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(map(normalised, [text] if isinstance(text, str) else text))


@pytest.mark.real
@pytest.mark.slow
def test_the_share_of_tested_rows_that_equal_a_training_row_is_as_said(data_dir: Path) -> None:
    grid = table_of(TRAINING, "", "MPQA", "SST-2")
    protocols = [Protocol(folds=5, rows=None), PROTOCOLS["triple-entropy"], Protocol()]
    for (_, *shown), protocol in zip(grid.rows, protocols, strict=True):
        for name, text in zip(grid.titles[1:], shown, strict=True):
            share = shared(TASKS.get(name, name.lower()), protocol, data_dir)
            printed = float(text.removesuffix(" %"))
            assert printed == pytest.approx(100 * share, abs=0.0501), (name, protocol)
    of_all, of_sample, _ = (dict(zip(grid.titles, row, strict=True)) for row in grid.rows)
    for board in ("fewshot", "triple-entropy"):
        for name in ("MPQA", "SST-2"):
            assert f"{of_all[name]}" in text_of(board)
    said = text_of("triple-entropy")
    assert f"{of_sample['MPQA']} of the rows tested on MPQA equal" in said
    assert f"{of_sample['SST-2']} on SST-2, {of_sample['TREC']} on TREC, and none on CR" in said


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("board", ["fewshot", "triple-entropy"])
def test_a_board_whose_folds_share_no_text_says_so(data_dir: Path, board: str) -> None:
    """By the protocols of the folds that it holds."""
    found: dict[tuple[str, Protocol], float] = {}
    for result in read_results(ROOT / "leaderboards" / board, of_folds=True):
        protocol = result.key.protocol
        own = {key: protocol[key] for key in ("sample", "folds", "rows")}
        key = result.task, Protocol(**own, seeds=tuple(protocol["seeds"]))
        if key not in found:
            found[key] = shared(*key, data_dir)
    none = {task for (task, _), share in found.items() if share == 0}
    if board == "fewshot":
        assert none == {"cr", "mr", "subj", "trec"}
        (some,) = (key for key, share in found.items() if share)
        assert (some[0], some[1].rows) == ("trec", 1000)
        said = "none of the rows tested equals a training row of its fold. With 1,000 rows of TREC,"
        assert f"{said} {100 * found[some]:.1f} % do." in text_of(board)
    else:
        assert none == {"cr", "mr", "subj", "mrpc"}
        assert "none on CR, MR, SUBJ and MRPC" in text_of(board)


def check_the_load(text: str, program: Any) -> None:
    """The tables of large inputs, and the points of their figure, are those of their record."""
    found = json.loads((ROOT / "docs" / "load.json").read_text(encoding="utf-8"))
    assert found.keys() == program.SECTIONS.keys()
    for section, measured in found.items():
        shown = text.partition(f"<!-- {section} -->\n")[2].partition(f"<!-- /{section} -->")[0]
        table = program.table_of(measured["rows"])
        assert shown.strip() == f"{measured['machine']}.\n\n{table}", section
    rows = found["sources"]["rows"]
    assert [row["sources"] for row in rows[::2]] == [*program.SOURCES]
    encoded, stored = (row["CPU, s"] for row in rows[-2:])
    said = (
        f"Two million sources need {rows[-2]['memory, GiB']:.1f} GiB and {encoded:.0f} CPU seconds"
    )
    assert f"{said}, or {stored:.0f} CPU seconds with stored vectors." in text
    assert f"{program.SOURCES[-1] * 256 * 4 / 2**30:.1f} GiB are\nvectors" in text


def test_the_tables_of_large_inputs_are_those_of_their_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    program = import_module("load")
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    check_the_load(text, program)
    with pytest.raises(AssertionError, match="sources"):
        check_the_load(text.replace("| 2,000,000 |", "| 2,000,001 |"), program)


def test_the_figure_of_large_inputs_shows_their_record() -> None:
    found = json.loads((ROOT / "docs" / "load.json").read_text(encoding="utf-8"))
    svg = (ROOT / "docs" / "figures" / "load.svg").read_text(encoding="utf-8")
    for row in found["sources"]["rows"]:
        for title, value in (("CPU seconds", row["CPU, s"]), ("memory (GiB)", row["memory, GiB"])):
            point = f"{title}: {shortest(value)}; vectors: {row['vectors']}"
            assert re.search(rf'aria-label="sources: \d+[^"]*{re.escape(point)}"', svg), point
