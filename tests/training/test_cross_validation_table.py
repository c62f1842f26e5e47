"""Tables of cross-validation: means, tests and corrections by scipy, on outcomes made up."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score

from polarity_bench.boards.fewshot_tables import compare_methods, fewshot_board
from polarity_bench.cross_validation.chance import MAJORITY, PRIOR, guess_scores
from polarity_bench.cross_validation.fold_results import Experiment, FoldValues, with_folds
from polarity_bench.cross_validation.methods import (
    FewShotSetFit,
    FineTuning,
    Frozen,
    Method,
    full_title,
)
from polarity_bench.cross_validation.protocol import PROTOCOLS, Protocol
from polarity_bench.cross_validation.records import (
    fold_records,
    heading,
    n_planned,
    published_folds,
)
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.render.markdown import render as render_board
from polarity_bench.render.table import Table
from polarity_bench.results.result_files import Result
from polarity_bench.results.score_names import explain
from polarity_bench.tasks.labelled import LabelledTexts
from polarity_bench.training.losses.metric import ProxyNCA, SoftTriple, SupCon

GENERATOR = np.random.default_rng(0)
BASE = GENERATOR.uniform(0.6, 0.8, 12)
NOISE = GENERATOR.normal(0, 0.02, (4, 12))
ENCODER = EncoderId("tiny", "weights", max_tokens=16)


def made(
    method: Method,
    values: Sequence[float] | np.ndarray[Any, Any],
    *,
    protocol: Protocol = PROTOCOLS["few-shot"],
    encoder: EncoderId = ENCODER,
    task: str = "mr",
    first: int = 0,
    counts: Sequence[int] = (20, 20, 20),
    seconds: float = 2.0,
    **ways: Sequence[float],
) -> Result:
    """A result with this accuracy in each fold, and macro F1 0.1 below it."""
    labels = np.repeat(np.arange(len(counts)), counts)
    classes = [f"class {code}" for code in range(len(counts))]
    data = LabelledTexts(task, ["text"] * len(labels), labels, classes)
    planned = Experiment(method, data, protocol, "tiny").result(encoder)
    planned = replace(planned, key=replace(planned.key, data=f"digest of {task}"))
    folds: list[FoldValues] = []
    for place, value in enumerate(values):
        fold = {"seed": 0, "fold": first + place, "seconds": seconds + place}
        fold |= {"train": 20, "test": 40, "empty_batches": 0}
        every = {"": value} | {f"_{way}": ways[way][place] for way in ways}
        for ending, each in every.items():
            fold |= {f"accuracy{ending}": float(each), f"macro_f1{ending}": float(each) - 0.1}
        folds.append(fold)
    return with_folds(planned, folds)


def lines(outcomes: Sequence[Result], measure: str = "accuracy") -> dict[str, dict[str, Any]]:
    """The compared rows of one data set, by the method."""
    records = (row for row in fold_records(outcomes, measure) if row["role"] == "measured")
    return {row["method"]: row for row in compare_methods(records)}


def tables(
    outcomes: Sequence[Result], measure: str | None, published: Path | None = None
) -> Sequence[Table]:
    printed = published_folds(published) if published else []
    return fewshot_board(fold_records(outcomes, measure, printed)).tables


def render(outcomes: Sequence[Result], measure: str | None, published: Path | None = None) -> str:
    printed = published_folds(published) if published else []
    return render_board(fewshot_board(fold_records(outcomes, measure, printed)))


def groups(outcomes: Sequence[Result]) -> dict[str, list[str]]:
    """The tasks of the experiments of each table, by its heading."""
    found: dict[str, list[str]] = {}
    for row in fold_records(outcomes, "accuracy"):
        if row["role"] == "measured":
            found.setdefault(row["table"], []).append(row["task"])
    return found


def of_twelve(outcome: Result, n_folds: int = 12) -> Result:
    """An outcome of a protocol with so many folds, so that none is missing."""
    protocol = {**outcome.key.protocol, "folds": n_folds}
    return replace(outcome, key=replace(outcome.key, protocol=protocol))


def is_compared(line: Mapping[str, Any]) -> bool:
    return not math.isnan(line["difference"])


def rows(text: str) -> dict[str, list[str]]:
    """The cells of all tables in a text, by the method, the last table's where several."""
    found = {}
    ranked = False
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|:"):
            first, *others = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
            ranked = first == "rank" if first in {"rank", "method"} else ranked
            if ranked:
                first, *others = others
            found[first] = others
    return found


