"""Rows of methods: seeds are averaged, and one strength of each dial is chosen."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean, stdev

import pytest
from scipy.stats import t
from standins.board import in_places, placed, read_board

from polarity_bench.boards.board import BoardParts, board
from polarity_bench.boards.config import BoardFile, Method
from polarity_bench.boards.method_rows import methods_of
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.render.chart import LineChart
from polarity_bench.render.markdown import render
from polarity_bench.render.table import Board, Table
from polarity_bench.results.frame import read_records
from polarity_bench.results.result_files import Result, write_result
from polarity_bench.scores import Score, ScoreKey

BASE = EncoderId("base", "b")
SEEDS = [EncoderId(f"ours-{seed}", str(seed)) for seed in range(3)]
OTHER = EncoderId("other", "o")
P = (0.70, 0.74, 0.81)
KEY = ScoreKey("polarity", 16)


def with_interval(result: Result, half_width: float) -> Result:
    p = result.scores[KEY].mean
    score = Score(p, math.nan, (p - half_width, p + half_width), 8)
    return replaced(result, {KEY: score})


def replaced(result: Result, scores: Mapping[ScoreKey, Score]) -> Result:
    return replace(result, scores={**result.scores, **scores})


RESULTS = [
    *(
        with_interval(placed(encoder, "sst2", p, 0.4, reference=BASE), 0.02)
        for encoder, p in zip(SEEDS, P, strict=True)
    ),
    with_interval(placed(OTHER, "sst2", 0.72, 0.5, reference=BASE), 0.02),
    placed(BASE, "sst2", 0.6, 0.6),
]
OURS = Method(name="ours", encoders=("ours-0", "ours-1", "ours-2"))


def made(**said: object) -> Board:
    return board(BoardParts(in_places(RESULTS), BoardFile.model_validate(said)))


def row_of(table: Table, name: str) -> dict[str, float | None]:
    place = table.heads[0][1].index(name)
    return {column.title: column.values[place] for column in table.columns}


def test_seeds_are_one_row_with_their_mean_and_sample_deviation() -> None:
    methods, singles = made(method=(OURS,)).tables
    row = row_of(methods, "ours")
    assert row["P"] == pytest.approx(fmean(P))
    assert row["P std over seeds"] == pytest.approx(stdev(P)), "n - 1, not n"
    assert row_of(methods, "other")["P std over seeds"] is None
    heads = dict(methods.heads)
    assert dict(zip(heads["encoder"], heads["seeds"], strict=True))["ours"] == "3"
    assert set(singles.heads[0][1]) == {"ours-0", "ours-1", "ours-2"}
    assert singles.is_folded


def test_the_interval_covers_other_seeds_and_other_queries() -> None:
    methods, _ = made(method=(OURS,)).tables
    (p,) = (column for column in methods.columns if column.title == "P")
    low, high = p.intervals[methods.heads[0][1].index("ours")] or (math.nan, math.nan)
    of_seeds = t.ppf(0.975, 2) * stdev(P) / math.sqrt(3)
    half_width = math.hypot(of_seeds, 0.02)
    assert low == pytest.approx(fmean(P) - half_width)
    assert high == pytest.approx(min(fmean(P) + half_width, 1.0))


def test_a_method_is_named_without_the_seed_and_with_its_other_numbers() -> None:
    """Before, all digits at the end were dropped, and dials of other sizes were one method."""
    training = {"recipe": {"name": "axis"}}
    results = []
    for labels, seed in product((20, 50), (0, 1, 10)):
        name = f"sst2-{labels}" + (f"-{seed}" if seed else "")
        about = training | {"labels": labels, "seed": seed}
        encoder = EncoderId(name, f"{labels} {seed}")
        results.append(replace(placed(encoder, "sst2", 0.7, 0.4), training=about))
    assert {*methods_of(results, []).values()} == {"sst2-20", "sst2-50"}


def test_methods_of_other_trainings_have_other_names() -> None:
    results = [
        replace(
            placed(EncoderId(f"dial-{seed}", str(seed)), "sst2", 0.7, 0.4),
            training={"labels": seed // 2, "seed": seed},
        )
        for seed in range(4)
    ]
    assert [*methods_of(results, []).values()] == ["dial", "dial", "dial-2", "dial-2"]


def test_encoders_that_no_method_lists_keep_their_rows() -> None:
    (table,) = made().tables
    assert {*table.heads[0][1]} >= {"ours-0", "ours-1", "ours-2", "other", "base"}
    assert "seeds" not in dict(table.heads)


def test_no_interval_of_one_seed_stands_for_several() -> None:
    results = [RESULTS[0], *(placed(e, "sst2", 0.7, 0.4, reference=BASE) for e in SEEDS[1:])]
    parts = BoardParts(in_places([*results, *RESULTS[3:]]), BoardFile(method=(OURS,)))
    methods, _ = board(parts).tables
    (p,) = (column for column in methods.columns if column.title == "P")
    assert p.intervals[methods.heads[0][1].index("ours")] is None


@pytest.mark.parametrize("group_by", ["", "reference"])
def test_the_finding_names_the_best_row_that_competes(group_by: str) -> None:
    """A base has no rank under itself, and stays with the encoders that refer to it."""
    second = EncoderId("a second base", "s")
    results = in_places(
        [
            placed(OTHER, "sst2", 0.7, 0.4, reference=BASE),
            placed(BASE, "sst2", 0.9, 0.6),
            placed(EncoderId("another", "a"), "sst2", 0.6, 0.5, reference=second),
            placed(second, "sst2", 0.5, 0.6),
        ]
    )
    made_of = board(BoardParts(results, BoardFile.model_validate({"group_by": group_by})))
    seconds = ["another", "a second base"]
    grouped = [*seconds, "base", "other"] if group_by else ["base", "other", *seconds]
    assert list(dict(made_of.tables[0].heads)["encoder"])[:4] == grouped
    best = "**other** has the highest joint on sst2 among the encoders with the reference base: "
    assert made_of.finding.startswith(best)
    joint = row_of(made_of.tables[0], "base")["joint"] or 0.0
    end = f"; the reference itself has {100 * joint:.2f} and does not compete."
    assert made_of.finding.endswith(end)


def test_the_finding_rank_and_bold_agree_on_a_base_above_all_others() -> None:
    results = in_places(
        [
            placed(OTHER, "sst2", 0.7, 0.4, reference=BASE),
            placed(EncoderId("third", "t"), "sst2", 0.65, 0.4, reference=BASE),
            placed(BASE, "sst2", 0.9, 0.6),
        ]
    )
    made_of = board(BoardParts(results, BoardFile()))
    table = made_of.tables[0]
    (joint,) = (column for column in table.columns if column.title == "joint")
    names = list(dict(table.heads)["encoder"])
    assert joint.rivals[names.index("base")] is None
    assert made_of.finding.startswith("**other** has the highest joint on sst2 among ")
    assert "; third follows with " in made_of.finding
    assert ", and the reference itself has " in made_of.finding
    # With P, which needs no reference, the base competes.
    by_p = board(BoardParts(results, BoardFile(sort="P")))
    assert by_p.finding.startswith("**base** has the highest P on sst2: ")


def test_methods_with_a_number_are_curves_of_p_and_s_beside_a_flat_base() -> None:
    """Before, a plane of single encoders was drawn, with one point for each seed."""
    few = Method(name="few", encoders=("other",), at=20)
    many = Method(name="many", encoders=("ours-0", "ours-1", "ours-2"), at=500)
    p, s = made(method=(many, few), numbers="labels").charts
    assert isinstance(p, LineChart)
    assert isinstance(s, LineChart)
    assert (p.title, p.x_title, p.x) == (
        "sst2, k = 16, linear weights: P by labels",
        "labels",
        [20, 500],
    )
    assert [line.name for line in p.series] == ["mean over seeds", "base"]
    assert p.series[0].values == pytest.approx([0.72, fmean(P)])
    assert p.series[1].values == pytest.approx([0.6, 0.6])
    assert s.series[0].values == pytest.approx([0.5, 0.4])
    assert not any(isinstance(chart, LineChart) for chart in made(method=(OURS,)).charts)


def test_two_methods_with_one_number_are_named_and_not_lost() -> None:
    """Before, a chart showed one of them."""
    few = Method(name="few", encoders=("other",), at=20)
    again = Method(name="again", encoders=("ours-0", "ours-1", "ours-2"), at=20)
    with pytest.raises(InputError, match=r"board\.toml: .* 'few' and 'again' have the same `at`"):
        made(method=(few, again), numbers="labels")


def test_methods_with_names_of_lines_are_several_curves() -> None:
    few = Method(name="few", encoders=("other",), at=20, line="SetFit")
    dial = Method(name="dial", encoders=("ours-0", "ours-1", "ours-2"), at=20, line="dial")
    p, _ = made(method=(few, dial), numbers="labels").charts
    assert isinstance(p, LineChart)
    found = {line.name: line.values for line in p.series}
    assert found == {"SetFit": [0.72], "dial": [pytest.approx(fmean(P))], "base": [0.6]}


def test_a_line_with_the_name_of_the_base_is_refused() -> None:
    """Before, the line was replaced by the flat one of the base."""
    few = Method(name="few", encoders=("other",), at=20, line="base")
    with pytest.raises(
        InputError, match=r"board\.toml: the `line` 'base' has the name of the base"
    ):
        made(method=(few,), numbers="labels")


def test_numbers_without_a_title_are_refused_and_the_file_is_named(tmp_path: Path) -> None:
    for result in RESULTS:
        write_result(result, tmp_path / "results")
    few = '[[method]]\nname = "few"\nencoders = ["other"]\nat = 20\n'
    (tmp_path / "board.toml").write_text(few)
    where = re.escape(str(tmp_path / "board.toml"))
    with pytest.raises(InputError, match=rf"^{where}: .*`numbers` is empty; give it the title"):
        read_board(tmp_path)


def test_a_number_of_a_method_is_finite() -> None:
    with pytest.raises(ValueError, match="finite"):
        Method(name="few", encoders=("other",), at=math.inf)


def test_a_name_has_the_usual_sides_only_beside_the_same_encoder_without_them() -> None:
    sided = replace(OTHER, sides="query-document")
    results = [placed(sided, "sst2", 0.7, 0.4), placed(BASE, "sst2", 0.6, 0.6)]

    def names(*more: Result) -> set[str]:
        made_of = board(BoardParts(in_places([*results, *more]), BoardFile()))
        return {*dict(made_of.tables[0].heads)["encoder"]}

    assert names() >= {"other", "base"}
    assert names(placed(OTHER, "sst2", 0.7, 0.4)) >= {"other", "other (sides query-document)"}


def test_a_board_opens_with_its_finding_and_single_runs_stay_off_the_readme() -> None:
    text = render(made(method=(OURS,)))
    finding = text.split("\n\n")[1]
    assert finding.startswith("**other** has the highest joint on sst2: ")
    assert "; ours (3 seeds) follows with " in finding
    assert "ours-1" not in text
    assert "Each single run is on the page and in `table.csv`." in text


def test_rows_that_keep_too_little_meaning_come_last() -> None:
    """Retention of ours is (0.4 - chance) / (0.6 - chance), below that of the other."""
    (table,) = made(keep=0.9, encoders=("ours-0", "ours-2", "other", "base")).tables
    names = [name for name in table.heads[0][1] if name in {"ours-0", "ours-2", "other", "base"}]
    retention = [row_of(table, name)["retention"] or 0.0 for name in names]
    kept = [value >= 0.9 for value in retention]
    assert kept == sorted(kept, reverse=True)
    assert names.index("ours-2") < names.index("ours-0"), "each part is sorted by P"


def test_trainings_that_differ_in_the_seed_alone_are_one_method(tmp_path: Path) -> None:
    """As results record it; another setting is another method, and no name is parsed."""
    for seed, result in enumerate(RESULTS[:4]):
        recipe = {"name": "axis", "epochs": 1 if seed == 3 else 3}
        training = {"recipe": recipe, "seed": seed % 3, "base": "base"}
        write_result(replace(result, training=training), tmp_path)
    table = read_board(tmp_path).tables[0]
    heads = dict(table.heads)
    seeds = dict(zip(heads["encoder"], heads["seeds"], strict=True))
    assert {name: seeds[name] for name in ("ours", "other")} == {"ours": "3", "other": "1"}
    records = read_records(tmp_path).drop_duplicates("encoder").set_index("encoder")
    assert dict(records["seed"]) == {"ours-0": 0, "ours-1": 1, "ours-2": 2, "other": 0}
    assert records.loc["other", "settings.epochs"] == 1
    assert set(records["recipe"]) == {"axis"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            'name = "a"\nencoders = ["ours-9"]',
            r"'method' 'a': no results of 'ours-9'; did you mean",
        ),
        (
            'name = "a"\nencoders = ["ours-0"]\n[[method]]\nname = "b"\nencoders = ["ours-0"]',
            r"'method' 'b': 'ours-0' is already listed by the method 'a'; list each",
        ),
        (
            f'name = "a"\nencoders = ["ours-0", "{SEEDS[0].digest[:8]}"]',
            r"'method' 'a': '\w+' is already listed by the method 'a'; list each",
        ),
        ('name = "a"', r"board\.toml: .*encoders"),
    ],
)
def test_a_method_that_lists_wrong_encoders_is_refused(
    tmp_path: Path, lines: str, message: str
) -> None:
    for result in RESULTS:
        write_result(result, tmp_path / "results")
    (tmp_path / "board.toml").write_text(f"[[method]]\n{lines}\n")
    with pytest.raises(InputError, match=message):
        read_board(tmp_path)
