"""Every number of a committed table comes from a stored result or has a citation.

What a table shows is held against its line of `table.csv`, rounded, and each line against the raw
files, by other code than made it.
"""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file
from traced.figures import undrawn
from traced.folds import Folds
from traced.lines import Line, Source, read_lines, untraced
from traced.ranks import unknown_smallest, unknown_unpaired, unranked, unsorted
from traced.raw import read_cited, read_raw
from traced.results import SINGLE, Results
from traced.shown import READERS, of_markdown, unshown
from traced.sweep import Sweep

from polarity_bench.boards import build
from polarity_bench.boards.board_folder import kind_of, open_board
from polarity_bench.render.csv_text import board_csv
from polarity_bench.render.figures.figure_files import can_draw
from polarity_bench.results.packed_results import result_paths, stored_bytes

LEADERBOARDS = Path(__file__).parent.parent / "leaderboards"
BOARDS = sorted(file.parent for file in LEADERBOARDS.glob("*/board.toml"))
OF_RESULTS = [folder for folder in BOARDS if kind_of(folder) == "results"]
OF_SWEEPS = [folder for folder in BOARDS if kind_of(folder) == "sweep"]
OF_FOLDS = [folder for folder in BOARDS if kind_of(folder) == "cross-validation"]
of_boards = pytest.mark.parametrize("folder", BOARDS, ids=lambda folder: folder.name)
of_results = pytest.mark.parametrize("folder", OF_RESULTS, ids=lambda folder: folder.name)


WINNERS = re.compile(r"[:,] ([^:,]+?) (\d+) of (\d+)")
ENDS = re.compile(r"([+-]\S+) points \[([+-]\S+), ([+-]\S+)\] \((.+?)\)")


@cache
def lines_of(folder: Path) -> list[Line]:
    """The lines of a board's committed table.csv; until boards are built, as it would be."""
    file = folder / "table.csv"
    text = file.read_text(encoding="utf-8") if file.is_file() else None
    return read_lines(text or board_csv(open_board(folder).board))


@cache
def results_of(folder: Path) -> Results:
    return Results(folder)


def source_of(folder: Path, lines: list[Line]) -> Source:
    match kind_of(folder):
        case "results":
            return results_of(folder)
        case "sweep":
            return Sweep(folder)
        case "cross-validation":
            return Folds(folder)


def introduction_of(folder: Path, key: str = "introduction") -> str:
    said = tomllib.loads((folder / "board.toml").read_text(encoding="utf-8"))
    return str(said.get(key, "")).strip()


def rendered(folder: Path, file: str) -> str:
    """A rendered file of a board, without what its author wrote."""
    if not any((each / "table.csv").is_file() for each in BOARDS):
        pytest.skip("no board is built and committed yet")
    if file == "index.html" and not (folder / file).is_file():
        pytest.skip("pages are not committed")
    text, own = (folder / file).read_text(encoding="utf-8"), introduction_of(folder)
    if file == "README.md":
        assert own in text
        text = text.replace(own, "")
    return text


def shown_in(file: str, lines: list[Line]) -> list[Line]:
    """The lines that a file shows: only pages and table.csv have the tables of single runs."""
    return [line for line in lines if file == "index.html" or not line.table.endswith(SINGLE)]


def test_there_are_boards() -> None:
    assert {kind_of(folder) for folder in BOARDS} == {"results", "sweep", "cross-validation"}


@of_boards
def test_every_number_comes_from_a_result_or_a_citation(folder: Path) -> None:
    lines = lines_of(folder)
    assert lines
    wrong = untraced(folder.name, lines, source_of(folder, lines))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("file", READERS)
@of_boards
def test_what_is_rendered_shows_these_numbers_and_no_others(folder: Path, file: str) -> None:
    lines = shown_in(file, lines_of(folder))
    wrong = unshown(f"{folder.name}/{file}", READERS[file](rendered(folder, file)), lines)
    assert not wrong, "\n".join(wrong)


@of_results
def test_the_figures_of_a_page_show_numbers_of_its_files(folder: Path) -> None:
    wrong = undrawn(f"{folder.name}/index.html", rendered(folder, "index.html"), results_of(folder))
    assert not wrong, "\n".join(wrong)