def test_lines_are_compared_with_cross_entropy_as_scipy_does() -> None:
    methods: list[Method] = [Frozen(), FineTuning(loss=SupCon()), FewShotSetFit()]
    others = {
        full_title(method): BASE + shift + noise
        for method, shift, noise in zip(methods, (0.05, 0.015, 0.0), NOISE[:3], strict=True)
    }
    outcomes = [made(m, others[full_title(m)]) for m in methods]
    outcomes.insert(1, made(FineTuning(), BASE))
    found = lines(outcomes)
    raw = {name: stats.ttest_rel(values, BASE).pvalue for name, values in others.items()}
    order = sorted(raw, key=lambda name: raw[name])
    stepped = 0.0
    for place, name in enumerate(order):
        line, values = found[name], others[name]
        assert line["p"] == pytest.approx(raw[name])
        assert line["difference"] == pytest.approx((values - BASE).mean())
        interval = stats.ttest_rel(values, BASE).confidence_interval(0.95)
        assert (line["low"], line["high"]) == pytest.approx((interval.low, interval.high))
        stepped = max(stepped, min(1.0, raw[name] * (3 - place)))
        assert line["p_holm"] == pytest.approx(stepped)
    base = found["CCE"]
    assert not is_compared(base)
    assert math.isnan(base["p_holm"])
    assert [*base["folds"].values()] == pytest.approx(BASE)


def test_stars_are_raw_and_daggers_corrected() -> None:
    wide = 0.1 * np.array([1.0, -1.0] * 6)
    clear, slight, none = BASE + 0.05 + wide / 50, BASE + 0.0034 + wide / 20, BASE + wide
    outcomes = [
        made(FineTuning(), BASE),
        made(Frozen(), clear),
        made(FineTuning(loss=SupCon()), slight),
        made(FineTuning(loss=ProxyNCA()), none),
    ]
    outcomes = [of_twelve(outcome) for outcome in outcomes]
    p = stats.ttest_rel(slight, BASE).pvalue
    assert 0.025 < p < 0.05  # lost when two are tested
    marks = {name: line["mark"] for name, line in lines(outcomes).items()}
    assert marks["Frozen + logistic regression"] == "*†"
    assert (marks["CCE + SupCon"], marks["CCE + ProxyNCA"], marks["CCE"]) == ("*", "", "")
    spread = f"{100 * clear.mean():.2f} ± {100 * clear.std():.2f}"
    overview = rows(render(outcomes, "accuracy").split("###")[0])
    assert overview["Frozen + logistic regression"][0].startswith(rf"{spread}\*†")


def test_a_worse_method_is_marked_as_well() -> None:
    outcomes = [
        of_twelve(made(FineTuning(), BASE)),
        of_twelve(made(Frozen(), BASE - 0.05 + NOISE[0] / 10)),
    ]
    assert lines(outcomes)["Frozen + logistic regression"]["mark"] == "*†"
    assert rows(render(outcomes, "accuracy"))["Frozen + logistic regression"][0].startswith("-")


def test_the_measure_asked_for_is_shown() -> None:
    outcome = made(FineTuning(), [0.5, 0.7])
    for measure, mean in (("accuracy", "60.00"), ("macro_f1", "50.00")):
        overview = render([outcome], measure).split("###")[0]
        assert rows(overview)["CCE"][0].startswith(f"{mean} ± 10.00")
    assert "macro F1, times 100." in render([outcome], "macro_f1")
    assert render([outcome], None) == render([outcome], "macro_f1")


