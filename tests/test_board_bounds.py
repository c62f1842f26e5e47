"""Boards: what bounds every row, rows of curves, and planes of P against S."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from standins.board import S_ORACLE, curve_of, in_places, joint_of, placed, read_board, retention_of

from polarity_bench.boards.board import BoardParts, board
from polarity_bench.boards.config import BoardFile
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.render.chart import Mark, Plane
from polarity_bench.render.markdown import render
from polarity_bench.render.table import Board, Table
from polarity_bench.results.curve import Curve, front_of_results
from polarity_bench.results.curve_files import write_curve
from polarity_bench.results.result_files import Result, write_result
from polarity_bench.scores import WEIGHTINGS, Score, ScoreKey

BASE, OTHER = EncoderId("base", "1"), EncoderId("other", "2")
ONE, TWO = EncoderId("one", "3"), EncoderId("two", "4")
AT = {at: EncoderId(f"dial at {at:g}", f"5 {at}") for at in (0.0, 0.5, 1.0)}
ORACLE, RANDOM = "gold labels (oracle)", "random retrieval"
Rows = dict[tuple[str, str, str], dict[str, float | None]]


def made(
    results: Sequence[Result], curves: Sequence[Curve] = (), weighting: str = "linear"
) -> Board:
    return board(BoardParts(in_places(results), BoardFile(weighting=weighting), curves))


def rows_of(table: Table) -> Rows:
    """Values by column, by name, reference and k."""
    names = zip(*(cells for _, cells in table.heads), strict=True)
    return {
        (row[0], row[1], row[2]): {column.title: column.values[i] for column in table.columns}
        for i, row in enumerate(names)
    }


def bounds_of(table: Table) -> Rows:
    return {row: values for row, values in rows_of(table).items() if row[0] in {ORACLE, RANDOM}}


# Bounds


def test_gold_labels_and_random_retrieval_stand_below_every_table_of_one_reference() -> None:
    results = [placed(e, t, 0.7, 0.4, reference=BASE) for e in (ONE, TWO) for t in ("sst2", "cr")]
    kept = retention_of(S_ORACLE)
    tables = made(results).tables
    assert [table.heading for table in tables] == ["Means over 2 polarity tasks", "cr", "sst2"]
    for table in tables:
        assert table.heads[0][1][-2:] == [ORACLE, RANDOM]
        bounds = bounds_of(table)
        oracle, chance = bounds[ORACLE, "base", "16"], bounds[RANDOM, "base", "16"]
        wanted = {"P": 1, "S": 0.5, "retention": kept, "joint": joint_of(1, kept), "front": 1}
        assert {title: oracle[title] for title in wanted} == pytest.approx(wanted)
        wanted = {"P": 0.5, "S": 0.2, "retention": 0, "joint": 0, "front": 0}
        assert {title: chance[title] for title in wanted} == pytest.approx(wanted)
        assert oracle.get("kNN accuracy") is None


def test_every_reference_and_k_has_its_bounds() -> None:
    results = [
        placed(ONE, "sst2", 0.7, 0.4, reference=BASE, ks=(4, 16)),
        placed(TWO, "sst2", 0.7, 0.3, reference=OTHER),
        placed(BASE, "sst2", 0.6, 0.6),
    ]
    bounds = bounds_of(made(results).tables[-1])
    assert {row: values["S"] for row, values in bounds.items()} == {
        (ORACLE, "base", "4"): 0.5,
        (ORACLE, "base", "16"): 0.5,
        (ORACLE, "other", "16"): pytest.approx(0.4),
        (RANDOM, "base", "4"): 0.2,
        (RANDOM, "base", "16"): 0.2,
        (RANDOM, "other", "16"): pytest.approx(0.1),
    }


def test_encoders_that_are_their_own_reference_share_bounds_without_s() -> None:
    results = [placed(e, "sst2", 0.7, 0.6) for e in (BASE, OTHER)]
    bounds = bounds_of(made(results).tables[-1])
    oracle, chance = bounds[ORACLE, "itself", "16"], bounds[RANDOM, "itself", "16"]
    assert len(bounds) == 2
    assert (oracle["P"], oracle["S"], oracle["retention"], oracle["joint"]) == (1, None, None, None)
    assert (chance["P"], chance["S"], chance["retention"], chance["joint"]) == (0.5, None, 0, 0)
    assert (oracle["front"], chance["front"]) == (1, 0)
    alone = bounds_of(made(results[:1]).tables[-1])
    assert alone[ORACLE, "itself", "16"]["S"] == 0.5
    assert alone[RANDOM, "itself", "16"]["S"] == 0.2


def test_bounds_are_neither_ranked_nor_bold() -> None:
    results = [placed(e, "sst2", p, 0.3, reference=BASE) for e, p in ((ONE, 0.4), (TWO, 0.9))]
    table = made(results).tables[-1]
    assert table.heads[0][1] == ["two", "one", ORACLE, RANDOM]  # `one` is worse than random
    for column in table.columns:
        assert column.rivals[2:] == [None, None]
    text = render(made(results))
    assert "| **90.00** |" in text
    assert "| 100.00 |" in text.replace("  ", " ").replace("  ", " ")
    assert "(the k nearest sources of the query's label under the reference), are bounds" in text


def test_results_of_before_the_oracle_have_random_retrieval_and_no_front() -> None:
    results = [placed(e, "sst2", 0.7, 0.4, reference=BASE, with_oracle=False) for e in (ONE, TWO)]
    table = made(results).tables[-1]
    assert table.heads[0][1] == ["one", "two", RANDOM]
    assert [column.title for column in table.columns] == [
        "P",
        "S",
        "retention",
        "joint",
        "kNN accuracy",
    ]
    text = render(made(results))
    assert "Random retrieval is a bound and does not compete." in text
    assert "gold labels" not in text
    assert "front" not in text


def test_where_the_reference_is_no_better_than_chance_bounds_are_undefined() -> None:
    result = placed(ONE, "sst2", 0.7, 0.2, reference=BASE)
    flat = {ScoreKey("similarity_reference", 16): replace(result.main, mean=0.2)}
    bounds = bounds_of(made([replace(result, scores={**result.scores, **flat})]).tables[-1])
    for row in bounds.values():
        assert row["retention"] is not None
        assert math.isnan(row["retention"])


def test_a_mean_of_bounds_needs_every_task() -> None:
    results = [
        placed(ONE, "sst2", 0.7, 0.4, reference=BASE),
        placed(ONE, "cr", 0.7, 0.4, reference=BASE, with_oracle=False),
    ]
    bounds = bounds_of(made(results).tables[0])
    assert bounds[ORACLE, "base", "16"]["P"] is None
    assert bounds[RANDOM, "base", "16"]["P"] == 0.5


def test_front_competes_where_rows_share_a_reference() -> None:
    results = [placed(e, "sst2", p, 0.4, reference=BASE) for e, p in ((ONE, 0.7), (TWO, 0.9))]
    (front,) = (c for c in made(results).tables[-1].columns if c.title == "front")
    assert front.rivals[:2] == [f"{BASE.digest}@16"] * 2
    alone = made([placed(ONE, "sst2", 0.7, 0.6), placed(TWO, "sst2", 0.8, 0.6)]).tables[-1]
    (front,) = (c for c in alone.columns if c.title == "front")
    assert set(front.rivals) == {None}


# Curves


def dial(task: str, points: dict[float, tuple[float, float]]) -> dict[float, Result]:
    return {at: placed(AT[at], task, *ps, reference=BASE) for at, ps in points.items()}


SST2 = dial("sst2", {0.0: (0.6, 0.6), 0.5: (0.8, 0.5), 1.0: (0.85, 0.3)})
CR = dial("cr", {0.0: (0.6, 0.6), 0.5: (0.7, 0.4), 1.0: (0.95, 0.5)})


def test_a_curve_is_a_row_at_its_best_strength_with_the_front_of_all() -> None:
    curve = curve_of("dial", SST2, 0.77, (0.7, 0.8))
    result = made([*SST2.values(), placed(ONE, "sst2", 0.99, 0.45, reference=BASE)], [curve])
    methods, singles = result.tables
    assert methods.heads[0][1] == ["one", "dial", ORACLE, RANDOM]
    assert dict(methods.heads)["strength"][1] == "0.5 (chosen here, best of 3)"
    assert (methods.is_folded, singles.is_folded) == (False, True)
    expected = ["dial (best strength 0.5)", "dial at 0.5", "dial at 1", "dial at 0"]
    assert singles.heads[0][1] == expected
    row = rows_of(singles)["dial (best strength 0.5)", "base", "16"]
    own = rows_of(singles)["dial at 0.5", "base", "16"]
    assert row == own | {"front": 0.77}
    for table, place in ((methods, 1), (singles, 0)):
        assert [column.values[place] for column in table.columns] == list(row.values())
        (front,) = (c for c in table.columns if c.title == "front")
        assert front.intervals[place] == pytest.approx((0.7, 0.8))
        for column in table.columns:  # the chosen strength is never bold
            assert (column.rivals[place] is None) == (column.title != "front")
    assert "chosen here" not in render(made(list(SST2.values())))
    assert "is the best on these test queries" in render(result)


def test_a_strength_is_best_for_a_task_or_for_their_mean() -> None:
    curves = [curve_of("dial", SST2, 0.7, (0.6, 0.8)), curve_of("dial", CR, 0.9, (0.8, 1.0))]
    results = [*SST2.values(), *CR.values()]
    tables = made(results, curves).tables
    means, cr, sst2 = (table for table in tables if table.is_folded)
    assert "dial (best strength 1)" in cr.heads[0][1]
    assert "dial (best strength 0.5)" in sst2.heads[0][1]
    joint = {
        at: joint_of(a.scores[ScoreKey("polarity", 16)].mean, retention_of(s(a)))
        + joint_of(b.scores[ScoreKey("polarity", 16)].mean, retention_of(s(b)))
        for (at, a), b in zip(SST2.items(), CR.values(), strict=True)
    }
    best = max(joint, key=lambda at: joint[at])
    row = rows_of(means)[f"dial (best strength {best:g})", "base", "16"]
    assert row["front"] == pytest.approx(0.8)
    assert row["P"] == pytest.approx(rows_of(means)[f"dial at {best:g}", "base", "16"]["P"])


def s(result: Result) -> float:
    return result.scores[ScoreKey("similarity", 16)].mean


def test_strengths_that_are_near_have_labels_of_their_own() -> None:
    ids = [EncoderId("dial", "w", axis=1, strength=each) for each in (0.1, 0.10000001, 1.0, -1.0)]
    ends = ("0.1", "0.10000001", "1", "-1")
    assert [each.label for each in ids] == [f"dial (strength {end})" for end in ends]


def test_a_curve_of_some_tasks_has_no_mean_over_all() -> None:
    curve = curve_of("dial", SST2, 0.7, (0.6, 0.8))
    means, cr, _, sst2 = made([*SST2.values(), *CR.values()], [curve]).tables
    assert [("best" in "".join(table.heads[0][1])) for table in (means, cr, sst2)] == [
        False,
        False,
        True,
    ]


def test_a_curve_through_the_base_finds_its_own_row() -> None:
    """Of a blend, weight 0 is the base, whose result names no reference."""
    results = {0.0: placed(BASE, "sst2", 0.9, 0.6), 1.0: SST2[1.0]}
    curve = curve_of("blend", results, 0.5, (0.4, 0.6))
    curve = replace(curve, reference=BASE)
    rows = rows_of(made(list(results.values()), [curve]).tables[-1])
    assert rows["blend (best strength 0)", "base", "16"]["P"] == 0.9


def test_a_curve_is_left_out_where_one_of_its_results_is() -> None:
    curve = curve_of("dial", SST2, 0.7, (0.6, 0.8))
    text = render(made([SST2[0.0], SST2[0.5]], [curve]))
    assert "chosen here" not in text


def test_curves_of_encoders_of_one_name_show_whose_they_are() -> None:
    curve = curve_of("dial", SST2, 0.77, (0.7, 0.8))
    others = [replace(curve, encoder=digest * 16) for digest in "ab"]
    found = made(list(SST2.values()), others)
    names = {name for name, _, _ in rows_of(found.tables[-1])}
    assert {f"dial @{digest * 8} (best strength 0.5)" for digest in "ab"} <= names
    (plane,) = found.planes
    drawn = {mark.name for mark in plane.marks if mark.role == "curve"}
    assert drawn == {f"dial @{digest * 8}" for digest in "ab"}


def test_curves_of_other_ks_are_rows_of_their_own() -> None:
    more = {at: placed(e, "sst2", 0.7, 0.4, reference=BASE, ks=(4, 16)) for at, e in AT.items()}
    results = [placed(e, "sst2", 0.7, 0.4, reference=BASE) for e in AT.values()]
    curves = [
        curve_of("dial", more, 0.5, (0.4, 0.6)),
        curve_of("dial", dict(zip(AT, results, strict=True)), 0.5, (0.4, 0.6)),
    ]
    for order in (curves, curves[::-1]):
        result = made([*more.values(), *results], order)
        table = result.tables[0]
        chosen = zip(dict(table.heads)["strength"], dict(table.heads)["k"], strict=True)
        assert sorted(k for strength, k in chosen if "chosen" in strength) == ["16", "4"]
        for plane in result.planes:
            assert len([mark for mark in plane.marks if mark.role == "curve"]) == 3


def test_curves_are_read_with_their_results(tmp_path: Path) -> None:
    for result in SST2.values():
        write_result(result, tmp_path / "results")
    front = front_of_results(list(SST2.values()), ScoreKey("front", 16, "linear"))
    write_curve(curve_of("dial", SST2, front, (0.6, 0.8)), tmp_path / "results")
    text = render(read_board(tmp_path))
    assert "0.5 (chosen here, best of 3)" in text
    assert "chosen here" not in render(read_board(tmp_path, models=["dial at 1"]))
    write_result(placed(AT[0.5], "sst2", 0.81, 0.5, reference=BASE), tmp_path / "results")
    with pytest.warns(
        InputWarning, match=r"skipped, because its results at strength 0\.5 are missing"
    ):
        assert "chosen here" not in render(read_board(tmp_path))


def test_the_curve_of_a_quick_look_is_left_out_without_a_word(tmp_path: Path) -> None:
    quick = {at: placed(e, "sst2", 0.7, 0.4, reference=BASE, limit=5) for at, e in AT.items()}
    for result in [*quick.values(), placed(ONE, "sst2", 0.7, 0.4)]:
        write_result(result, tmp_path)
    front = front_of_results(list(quick.values()), ScoreKey("front", 16, "linear"))
    write_curve(curve_of("dial", quick, front, (0.2, 0.6)), tmp_path)
    assert "dial" not in render(read_board(tmp_path))


# Planes


def plane_of(result: Board) -> Plane:
    (plane,) = result.planes
    return plane


def test_a_plane_holds_whatever_compares() -> None:
    results = [*SST2.values(), placed(BASE, "sst2", 0.6, 0.6)]
    results += [placed(ONE, "sst2", 0.7, 0.4, reference=BASE)]
    plane = plane_of(made(results, [curve_of("dial", SST2, 0.7, (0.6, 0.8))]))
    assert (plane.task, plane.reference, plane.k, plane.weighting) == ("sst2", "base", 16, "linear")
    assert set(plane.marks) == {
        Mark(ORACLE, "oracle", 1.0, 0.5),
        Mark(RANDOM, "random", 0.5, 0.2),
        Mark("base", "base", 0.6, 0.6),
        Mark("one", "encoder", 0.7, 0.4, tuned=True),
        Mark("dial", "curve", 0.6, 0.6, 0.0),
        Mark("dial", "curve", 0.8, 0.5, 0.5),
        Mark("dial", "curve", 0.85, 0.3, 1.0),
    }
    assert [mark.at for mark in plane.marks if mark.role == "curve"] == [0, 0.5, 1]


def test_points_of_a_dial_without_a_curve_are_encoders() -> None:
    plane = plane_of(made(list(SST2.values())))
    assert {mark.name for mark in plane.marks if mark.role == "encoder"} == {
        "dial at 0",
        "dial at 0.5",
        "dial at 1",
    }


def test_each_task_reference_and_k_has_its_plane_where_several_compare() -> None:
    results = [
        placed(ONE, "sst2", 0.7, 0.4, reference=BASE, ks=(4, 16)),
        placed(TWO, "sst2", 0.8, 0.4, reference=BASE),
        placed(TWO, "sst2", 0.8, 0.3, reference=OTHER),
        placed(ONE, "sst2", 0.8, 0.3, reference=OTHER),
        placed(ONE, "cr", 0.8, 0.3, reference=OTHER),
    ]
    planes = made(results).planes
    assert [(plane.task, plane.reference, plane.k) for plane in planes] == [
        ("cr", "other", 16),
        ("sst2", "base", 16),
        ("sst2", "other", 16),
    ]
    for plane in planes:
        oracles = [mark.s for mark in plane.marks if mark.role == "oracle"]
        assert oracles == [pytest.approx(0.5 if plane.reference == "base" else 0.4)]


def test_encoders_that_are_their_own_reference_make_no_plane_but_one_alone() -> None:
    both = [placed(e, "sst2", 0.7, 0.6) for e in (ONE, OTHER)]
    assert not made(both).planes
    alone = plane_of(made(both[:1]))
    assert [mark.role for mark in alone.marks] == ["oracle", "random", "base"]
    shared = [placed(e, "sst2", 0.7, 0.4, reference=BASE) for e in (ONE, TWO)]
    own = placed(OTHER, "sst2", 0.9, 0.5)  # its bounds are not those of `base`
    assert {mark.s for mark in plane_of(made([*shared, own])).marks} == {0.5, 0.2, 0.4}


def test_an_undefined_point_is_not_drawn() -> None:
    results = [placed(e, "sst2", 0.7, 0.4, reference=BASE) for e in (ONE, TWO)]
    gone = {ScoreKey("similarity", 16): replace(results[0].main, mean=math.nan)}
    results[0] = replace(results[0], scores={**results[0].scores, **gone})
    assert [mark.name for mark in plane_of(made(results)).marks if mark.role == "encoder"] == [
        "two"
    ]


# Published points


HEAD = "name,task,score,value,source\n"
P, S = "polarity_at_16", "similarity_at_16"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for encoder in (ONE, TWO):
        write_result(placed(encoder, "sst2", 0.7, 0.4, reference=BASE), tmp_path / "results")
    return tmp_path


def test_published_points_stand_in_the_plane_of_their_task_k_and_weighting(folder: Path) -> None:
    (folder / "published.csv").write_text(
        f'{HEAD}"Theirs, tuned",sst2,polarity_uniform_at_16,80.6,Table 1\n'
        '"Theirs, tuned",sst2,similarity_uniform_at_16,35.2,Table 1\n'
        f"A,sst2,{P},70,Table 2\nA,sst2,{S},30,Table 2\n"
        "B,sst2,polarity_uniform_at_4,70,Table 2\nB,sst2,similarity_uniform_at_4,30,Table 2\n"
        f"C,sst2,{P},70,Table 2\n"
    )
    found = {}
    for weighting in ("linear", "uniform"):
        marks = plane_of(read_board(folder, weighting)).marks
        found[weighting] = [mark for mark in marks if mark.role == "published"]
    assert found == {
        "linear": [Mark("A", "published", 0.7, 0.3)],
        "uniform": [Mark("Theirs, tuned", "published", 80.6 / 100, 35.2 / 100)],
    }


def test_a_published_row_competes_with_none_and_says_what_its_twin_has_more(folder: Path) -> None:
    (folder / "published.csv").write_text(
        f"name,task,score,value,source,twin,note\nTheirs,sst2,{P},95.5,A & B (2025),{ONE.name},"
        f"18 layers\nTheirs,sst2,{S},30,A & B (2025),{ONE.name},18 layers\n"
    )
    text = render(read_board(folder))
    row = next(line for line in text.splitlines() if "as published" in line)
    assert "*Theirs, as published \\[1\\]*" in row
    assert "*95.50* (-25.50)" in row
    assert "*30.00* (+10.00)" in row
    assert "**70.00**" in text
    assert "\\[1\\] A &amp; B (2025); 18 layers." in text


def test_published_numbers_of_unmeasured_tasks_have_a_table(folder: Path) -> None:
    """The scores of a row have a column each, also if they have different k."""
    (folder / "board.toml").write_text('unmeasured = ["arguana", "nevir"]\n')
    (folder / "published.csv").write_text(
        f"{HEAD}Theirs,arguana,ndcg_at_10,50.17,T\nTheirs,arguana,recall_at_1,25.6,T\n"
        "Others,nevir,paired_accuracy,11.1,U (2024)\n"
    )
    text = render(read_board(folder))
    table = text.partition("## Not measured here\n")[2].partition("\n## ")[0]
    head, _, *rows = [line for line in table.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in head.split("|")[1:-1]] == [
        "encoder",
        *("arguana (nDCG@10)", "arguana (recall@1)", "nevir (pairs)"),
    ]
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    assert cells == [
        ["*Theirs, as published \\[1\\]*", "*50.17*", "*25.60*", "-"],
        ["*Others, as published \\[2\\]*", "-", "-", "*11.10*"],
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nevr", r"board\.toml: 'unmeasured': .*nevr.* did you mean 'nevir'"),
        ("sst2", r"board\.toml: 'unmeasured': sst2 has results here; remove the name"),
    ],
)
def test_wrong_unmeasured_tasks_are_refused(folder: Path, name: str, message: str) -> None:
    (folder / "board.toml").write_text(f'unmeasured = ["{name}"]\n')
    with pytest.raises(InputError, match=message):
        read_board(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,task,score,source\n", r"published\.csv: the column 'value' is missing"),
        ("name,task,score,value,source,twni\n", r"unknown column 'twni'; did you mean 'twin'"),
        ("name,task,score,value,source,value\n", "the column 'value' occurs 2 times; keep one"),
        (f"{HEAD}A,sst,{P},70,T\n", r"line 2: no result for the task 'sst'; did you mean"),
        (f"{HEAD}A,sst2,{P},high,T\n", "line 2: 'value' must be a percentage .* got 'high'"),
        (f"{HEAD}A,sst2,{P},nan,T\n", "line 2: 'value' must be a percentage .* got 'nan'"),
        (f"{HEAD}A,sst2,{P},300,T\n", "line 2: 'value' must be a percentage .* got '300'"),
        (f"{HEAD}A,sst2,{P},70\n", "line 2: the citation is missing"),
        (f"{HEAD},sst2,{P},70,T\n", "line 2: the name is missing"),
        (f"{HEAD}A,sst2,,70,T\n", "line 2: the score is missing"),
        (f"{HEAD}A,sst2,polarty_at_16,70,T\n", "no score 'polarty_at_16'; did you mean 'polarity"),
        (f"{HEAD}A,sst2,{P},70,T\nA,sst2,{P},71,T\n", "line 3: this line repeats .*line 2"),
        (f"{HEAD}A,sst2,{P},70,Table 1, page 2\n", "line 2: expected 5 cells, got 6"),
        (
            f"name,task,score,value,source,std\nA,sst2,{P},70,T,-1\n",
            "line 2: 'std' must be a percentage from 0 to 100, got '-1'",
        ),
        (
            f"name,task,score,value,source,twin\nA,sst2,{P},70,T,on\n",
            "line 2: no result for the encoder 'on'; did you mean 'one'",
        ),
    ],
)
def test_wrong_published_points_are_refused(folder: Path, text: str, message: str) -> None:
    (folder / "published.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_board(folder)


def test_a_published_number_of_a_part_is_refused_and_replaces_nothing(tmp_path: Path) -> None:
    """Boards show whole tasks: the P of the negations is not the P of the task."""
    part = ScoreKey("polarity", 16, part="negation")
    result = placed(ONE, "sst2", 0.7, 0.4)
    scores = {**result.scores, part: Score.single(0.4, 8)}
    write_result(replace(result, scores=scores), tmp_path / "results")
    lines = f"{HEAD}A,sst2,{P},60,T\nA,sst2,{part},41,T\n"
    (tmp_path / "published.csv").write_text(lines)
    with pytest.raises(
        InputError, match=r"line 3: for sst2 .* whole tasks .* got polarity_of_negation_at_16"
    ):
        read_board(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_first_column(folder: Path) -> None:
    (folder / "published.csv").write_text(f"\ufeff{HEAD}A,sst2,{P},70,T\n", encoding="utf-8")
    assert "A, as published" in render(read_board(folder))


def test_the_note_names_the_encoder_that_a_published_row_is_compared_with(folder: Path) -> None:
    (folder / "published.csv").write_text(
        f"name,task,score,value,source,twin\nTheir BERT,sst2,{P},60,T,{ONE.name}\n"
    )
    shown = render(read_board(folder))
    assert f"minus the published number. Compared pairs: Their BERT with {ONE.name}." in shown
    assert "same encoder" not in shown
    (folder / "published.csv").write_text(f"{HEAD}Their BERT,sst2,{P},60,T\n")
    assert "In brackets" not in render(read_board(folder))


def test_published_points_need_one_reference(folder: Path) -> None:
    (folder / "published.csv").write_text(f"{HEAD}A,sst2,{P},70,T\nA,sst2,{S},30,T\n")
    for encoder in (ONE, TWO):
        write_result(placed(encoder, "sst2", 0.7, 0.4, reference=OTHER), folder / "results")
    with pytest.raises(
        InputError, match=r"published points of sst2 need .* one reference, .* got 2"
    ):
        read_board(folder)


def test_of_two_weightings_the_boards_own_is_shown_with_its_difference(folder: Path) -> None:
    (folder / "published.csv").write_text(
        f"name,task,score,value,source,twin\nT,sst2,polarity_uniform_at_16,50,A,{ONE.name}\n"
        f"T,sst2,{P},72,A,{ONE.name}\nU,sst2,polarity_uniform_at_16,60,A,{ONE.name}\n"
    )
    for weighting, shown in zip(WEIGHTINGS, ("*72.00* (-2.00)", "*50.00* (+20.00)"), strict=True):
        lines = render(read_board(folder, weighting)).splitlines()
        (row,) = (line for line in lines if "*T, as published" in line)
        assert shown in row
        (row,) = (line for line in lines if "*U, as published" in line)
        assert ("*60.00* uniform (+10.00)" in row) == (weighting == "linear")


def test_a_twin_under_two_references_has_no_one_difference(folder: Path) -> None:
    write_result(placed(ONE, "sst2", 0.7, 0.3, reference=OTHER), folder / "results")
    text = f"name,task,score,value,source,twin\nT,sst2,{{}},50,A,{ONE.name}\n"
    (folder / "published.csv").write_text(text.format(P))
    read_board(folder)
    (folder / "published.csv").write_text(text.format(S))
    with pytest.raises(InputError, match="line 2: the twin was evaluated with 2 references"):
        read_board(folder)