@of_boards
def test_introductions_hold_no_tables(folder: Path) -> None:
    for key in ("introduction", "details"):
        assert not of_markdown(introduction_of(folder, key)), "their numbers come from no file"


@of_results
def test_rows_are_in_the_order_of_the_scores_of_their_own_table(folder: Path) -> None:
    wrong = unsorted(folder.name, lines_of(folder), results_of(folder))
    assert not wrong, "\n".join(wrong)


@of_results
def test_ranks_are_those_of_the_statistics(folder: Path) -> None:
    wrong = unranked(folder, lines_of(folder), results_of(folder))
    text = (folder / "README.md").read_text(encoding="utf-8")
    wrong += unknown_smallest(folder, text)
    wrong += unknown_unpaired(folder, text, read_raw(folder / "results"))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", OF_SWEEPS, ids=lambda folder: folder.name)
def test_what_sweeps_can_show_is_what_their_intervals_let_them(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "Minimum detectable difference of unpaired scores" in text
    assert not Sweep(folder).unknown_unpaired(text)
    moved = re.sub(r"sst2 \d\.\d points", "sst2 9.9 points", text)
    assert len(Sweep(folder).unknown_unpaired(moved)) == len(re.findall("sst2 9.9 points", moved))


@pytest.mark.parametrize("folder", OF_FOLDS, ids=lambda folder: folder.name)
def test_what_folds_can_show_is_what_their_differences_let_them(folder: Path) -> None:
    lines = lines_of(folder)
    text = (folder / "README.md").read_text(encoding="utf-8")
    said = re.findall(r"Minimum detectable difference .+?: (.+?) points", text)
    assert said
    assert said == Folds(folder).smallest(lines)


@pytest.mark.parametrize("folder", OF_FOLDS, ids=lambda folder: folder.name)
def test_a_board_of_folds_opens_with_its_finding(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    finding = text.split("\n\n")[1]
    winners, ends = Folds(folder).finding()
    assert [(name, int(k), int(n)) for name, k, n in WINNERS.findall(finding)] == winners
    assert [(*map(float, numbers), on) for *numbers, on in ENDS.findall(finding)] == ends


@pytest.mark.parametrize("folder", OF_FOLDS, ids=lambda folder: folder.name)
def test_ranks_of_folds_are_those_of_all_pairs(folder: Path) -> None:
    lines = lines_of(folder)
    assert any(line.heads.get("rank") for line in lines)
    wrong = Folds(folder).unranked(lines)
    assert not wrong, "\n".join(wrong)


@of_results
def test_the_files_that_a_row_names_are_those_of_its_numbers(folder: Path) -> None:
    board, raw = open_board(folder).board, results_of(folder).raw
    digests, tasks = {r.file: r.digest for r in raw}, {r.file: r.task for r in raw}
    for table in board.tables:
        for i in range(table.n_rows):
            if table.role(i) != "encoder" or not table.details:
                continue
            detail = board.details[table.details[i]]
            files = [folder / name for name in detail.files]
            assert {digests[file] for file in files} == {detail.facts["digest"]}, detail
            if table.heading in tasks.values():
                assert table.heading in {tasks[file] for file in files}, detail


@of_results
def test_published_numbers_of_other_weights_than_their_column_say_so(folder: Path) -> None:
    said = tomllib.loads((folder / "board.toml").read_text(encoding="utf-8"))
    for cited in read_cited(folder / "published.csv"):
        weights = "uniform" if "_uniform_at_" in cited["score"] else "linear"
        if "_at_" in cited["score"] and weights != said.get("weighting", "linear"):
            assert weights in cited.get("note", ""), f"{folder.name}: {cited} has other weights"


@of_results
def test_what_is_cited_from_another_board_stands_there(folder: Path) -> None:
    for cited in read_cited(folder / "published.csv"):
        if board := re.match(r"leaderboards/([\w-]+)", cited["source"]):
            there = [
                f"{100 * raw.score(cited['score']):.2f}"
                for raw in read_raw(LEADERBOARDS / board[1])
                if raw.task == cited["task"]
                and raw.made["encoder"]["name"].endswith(cited["name"].removeprefix("ours: "))
            ]
            assert cited["value"] in there, f"{folder.name}: {cited}: {there}"


# That all of this can fail


def raise_score(name: str) -> Callable[[str], str]:
    def edited(text: str) -> str:
        stored = json.loads(text)
        stored["scores"]["test"][0][name] += 0.001
        return json.dumps(stored)

    return edited


def restore(results: Path, pattern: str) -> None:
    """Write packed results to files, which take precedence, if their path matches a pattern."""
    for path in result_paths(results):
        if path.match(pattern) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(stored_bytes(path))


@pytest.mark.parametrize(
    ("board", "file", "edit", "told"),
    [
        (
            "training-sst2",
            "results/cce-1/*/experiments/*/SST2PolarityRetrieval.json",
            raise_score("polarity_at_16"),
            {"Summary: sst2: single runs | cce-1, sentence-transformers/all-MiniLM-L6-v2, 16 | P"},
        ),
        (
            "scl",
            "results/scl-1/*/SemEvalSTS13.json",
            raise_score("spearman_wmean"),
            {
                "STS (Spearman wmean, sts-cosine, 5 tasks) | scl-1 | sts13",
                "Summary: sst2 | scl-1",
            },
        ),
        (
            "margins",
            "results/sst2-seed0-triplet-margin0.1-*/*/experiments/*/SST2PolarityRetrieval.json",
            raise_score("polarity_uniform_at_16"),
            {"Losses | triplet, 0.1 | minilm, sst2: value is", "minilm, sst2: std is"},
        ),
        (
            "margins",
            "published.csv",
            lambda text: text.replace("sst2,polarity,80.6,", "sst2,polarity,80.7,"),
            {"Triplet 0.1, as published [3] | minilm, sst2: value is", "minilm, sst2: mark is"},
        ),
        (
            "margins-static",
            "published.csv",
            lambda text: text.replace("polarity,86.2,6.4,68.0,", "polarity,86.2,6.4,68.1,"),
            {"50,000, as published [1] | P min: value is"},
        ),
        (
            "axis-sarcastic-headlines",
            "results/curves/sarcastic-headlines.axis-tuned-sarcasm-1.*.json",
            lambda text: text.replace('"mean": 0.8', '"mean": 0.7'),
            {"sarcastic-headlines: single runs | axis-tuned-sarcasm-1 (best strength 0.25)"},
        ),
    ],
)
def test_a_raw_file_that_says_otherwise_is_told(
    tmp_path: Path, board: str, file: str, edit: Callable[[str], str], told: set[str]
) -> None:
    lines = lines_of(LEADERBOARDS / board)
    copy = shutil.copytree(LEADERBOARDS / board, tmp_path / board)
    restore(copy / "results", file)
    (edited,) = copy.glob(file)
    text = edited.read_text(encoding="utf-8")
    edited.write_text(edit(text), encoding="utf-8")
    assert edited.read_text(encoding="utf-8") != text
    wrong = untraced(board, lines, source_of(copy, lines))
    assert wrong
    for words in told:
        assert any(words in each for each in wrong), wrong
    assert all(each.startswith(f"{board}: ") for each in wrong)


@pytest.mark.parametrize(
    ("file", "values", "told"),
    [
        (
            "softtriple-*/cr.queries.safetensors",
            "accuracy",
            {"cr | CCE + SoftTriple (epochs 8, rate 0.0001)", "| minus CCE: low", "| p", "| mean"},
        ),
        (
            "cce-*/mr.queries.safetensors",
            "seconds",
            {"mr | CCE (epochs 8, rate 0.0001)", "| s per fold"},
        ),
    ],
)
def test_a_fold_that_says_otherwise_is_told(
    tmp_path: Path, file: str, values: str, told: set[str]
) -> None:
    board = LEADERBOARDS / "triple-entropy"
    copy = shutil.copytree(board, tmp_path / board.name)
    (edited,) = copy.glob(f"results/*/*/experiments/{file}")
    arrays = load_file(edited)
    arrays[values][0] += 0.001 if values == "accuracy" else 10
    save_file(arrays, edited)
    lines = lines_of(board)
    wrong = untraced(board.name, lines, source_of(copy, lines))
    for words in told:
        assert any(words in each for each in wrong), wrong


@cache
def rendered_now(folder: Path, with_report: bool) -> dict[str, bytes]:
    return build.rendered(open_board(folder), with_report=with_report)


@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("README.md", r"\| scl-1 .*?(\d)\.\d"),
        ("table.tex", r"\nscl-1 .*?(\d)\.\d"),
        ("index.html", r'"numbers-table".*?<td data-order="[^"]*">\d(\d)'),
        ("index.html", r'"numbers-table".*?<td data-order="\d\.\d(\d)'),
        ("index.html", r'"plain-table".*?<td>\d(\d)\.\d'),
    ],
)
def test_a_number_changed_where_it_is_shown_is_told(file: str, place: str) -> None:
    if file == "index.html" and not can_draw():
        pytest.skip("the extra report is not installed")
    folder = LEADERBOARDS / "scl"
    made, source = rendered_now(folder, file == "index.html"), results_of(folder)
    lines = read_lines(made["table.csv"].decode())
    text = made[file].decode().replace(introduction_of(folder), "")

    def wrong(text: str) -> list[str]:
        shown = unshown(file, READERS[file](text), shown_in(file, lines))
        return shown + (undrawn(file, text, source) if file == "index.html" else [])

    assert not wrong(text)
    found = re.search(place, text, re.DOTALL)
    assert found
    other = str((int(found[1]) + 1) % 10)
    (said,) = wrong(f"{text[: found.start(1)]}{other}{text[found.end(1) :]}")
    assert said.startswith(file)