def test_folds_are_paired_by_their_number() -> None:
    """Of the method, only folds 4 to 9 are there yet."""
    values = BASE[4:10] + NOISE[0, :6]
    for outcomes in (
        [made(FineTuning(), BASE), made(Frozen(), values, first=4)],
        [made(Frozen(), values, first=4), made(FineTuning(), BASE)],
    ):
        line = lines(outcomes)["Frozen + logistic regression"]
        assert line["p"] == pytest.approx(stats.ttest_rel(values, BASE[4:10]).pvalue)
        assert [*line["folds"].values()] == pytest.approx(values)


def test_without_a_shared_fold_nothing_is_compared() -> None:
    outcomes = [made(FineTuning(), BASE[:3]), made(Frozen(), BASE[3:6], first=3)]
    assert not any(map(is_compared, lines(outcomes).values()))
    text = render(outcomes, "accuracy")
    assert "nan" not in text
    assert "none is compared" in text


def test_every_column_is_explained() -> None:
    text = render([made(FineTuning(), BASE), made(Frozen(), BASE + NOISE[0])], "accuracy")
    (_rank, _method, *heads) = next(
        line for line in text.splitlines() if "minus CCE" in line
    ).split("|")[1:-1]
    for head in [*heads, "+ inf"]:
        assert explain(head)


def test_one_shared_fold_has_a_difference_and_no_p() -> None:
    outcomes = [made(FineTuning(), [0.5, 0.6]), made(Frozen(), [0.75])]
    line = lines(outcomes)["Frozen + logistic regression"]
    assert line["difference"] == pytest.approx(0.25)
    assert math.isnan(line["p_holm"])
    cells = rows(render(outcomes, "accuracy"))["Frozen + logistic regression"]
    assert cells == ["+25.00", "-", "-", "1", "2.0"]


def test_constant_scores_are_compared_too() -> None:
    outcomes = [made(FineTuning(), [0.5] * 5), made(Frozen(), [0.5] * 5)]
    outcomes.append(made(FewShotSetFit(), [0.75] * 5))
    outcomes = [of_twelve(outcome, 5) for outcome in outcomes]
    found = lines(outcomes)
    same, other = found["Frozen + logistic regression"], found["SetFit"]
    assert (same["p"], other["p"]) == (1.0, 0.0)
    assert (same["mark"], other["mark"]) == ("", "*†")
    assert "nan" not in render(outcomes, "accuracy")


def test_without_cross_entropy_nothing_is_compared() -> None:
    outcomes = [made(Frozen(), BASE), made(FineTuning(loss=SupCon()), BASE + 0.1)]
    assert not any(map(is_compared, lines(outcomes).values()))
    text = render(outcomes, "accuracy")
    assert "none is compared" in text
    assert "*" not in text
    assert "none is compared" not in render(outcomes[:1], "accuracy")


def test_proxies_are_a_line_of_their_own_against_the_linear_layer_of_cce() -> None:
    outcome = made(FineTuning(loss=SoftTriple()), BASE, proxies=BASE + 0.01 + NOISE[0])
    found = lines([outcome, made(FineTuning(), BASE)])
    assert set(found) == {"CCE + SoftTriple", "CCE + SoftTriple + inf", "CCE"}
    line = found["CCE + SoftTriple + inf"]
    expected = stats.ttest_rel(BASE + 0.01 + NOISE[0], BASE).pvalue
    assert line["p"] == pytest.approx(expected)
    assert line["p_holm"] == pytest.approx(min(1.0, 2 * expected))


def test_two_settings_of_one_loss_are_told_apart() -> None:
    low, high = (FineTuning(loss=SupCon(), beta=beta) for beta in (0.1, 0.9))
    alone = made(FineTuning(), BASE)
    outcomes = [alone, made(low, BASE + NOISE[0]), made(high, BASE + 0.1 + NOISE[1])]
    found = lines(outcomes)
    assert len(found) == 3
    for beta, values in ((0.1, NOISE[0]), (0.9, 0.1 + NOISE[1])):
        line = found[f"CCE + SupCon (beta {beta})"]
        assert line["p"] == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
        assert line["p_holm"] >= line["p"]
        assert line["settings.beta"] == beta
    cells = rows(render(outcomes, "accuracy"))
    assert {"CCE + SupCon (beta 0.1)", "CCE + SupCon (beta 0.9)"} < set(cells)


@pytest.mark.parametrize(
    ("method", "title"),
    [
        (FineTuning(), "CCE"),
        (FineTuning(layers=1, pooling="first"), "CCE"),
        (FineTuning(rate=1e-5, epochs=8), "CCE (epochs 8)"),
        (FineTuning(loss=SoftTriple(), beta=1), "CCE + SoftTriple (beta 1)"),
        (
            FineTuning(loss=SoftTriple(gamma=0.2), rate=3e-5),
            "CCE + SoftTriple (rate 3e-05, gamma 0.2)",
        ),
        (FewShotSetFit(batch_size=8), "SetFit (batch_size 8)"),
    ],
)
def test_a_title_says_what_is_not_the_default(method: Method, title: str) -> None:
    assert full_title(method) == title


def test_of_several_cross_entropies_the_most_alike_is_the_baseline() -> None:
    long, short = made(FineTuning(), BASE), made(FineTuning(epochs=8), BASE - 0.1)
    method = made(FineTuning(loss=SupCon(), epochs=8), BASE + 0.05 + NOISE[0])
    other = made(Frozen(), BASE + 0.05 + NOISE[1])
    for outcomes in ([long, short, method, other], [other, method, short, long]):
        found = lines(outcomes)
        supcon, frozen = found["CCE + SupCon (epochs 8)"], found["Frozen + logistic regression"]
        assert supcon["difference"] == pytest.approx(0.15 + NOISE[0].mean())
        assert frozen["difference"] == pytest.approx(0.05 + NOISE[1].mean())
        assert not is_compared(found["CCE (epochs 8)"])


def test_another_encoder_shape_seed_or_protocol_is_another_table() -> None:
    few = PROTOCOLS["few-shot"]
    outcomes = [
        made(FineTuning(), BASE),
        made(Frozen(), BASE),
        made(FineTuning(layers=1), BASE),
        made(FineTuning(pooling="first"), BASE),
        made(FineTuning(), BASE, protocol=replace(few, rows=100)),
        made(FineTuning(), BASE, protocol=replace(few, seeds=(1,))),
        made(FineTuning(), BASE, encoder=replace(ENCODER, prompt="say: ")),
        made(FineTuning(), BASE, encoder=replace(ENCODER, weights="others")),
        made(FineTuning(), BASE, encoder=replace(ENCODER, name="the same by another name")),
    ]
    found = groups(outcomes)
    assert [len(tasks) for tasks in found.values()] == [3, 1, 1, 1, 1, 1, 1]
    assert list(found)[1:6] == [
        "tiny, first layer, 20 rows, 40 folds, seed 0",
        "tiny, first pooling, 20 rows, 40 folds, seed 0",
        "tiny, 100 rows, 40 folds, seed 0",
        "tiny, 20 rows, 40 folds, seed 1",
        "tiny (prompt 'say: '), 20 rows, 40 folds, seed 0",
    ]