def test_ranks_that_no_statistics_hold_are_told(tmp_path: Path) -> None:
    folder = shutil.copytree(LEADERBOARDS / "scl", tmp_path / "scl")
    lines = read_lines(board_csv(open_board(folder).board))
    names = list(dict.fromkeys(x.heads["encoder"] for x in lines if of_sst2(x)))
    ranks = dict(zip(names, ["1", "2\N{EN DASH}3", "2\N{EN DASH}3", "4"], strict=False))
    ranked = [
        replace(x, heads=dict(x.heads) | {"rank": ranks.get(x.heads["encoder"], "")})
        for x in lines
        if of_sst2(x)
    ]
    (said,) = unranked(folder, ranked, Results(folder))
    (digest,) = re.findall(r"\b[0-9a-f]{16}\b", said)
    standing = {"ranks": [[1, 1], [2, 3], [2, 3], [4, 4]], "detectable": 0.0123, "n": 872}
    text = json.dumps({"format": 1, "standings": {digest: standing}})
    (folder / "statistics.json").write_text(text)
    assert not unranked(folder, ranked, Results(folder))
    (folder / "statistics.json").write_text(text.replace("[4, 4]", "[3, 4]"))
    assert len(unranked(folder, ranked, Results(folder))) == 1
    note = "Minimum detectable difference (80 % power): {} points (n = 872)."
    assert not unknown_smallest(folder, note.format("1.2"))
    assert unknown_smallest(folder, note.format("1.3"))


def of_sst2(line: Line) -> bool:
    return line.table == "Summary: sst2" and line.role == "encoder"


def test_a_sweep_of_several_numbers_of_examples_is_traced(tmp_path: Path) -> None:
    folder = shutil.copytree(LEADERBOARDS / "margins", tmp_path / "margins")
    plan = json.loads((folder / "sweep.json").read_text())
    for item in plan["items"]:
        if item["settings"].get("seed") == 0:
            item["settings"]["examples"] = item["resolved"]["examples"] = 500
    (folder / "sweep.json").write_text(json.dumps(plan))
    (folder / "published.csv").write_text("name,model,task,score,value,source\n")
    (folder / "board.toml").write_text('weighting = "uniform"\n')
    lines = read_lines(board_csv(open_board(folder).board))
    assert {"P min", "S max", "n"} <= {line.column for line in lines}
    wrong = untraced(folder.name, lines, Sweep(folder))
    assert not wrong, "\n".join(wrong)