def test_data_that_was_changed_is_another_column_with_tests_of_its_own() -> None:
    """Both are in the folder, and nothing says which of them is what the task holds now."""
    old = [made(FineTuning(), BASE), made(Frozen(), BASE + NOISE[0])]
    new = [made(FineTuning(), BASE - 0.1), made(Frozen(), BASE + NOISE[1])]
    changed = [replace(each, key=replace(each.key, data="other")) for each in new]
    (tasks,) = groups([old[0], changed[0], old[1], changed[1]]).values()
    assert tasks == ["mr (data digest of mr)", "mr (data other)"] * 2
    text = render([*old, *changed], "accuracy")
    first, second, _ = rows(text.split("###")[0])["CCE"]
    assert float(first.split()[0]) == pytest.approx(float(second.split()[0]) + 10)
    for outcomes, name in ((old, "mr (data digest of mr)"), (changed, "mr (data other)")):
        (line,) = filter(is_compared, lines(outcomes).values())
        assert line["p_holm"] == pytest.approx(line["p"])  # of one test
        part = next(part for part in text.split("### ") if part.startswith(name))
        shown = float(rows(part)["Frozen + logistic regression"][2])
        assert shown == pytest.approx(line["p_holm"], rel=0.1, abs=5e-5)
        assert shown > 0


def test_two_encoders_of_one_heading_are_told_apart() -> None:
    outcomes = [
        made(FineTuning(), BASE),
        made(FineTuning(), BASE, encoder=replace(ENCODER, max_tokens=8)),
        made(FineTuning(), BASE, encoder=replace(ENCODER, name="other")),
        made(FineTuning(), BASE, encoder=replace(ENCODER, name="other", max_tokens=9)),
    ]
    digests = [each.key.encoder.digest for each in outcomes]
    begun = "tiny, 20 rows, 40 folds, seed 0"
    assert list(groups(outcomes)) == [
        f"{begun}, encoder {digests[0]}",
        f"{begun}, encoder {digests[1]}",
        begun.replace("tiny", "other"),
    ]


def test_a_heading_says_what_was_drawn() -> None:
    result = made(FineTuning(), BASE, protocol=PROTOCOLS["triple-entropy"])
    expected = "tiny, all training rows from a sample of 1,000, 5 folds, seeds 2, 16, 128, 2048"
    assert heading(result) == expected


def test_tasks_stand_side_by_side_with_their_mean() -> None:
    two = replace(PROTOCOLS["few-shot"], folds=2)
    outcomes = [
        made(FineTuning(), [0.5, 0.7], task="mr", protocol=two),
        made(FineTuning(), [0.9, 0.9], task="cr", protocol=two),
        made(Frozen(), [0.8, 0.8], task="cr", protocol=two),
    ]
    overview = render(outcomes, "accuracy").split("### ")[0]
    cells = rows(overview)
    assert cells["method"] == ["mr", "cr", "mean"]
    assert cells["CCE"] == ["60.00 ± 10.00", "90.00 ± 0.00", "75.00"]
    assert cells["Frozen + logistic regression"] == ["-", "80.00 ± 0.00\\*†", "-"]


def test_what_folds_can_show_is_said() -> None:
    from polarity_bench.metrics.significance import detectable_difference

    alone = made(FineTuning(), BASE)
    outcomes = [alone, made(Frozen(), BASE + NOISE[0]), made(FewShotSetFit(), BASE)]
    most = 100 * detectable_difference(float(NOISE[0].std(ddof=1)), 12)
    text = render(outcomes, "accuracy")
    assert (
        f"Minimum detectable difference from CCE with these folds: 0.0 to {most:.1f} points" in text
    )


# Chance, order, ranks and signs


@pytest.mark.parametrize("counts", [[3, 1], [5, 5], [1, 4, 7]])
def test_guesses_score_what_scikit_learn_gives_them(counts: list[int]) -> None:
    """The prior is every guess for every row, each as often as its class is in the data."""
    labels = np.repeat(np.arange(len(counts)), counts)
    most = np.full_like(labels, np.argmax(counts))
    pairs = {MAJORITY: (labels, most)}
    pairs[PRIOR] = (np.repeat(labels, len(labels)), np.tile(labels, len(labels)))
    for way, (truth, guesses) in pairs.items():
        f1 = f1_score(truth, guesses, average="macro", zero_division=0.0)
        assert guess_scores(counts, "macro_f1")[way] == pytest.approx(f1)
        assert guess_scores(counts, "accuracy")[way] == pytest.approx(
            accuracy_score(truth, guesses)
        )


def test_a_classifier_that_collapsed_to_one_class_is_warned_of() -> None:
    """Macro F1 of 39.3 on CR, where the majority class alone has 38.9, and guesses have 50."""
    collapsed = [0.493, 0.489, 0.497] * 4  # macro F1 is 0.1 less
    counts = (1368, 2407)
    good = made(FineTuning(), BASE, counts=counts)
    outcomes = [good, made(Frozen(), collapsed, counts=counts)]
    text = render(outcomes, "macro_f1")
    assert "**At or below chance**" in text
    assert "better guess): Frozen + logistic regression on mr (39.30)." in text
    found = rows(text.split("### ")[0])
    assert found["Majority class"] == ["38.94"]
    assert found["Guesses by class prior"] == ["50.00"]
    assert "At or below chance" not in render([good], "macro_f1")
    accuracy = render(outcomes, "accuracy")
    assert rows(accuracy.split("### ")[0])["Majority class"] == ["63.76"]


def test_methods_are_sorted_by_their_mean_above_what_guesses_score() -> None:
    methods: list[Method] = [Frozen(), FewShotSetFit(), FineTuning()]
    outcomes = [
        made(method, BASE + shift) for method, shift in zip(methods, (-0.05, 0.1, 0.0), strict=True)
    ]
    overview, details = tables(outcomes, "accuracy")
    by_mean = ["SetFit", "CCE", "Frozen + logistic regression"]
    assert overview.heads[0][1] == [*by_mean, MAJORITY, PRIOR]
    assert overview.roles == [*["encoder"] * 3, "chance", "chance"]
    assert dict(details.heads)["method"] == by_mean


def test_ranks_are_of_all_pairs_not_against_cross_entropy_alone() -> None:
    """Two methods that do not differ from cross-entropy, one on each side, differ by themselves."""
    wide = 0.05 * np.array([1.0, -1.0] * 6)
    noise = 0.001 * NOISE[0] / NOISE[0].std()
    methods: list[Method] = [FineTuning(), Frozen(), FewShotSetFit()]
    values = [BASE, BASE + 0.02 + wide, BASE - 0.02 + wide + noise]
    outcomes = [made(method, own) for method, own in zip(methods, values, strict=True)]
    p = {
        (i, j): stats.ttest_rel(a, b).pvalue
        for (i, a), (j, b) in combinations(enumerate(values), 2)
    }
    assert p[0, 1] > 0.05 < p[0, 2]
    assert 3 * p[1, 2] < 0.05
    (table,) = (table for table in tables(outcomes, "accuracy") if table.heading == "mr")
    heads = dict(table.heads)
    assert heads["method"] == ["Frozen + logistic regression", "CCE", "SetFit"]
    assert [rank.split("\N{EN DASH}") for rank in heads["rank"]] == [
        ["1", "2"],
        ["1", "3"],
        ["2", "3"],
    ]
    assert "paired t-tests of all pairs" in render(outcomes, "accuracy")


def test_methods_without_two_shared_folds_share_their_ranks() -> None:
    outcomes = [made(FineTuning(), [0.5, 0.6]), made(Frozen(), [0.75], first=9)]
    (table,) = (table for table in tables(outcomes, "accuracy") if table.heading == "mr")
    assert dict(table.heads)["rank"] == ["1\N{EN DASH}2"] * 2


def test_ranks_compare_common_folds_even_if_the_means_over_all_folds_differ() -> None:
    """Frozen has the easy folds only: its mean is higher, but CCE is better on each of them."""
    easy = BASE[:6] + 0.1
    values = easy - 0.05 + NOISE[0, :6] / 10
    outcomes = [made(FineTuning(), [*easy, *[0.3] * 6]), made(Frozen(), values)]
    assert stats.ttest_rel(values, easy).pvalue < 0.05
    (table,) = (table for table in tables(outcomes, "accuracy") if table.heading == "mr")
    heads = dict(table.heads)
    assert heads["method"] == ["Frozen + logistic regression", "CCE"]
    assert heads["rank"] == ["2", "1"]


def test_signs_are_explained_where_they_occur() -> None:
    both = render([made(FineTuning(), BASE), made(Frozen(), BASE + 0.05 + NOISE[0])], "accuracy")
    for said in (
        "\\*, †: better or worse",
        "±: standard deviation",
        "[low, high]: 95 %",
        r"\*: differs",
        "†: differs",
    ):
        assert said in both
    alone = render([made(FineTuning(), BASE)], "accuracy")
    assert "±: standard deviation over the folds" in alone
    for said in ("[low, high]", "differs from CCE", "bound the methods"):
        assert said not in alone


def test_names_are_escaped() -> None:
    outcome = made(FineTuning(), BASE, encoder=replace(ENCODER, name="a|b*c"), task="m|r")
    text = render([outcome], "accuracy")
    assert "## a\\|b\\*c" in text
    assert "### m\\|r" in text
    assert re.search(r"\| +m\\\|r \|", text)


def test_a_table_shows_the_mean_duration_of_a_fold() -> None:
    cells = rows(render([made(FineTuning(), [0.5, 0.7], seconds=1)], "accuracy"))
    assert cells["CCE"][-2:] == ["2", "1.5"]


def test_a_method_with_folds_to_come_says_how_many_there_are() -> None:
    protocol = replace(PROTOCOLS["few-shot"], folds=12)
    outcomes = [
        made(FineTuning(), BASE, protocol=protocol),
        made(Frozen(), BASE[:5], protocol=protocol),
    ]
    overview = render(outcomes, "accuracy").split("###")[0]
    assert "In brackets: number of folds with a score, if not all 12." in overview
    partial = [name for name, row in rows(overview).items() if row[0].endswith("(5)")]
    assert partial == ["Frozen + logistic regression"]
    assert "In brackets" not in render(outcomes[:1], "accuracy")


PUBLISHED = """name,model,task,score,value,std,star,protocol,source
CCE,big,mr,macro_f1,62.01,8.61,0,rows=20,Table 2
CCE,big,trec,macro_f1,39.43,10.61,1,rows=20,Table 2
CCE,big,mr,macro_f1,80.57,3.53,0,rows=100,Table 3
CCE,big,mr,accuracy,85.89,,,sample=1000,Table 9
"""


def test_what_a_paper_prints_stands_beside_for_as_many_rows(tmp_path: Path) -> None:
    file = tmp_path / "published.csv"
    file.write_text(PUBLISHED)
    outcomes = [made(FineTuning(), BASE, task=task) for task in ("mr", "trec", "cr")]
    text = render(outcomes, "macro_f1", file)
    assert "From Table 2, with other encoders and other folds. The scores above" in text
    assert "all parts of a data set (60 rows of mr, 60 rows of trec, 60 rows of cr); a" in text
    assert rows(text)["*CCE*"] == [
        "big",
        "*62.01* ± 8.61",
        r"*39.43* ± 10.61\*",
        "-",
    ]
    sampled = made(FineTuning(), BASE, protocol=PROTOCOLS["triple-entropy"])
    beside = rows(render([sampled], "accuracy", file))
    assert beside["*CCE*"] == ["big", "*85.89*"]
    assert "Printed in" not in render(outcomes[2:], "macro_f1", file)
    assert "Printed in" not in render(outcomes, "accuracy", file), "papers print macro F1"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "method,task,sample,rows,score,std,star,encoder,source\n",
            "'name' is missing, got encoder, method.*docs/boards",
        ),
        (PUBLISHED.replace("Table 3", ""), "line 4: the citation is missing"),
        (PUBLISHED.replace("8.61", "eight"), "line 2: 'std' must be a percentage from 0"),
        (PUBLISHED.replace("62.01", "nan"), "line 2: 'value' must be a percentage .* got 'nan'"),
        (PUBLISHED.replace("accuracy", "acuracy"), "line 5: unknown score 'acuracy'; did you mean"),
        (PUBLISHED.replace("rows=100", "100"), "line 4: 'protocol' must be like 'rows=20'"),
        (
            PUBLISHED + "CCE,big,mr,macro_f1,99,,,rows=20,T 2\n",
            "line 6: this line repeats the number in",
        ),
    ],
)
def test_published_scores_have_columns_and_a_source(
    tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "published.csv"
    file.write_text(content)
    with pytest.raises(InputError, match=said):
        published_folds(file)


def test_a_record_is_one_score_with_its_folds() -> None:
    outcome = made(FineTuning(loss=SoftTriple(), rate=3e-5), BASE, proxies=[*(BASE + 0.01)])
    of_measures = [fold_records([outcome], measure) for measure in ("macro_f1", "accuracy")]
    measured = [[row for row in rows if row["role"] == "measured"] for rows in of_measures]
    records = [row for pair in zip(*measured, strict=True) for row in pair]
    assert [(row["method"], row["metric"]) for row in records] == [
        (f"CCE + SoftTriple (rate 3e-05){ending}", measure)
        for ending in ("", " + inf")
        for measure in ("macro_f1", "accuracy")
    ]
    for row, values in zip(records, (BASE - 0.1, BASE, BASE - 0.09, BASE + 0.01), strict=True):
        assert list(row["folds"]) == [(0, fold) for fold in range(12)]
        assert [*row["folds"].values()] == pytest.approx(values)
        assert (row["value"], row["std"]) == pytest.approx((values.mean(), values.std()))
        assert (row["n"], n_planned(row["result"])) == (12, 40)
        assert (row["recipe"], row["settings.rate"]) == ("softtriple", 3e-5)
        assert (row["task"], row["protocol"]) == ("mr", "rows=20")
        assert row["encoder_digest"] == ENCODER.digest


def test_a_board_opens_with_who_beats_cross_entropy_and_by_how_much() -> None:
    outcomes = [made(FineTuning(), BASE), made(Frozen(), BASE + 0.05 + NOISE[0] / 10)]
    clear = stats.ttest_rel(BASE + 0.05 + NOISE[0] / 10, BASE).confidence_interval(0.95)
    low, high = 100 * clear.low, 100 * clear.high
    opening = render(outcomes, "accuracy").split("\n\n")[1]
    assert opening.startswith("After Holm's correction, these methods win comparisons with ")
    assert "(CCE): Frozen + logistic regression 1 of 1; the mean difference is +" in opening
    assert f"points [+{low:.2f}, +{high:.2f}] (Frozen + logistic regression on mr)." in opening
    same = [made(FineTuning(), BASE), made(Frozen(), BASE), made(FewShotSetFit(), BASE - 0.1)]
    opening = render(same, "accuracy").split("\n\n")[1]
    assert "no method wins any of 2 comparisons" in opening
    assert "range from -10.00 points" in opening
    assert "Holm's correction, " not in render(outcomes[:1], "accuracy")


def test_how_a_board_was_made_is_below_its_notes() -> None:
    from polarity_bench.boards.config import Heading

    records = fold_records([made(FineTuning(), BASE)])
    said = Heading(title="T", introduction="Asked.", details="On *one* machine.")
    text = render_board(fewshot_board(records, said))
    assert text.index("Asked.") < text.index("All numbers times 100.")
    assert text.endswith("\n\n## How it was made\n\nOn *one* machine.\n")
