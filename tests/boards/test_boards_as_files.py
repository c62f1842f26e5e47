"""Boards as files: built, checked, brought together, compared and exported by the command line."""

from __future__ import annotations

import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from standins import BagEncoder, Bench
from standins.board import placed, read_board
from standins.dial import results_at

from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.results.curve_files import write_curves
from polarity_bench.results.result_files import read_arrays, read_results, write_result
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.catalogue import load_task, read_task
from polarity_bench.tasks.types.base import Settings, Task

pytest.importorskip("altair")
MARKUP = "<img src=x onerror=alert(1)>|[x](javascript:1)"
MAPLE = r"maple +\| itself +\| 16 +\|[^|]*\| +(\d\d\.\d\d) "
RENDERED = ["README.md", "index.html", "statistics.json", "table.csv", "table.tex"]


@pytest.fixture(scope="module")
def contrast() -> Task:
    return load_task("contrast")


@pytest.fixture(scope="module")
def made(contrast: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of three encoders of words, one of whose names is markup."""
    folder = tmp_path_factory.mktemp("made")
    for name in ("ash", "maple", MARKUP):
        write_result(evaluate(BagEncoder(name), contrast), folder / "results")
    return folder / "results"


@pytest.fixture
def root(bench: Bench, made: Path) -> Path:
    """A folder of boards with one board, `words`, the working folder being its parent."""
    root = Path("leaderboards")
    shutil.copytree(made, root / "words" / "results")
    (root / "words" / "board.toml").write_text(
        'title = "Words"\nintroduction = "Encoders of **words**."\n'
    )
    (root / "front.toml").write_text('title = "All boards"\nintroduction = "In a minute."\n')
    return root


def test_a_board_is_built_twice_to_the_same_bytes(bench: Bench, root: Path) -> None:
    assert bench("leaderboard", "build").code == 0
    files = [path for path in root.rglob("*") if path.is_file() and "results" not in path.parts]
    first = {path: path.read_bytes() for path in files}
    assert {path.name for path in first} >= {*RENDERED, "board.toml"}
    assert any(path.suffix == ".png" for path in first)
    shutil.rmtree(root / "words" / "figures")
    done = bench("leaderboard", "build", "--json")
    assert {
        str(root / "words" / "figures" / p.name) for p in first if p.parent.name == "figures"
    } == set(json.loads(done.out)["written"])
    assert {path: path.read_bytes() for path in first} == first
    done = bench("leaderboard", "check")
    assert (done.code, done.out) == (0, "1 board: all files are up to date\n")


@pytest.mark.parametrize(
    ("file", "pattern", "said"),
    [
        ("README.md", MAPLE, r"line \d+: S of maple: expected '\d\d\.\d\d \[.*\]', got '12\.34"),
        ("table.csv", r"(0\.\d{9})", "line 2: "),
        ("table.tex", r"& (\d\d\.\d\d) ", "line "),
        ("index.html", r"(<h1)", "line "),
        ("statistics.json", r'"detectable": (\d\.\d+)', "line "),
    ],
)
def test_an_edited_file_is_named_with_its_cell(
    bench: Bench, root: Path, file: str, pattern: str, said: str
) -> None:
    bench("leaderboard", "build")
    path = root / "words" / file
    text = path.read_text()
    found = re.search(pattern, text)
    assert found is not None
    path.write_text(text[: found.start(1)] + "12.34" + text[found.end(1) :])
    done = bench("leaderboard", "check", "words")
    assert done.code == 1
    assert re.match(re.escape(f"{path}: ") + f".*{said}", done.out), done.out
    assert len(done.out.splitlines()) == 1
    assert "leaderboard build" in done.err
    path.unlink()
    assert f"{path}: is missing" in bench("leaderboard", "check", "words").out


def test_a_damaged_statistics_file_is_an_error_of_one_line(bench: Bench, root: Path) -> None:
    bench("leaderboard", "build")
    path = root / "words" / "statistics.json"
    path.write_text(re.sub(r'"n": \d+', '"n": 12.34', path.read_text(), count=1))
    done = bench("leaderboard", "check", "words")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert re.match(rf"error: {path}: .*\.n' must be an integer, got 12\.34", done.err)


def test_figures_of_an_earlier_build_are_removed_and_files_of_the_user_stay(
    bench: Bench, root: Path
) -> None:
    bench("leaderboard", "build")
    figures, readme = root / "words" / "figures", root / "words" / "README.md"
    first = sorted(figures.glob("*.svg"))[-1]
    earlier = [figures / f"old{ending}" for ending in (".svg", "-dark.svg", ".png")]
    mine = [figures / name for name in ("my-photo.png", "mine.svg", "paper-notes.txt")]
    for path in (*earlier, *mine):
        path.write_bytes(first.read_bytes())
    assert bench("leaderboard", "check").code == 0
    shown = '<img alt="old" src="figures/old.svg"></picture>'
    dark = '<picture><source media="(prefers-color-scheme: dark)" srcset="figures/old-dark.svg">'
    readme.write_text(f'{readme.read_text()}<img src="figures/mine.svg">\n{dark}{shown}')
    assert f"{earlier[0]}: belongs to no figure of this board" in bench("leaderboard", "check").out
    done = bench("leaderboard", "build")
    assert all(f"removed {path}" in done.err for path in earlier)
    assert not any(path.exists() for path in earlier)
    assert all(path.exists() for path in mine)
    assert "mine.svg" not in readme.read_text()
    assert bench("leaderboard", "check").code == 0


def test_without_the_report_a_readme_shows_the_figures_of_the_last_build(
    bench: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench("leaderboard", "build")
    readme = root / "words" / "README.md"
    built = readme.read_text()
    (root / "words" / "figures" / "mine.svg").write_text("<svg/>")
    monkeypatch.setattr("polarity_bench.render.figures.figure_files.can_draw", lambda: False)
    bench("leaderboard", "build")
    assert readme.read_text() == built


def test_a_readme_that_is_not_utf_8_is_made_again(bench: Bench, root: Path) -> None:
    bench("leaderboard", "build")
    readme = root / "words" / "README.md"
    built = readme.read_bytes()
    readme.write_bytes(built.replace(b"e", b"\xa0", 1))
    assert bench("leaderboard", "check").code == 1
    assert bench("leaderboard", "build").code == 0
    assert readme.read_bytes() == built


def test_the_front_page_links_every_board(bench: Bench, root: Path) -> None:
    bench("leaderboard", "build")
    page = (root / "README.md").read_text()
    assert page.startswith("# All boards\n\nIn a minute.\n\n")
    assert "- **[words](words/README.md)**: Words ([as a page](words/index.html))" in page
    (root / "README.md").write_text("else")
    assert bench("leaderboard", "check").out == (
        f"{root / 'README.md'}: line 1: expected 5 lines, got 1\n"
    )
    assert bench("leaderboard", "check", "words").code == 0


def test_ranks_are_ranges_and_outlive_the_values_per_query(bench: Bench, root: Path) -> None:
    bench("leaderboard", "build")
    text = (root / "words" / "README.md").read_text()
    assert re.search(r"\| rank +\| encoder", text)
    assert "Minimum detectable difference (80 % power): " in text
    for arrays in root.rglob("*.safetensors"):
        arrays.unlink()  # as in a fresh checkout
    assert bench("leaderboard", "check").code == 0
    result = next(read_results(root / "words" / "results"))
    key = ScoreKey("polarity", 16)
    moved = {**result.scores, key: replace(result.scores[key], mean=0.75)}
    write_result(replace(result, scores=moved), root / "words" / "results")
    done = bench("leaderboard", "build", "words")
    assert "some ranks are unknown" in done.err
    assert "| rank" not in (root / "words" / "README.md").read_text()
    assert result.path.is_file()


def test_markup_is_text_in_every_form(bench: Bench, root: Path) -> None:
    bench("leaderboard", "build")
    folder = root / "words"
    texts = {
        path.name: path.read_text()
        for path in folder.rglob("*")
        if path.suffix in {".md", ".html", ".tex", ".svg"} and "results" not in path.parts
    }
    assert len(texts) > 4
    for name, text in texts.items():
        assert "<img src=x" not in text, name
        if name.endswith(".md"):
            assert "](javascript:1)" not in text.replace(r"\](javascript:1)", ""), name
    lines = list(csv.DictReader((folder / "table.csv").read_text().splitlines()))
    assert MARKUP in {line["encoder"] for line in lines}


def test_text_that_a_spreadsheet_computes_is_no_formula(
    bench: Bench, root: Path, contrast: Task
) -> None:
    write_result(evaluate(BagEncoder("=1+1"), contrast), root / "words" / "results")
    text = bench("leaderboard", "export", "words", "--format", "csv").out
    assert ",'=1+1," in text


def test_latex_is_set_by_a_compiler_that_is_strict_about_its_signs(
    bench: Bench, root: Path
) -> None:
    text = bench("leaderboard", "export", "words", "--format", "latex").out
    assert (
        r"\textless{}img src=x onerror=alert(1)\textgreater{}\textbar{}{[}x{]}(javascript:1)"
        in text
    )
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == text.count(r"\midrule")
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    widths = {len(re.findall(r"(?<!\\)&", row)) for row in rows}
    assert len(widths) <= text.count(r"\toprule")


def test_results_are_brought_into_a_board(bench: Bench, root: Path, contrast: Task) -> None:
    bench("leaderboard", "build")
    new = write_result(evaluate(BagEncoder("birch"), contrast), Path("elsewhere"))
    done = bench("leaderboard", "add", str(new), "--board", "words")
    assert (done.code, done.out) == (0, f"1 result in {root / 'words'}, board built\n")
    assert "birch" in (root / "words" / "README.md").read_text()
    assert bench("leaderboard", "check").code == 0
    again = bench("leaderboard", "add", "elsewhere", "--board", "words")
    assert again.code == 0
    assert len(list(read_results(root / "words" / "results"))) == 4


def test_a_board_takes_its_own_results_by_any_path(bench: Bench, root: Path) -> None:
    own = root / "words" / "results"
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    Path("link").symlink_to(own.absolute(), target_is_directory=True)
    for path in (own, own.absolute(), Path("link"), own / ".." / "results"):
        done = bench("leaderboard", "add", str(path), "--board", "words")
        assert done.code == 0, done.err
        assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("output", ["-o /home/a/b", "-o/home/a/b", "--output=/home/a/b"])
def test_commands_on_boards_have_no_output_folder(root: Path, output: str) -> None:
    (result, *_) = read_results(root / "words" / "results")
    command = f"polarity-bench run {output} --tasks contrast"
    made = replace(result, environment={**result.environment, "command": command})
    write_result(replace(made, arrays=read_arrays(result.path)), Path("alone"))
    (detail,) = read_board(Path("alone")).details.values()
    assert detail.command == "polarity-bench run --tasks contrast"


def test_results_without_the_weighting_of_the_board_are_named(bench: Bench, root: Path) -> None:
    found = list(read_results(root / "words" / "results"))
    result = next(each for each in found if each.key.encoder.name == "ash")
    linear = {key: score for key, score in result.scores.items() if key.weighting == "linear"}
    write_result(
        replace(result, scores=linear, arrays=read_arrays(result.path)), root / "words" / "results"
    )
    with pytest.raises(InputError, match=r"ash/.*: no scores with the weighting 'uniform'; eval"):
        read_board(root / "words", "uniform")
    assert read_board(root / "words", "linear").tables


def test_what_does_not_go_with_the_rest_is_not_added(bench: Bench, root: Path) -> None:
    """Made from another version of the task: nothing is written."""
    other = placed(EncoderId("birch", "9"), "contrast", 0.6, 0.5)
    write_result(other, Path("elsewhere"))
    before = sorted(root.rglob("*"))
    done = bench("leaderboard", "add", "elsewhere", "--board", "words")
    assert done.code == 2
    assert "were computed with different versions of the task" in done.err
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("build word", "word: no folder of this name contains a board.toml; did you mean 'words'?"),
        ("build --root none", "none: no folder below it contains a board.toml"),
        ("build --root none", "; create a board.toml in the board's folder; the file may be empty"),
        ("check --root leaderboards/words", "folder of one board; set --root to leaderboards, or"),
        ("diff a b --root leaderboards/words", "or give leaderboards/words as the board"),
        (
            "check words/results",
            "not a board: the folder has no board.toml; create a board.toml in",
        ),
        ("add nothing --board words", "nothing: no such file or folder"),
        ("add leaderboards/words/figures --board words", "contains no complete results"),
        ("diff none words", "none: no folder of this name contains a board.toml"),
        ("export words --format mteb", "--output: the format mteb needs an output folder"),
        ("export words --format csv --json", "--json: a board in the format csv is no JSON; set"),
        ("export words --output no/where.csv", "the folder no does not exist"),
    ],
)
def test_bad_input_is_refused(bench: Bench, root: Path, arguments: str, message: str) -> None:
    (root / "words" / "figures").mkdir()
    done = bench("leaderboard", *arguments.split())
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('sorted = "P"', "unknown key 'sorted'; did you mean 'sort'"),
        ('sort = "Q"', "'sort': unknown value 'Q'; known: P, S"),
        (
            'columns = ["P", "retentoin"]',
            "'columns.1': unknown value 'retentoin'; did you mean 'ret",
        ),
        ('encoders = ["ahs"]', "`encoders` ahs: no results with this name; did you mean 'ash'"),
        ('tasks = "contrast"', "'tasks' must be a list, got 'contrast'"),
        ('group_by = "ks"', "'group_by': unknown value 'ks'; did you mean 'k'"),
    ],
)
def test_a_wrong_board_file_is_refused(bench: Bench, root: Path, said: str, message: str) -> None:
    file = root / "words" / "board.toml"
    file.write_text(said)
    done = bench("leaderboard", "build", "words")
    assert done.code == 2
    assert message in done.err
    assert str(file) in done.err


def test_an_empty_board_says_how_to_fill_it(bench: Bench, root: Path) -> None:
    shutil.rmtree(root / "words" / "results")
    done = bench("leaderboard", "build", "words")
    assert done.code == 2
    assert "the board has no results; add results with `leaderboard add`" in done.err


def test_a_board_shows_the_columns_encoders_and_order_that_its_file_names(
    bench: Bench, root: Path
) -> None:
    file = root / "words" / "board.toml"
    file.write_text('columns = ["S", "P"]\nencoders = ["ash", "maple"]\nsort = "S"\n')
    board = json.loads(bench("leaderboard", "export", "words", "--json").out)
    table = next(table for table in board["tables"] if "contrast" in table["heading"])
    rows = [row for row in table["rows"] if row["role"] == "encoder"]
    assert {row["encoder"] for row in rows} == {"ash", "maple"}
    assert list(rows[0]["values"]) == ["S", "P"]
    values = [row["values"]["S"] for row in rows]
    assert values == sorted(values, reverse=True)


def test_boards_are_compared_cell_by_cell(bench: Bench, root: Path) -> None:
    for folder, p in (("one", 0.7), ("two", 0.8)):
        write_result(placed(EncoderId("ash", "1"), "sst2", p, 0.5), Path(folder))
    assert bench("leaderboard", "diff", "one", "one").out == "no cell differs\n"
    found = json.loads(bench("leaderboard", "diff", "one", "two", "--json").out)["changes"]
    (of_p,) = (each for each in found if each["column"] == "P")
    assert (of_p["before"], of_p["after"], of_p["change"]) == (0.7, 0.8, "changed")
    assert not [each for each in found if each["column"] == "S"]
    shown = bench("leaderboard", "diff", "one", "two", "--wide").out
    row = r"ash, itself, 16 +\| P +\| +70\.00 \| +80\.00 \| +\+10\.00"
    assert re.search(row, shown)


def test_differences_are_those_of_the_stored_scores(bench: Bench, root: Path) -> None:
    """Boards show 0 for a joint below chance."""
    result = placed(EncoderId("ash", "1"), "sst2", 0.4, 0.5, reference=EncoderId("elm", "2"))
    for folder, joint in (("one", -0.01), ("two", -0.05)):
        scores = {**result.scores, result.main_score: Score.single(joint, 8)}
        write_result(replace(result, scores=scores), Path(folder))
    shown = bench("leaderboard", "diff", "one", "two", "--wide").out
    assert re.search(r"\| joint +\| +0\.00 \| +0\.00 \| +-4\.00 ", shown), shown


def test_boards_of_other_data_or_tasks_are_named(bench: Bench, root: Path) -> None:
    one, two = (placed(EncoderId("ash", "1"), task, 0.7, 0.5) for task in ("sst2", "emotion"))
    for result in (one, two):
        write_result(result, Path("one"))
    write_result(replace(one, key=replace(one.key, data="other")), Path("two"))
    done = bench("leaderboard", "diff", "one", "two")
    assert done.err.splitlines() == [
        "warning: only one folder has results of emotion, so do not compare means over tasks",
        "warning: sst2: the data's digest differs, so do not compare its scores",
    ]
    quick = replace(one, key=replace(one.key, data="fewer queries"), limit=3)
    shutil.copytree("one", "three")
    write_result(replace(quick, experiment="limit_3"), Path("three"))
    assert bench("leaderboard", "diff", "one", "three").err == "", "boards leave it out, too"


def test_a_column_that_other_results_add_changes_no_row(bench: Bench, root: Path) -> None:
    plain, prompted = EncoderId("ash", "1"), EncoderId("maple", "2", prompt="query: ")
    for task in ("sst2", "emotion"):
        write_result(placed(plain, task, 0.7, 0.5), Path("one"))
    shutil.copytree("one", "two")
    for task in ("sst2", "emotion"):
        write_result(placed(prompted, task, 0.8, 0.4), Path("two"))
    found = json.loads(bench("leaderboard", "diff", "one", "two", "--json").out)["changes"]
    added = {each["row"][0] for each in found if each["change"] == "added"}
    assert added == {"maple (prompt 'query: ')"}
    # S of retrieval by labels depends on the reference, and now the board has two.
    bounds = {"gold labels (oracle)", "random retrieval"}
    assert {each["row"][0] for each in found if each["change"] != "added"} == bounds
    write_result(placed(prompted, "sst2", 0.8, 0.4), Path("three"))
    write_result(placed(prompted, "sst2", 0.6, 0.4), Path("four"))
    write_result(placed(plain, "sst2", 0.7, 0.5), Path("four"))
    found = json.loads(bench("leaderboard", "diff", "three", "four", "--json").out)["changes"]
    (of_p,) = (c for c in found if c["column"] == "P" and c["change"] == "changed")
    assert (of_p["row"][0], of_p["before"], of_p["after"]) == ("maple (prompt 'query: ')", 0.8, 0.6)


def test_means_over_other_tasks_are_named(bench: Bench, root: Path) -> None:
    for task in ("sst2", "emotion"):
        write_result(placed(EncoderId("ash", "1"), task, 0.7, 0.5), Path("one"))
    shutil.copytree("one", "two")
    write_result(placed(EncoderId("maple", "2"), "sst2", 0.6, 0.5), Path("two"))
    (said,) = bench("leaderboard", "diff", "one", "two").err.splitlines()
    assert said == "warning: the means are over other tasks, so do not compare means over tasks"


def test_boards_are_compared_by_the_weights_of_the_first(bench: Bench, root: Path) -> None:
    shutil.copytree(root / "words", root / "same")
    (root / "same" / "board.toml").write_text('title = "Words"\nweighting = "uniform"\n')
    done = bench("leaderboard", "diff", str(root / "words"), str(root / "same"))
    assert done.out == "no cell differs\n"
    assert bench("leaderboard", "diff", "words", root / "same").out == "no cell differs\n"
    elsewhere = shutil.copytree(root, "elsewhere")
    named = bench("leaderboard", "diff", "words", "same", "--root", elsewhere)
    assert named.out == "no cell differs\n", "diff takes the names that build and check take"
    assert "same: shown with linear weights, like " in done.err


def test_a_board_is_exported_for_mteb(bench: Bench, root: Path) -> None:
    done = bench(
        "leaderboard", "export", "words", "--format", "mteb", "--output", "cache", "--json"
    )
    written = json.loads(done.out)["written"]
    assert len(written) == 3
    assert all(Path(path).is_file() for path in written)


def test_what_was_cut_for_a_quick_look_is_left_out(
    bench: Bench, root: Path, contrast: Task
) -> None:
    whole = evaluate(BagEncoder("birch"), contrast)
    write_result(whole, Path("elsewhere"))
    cut = replace(whole, limit=5, experiment="limit_5")
    write_result(cut, Path("elsewhere"))
    write_result(cut, Path("quick"))
    done = bench("leaderboard", "add", "elsewhere", "--board", "words")
    assert done.out.startswith("1 result")
    assert "elsewhere: skipped 1 result cut by a `limit`" in done.err
    done = bench("leaderboard", "add", "quick", "--board", "words")
    assert (done.code, "all were cut by a `limit`" in done.err) == (2, True)


def test_two_results_for_one_cell_are_refused_before_anything_is_written(
    bench: Bench, root: Path, contrast: Task
) -> None:
    result = evaluate(BagEncoder("birch"), contrast)
    key = ScoreKey("polarity", 16)
    moved = {**result.scores, key: replace(result.scores[key], mean=0.75)}
    write_result(result, Path("one"))
    write_result(replace(result, scores=moved), Path("two"))
    before = sorted(root.rglob("*"))
    done = bench("leaderboard", "add", "one", "two", "--board", "words")
    assert done.code == 2
    assert "same table cell, but their settings or scores differ" in done.err
    assert sorted(root.rglob("*")) == before


def test_a_result_that_is_replaced_takes_its_values_per_query_with_it(
    bench: Bench, root: Path
) -> None:
    result = next(read_results(root / "words" / "results"))
    key = ScoreKey("polarity", 16)
    moved = {**result.scores, key: replace(result.scores[key], mean=0.75)}
    write_result(replace(result, scores=moved), Path("new"))  # without values per query
    assert bench("leaderboard", "add", "new", "--board", "words").code == 0
    assert not result.path.with_suffix(".queries.safetensors").is_file()
    assert bench("leaderboard", "check").code in {0, 1}


def test_curves_are_added_with_their_results(bench: Bench, task_dir: Path) -> None:
    """A board without the curve would show no row of the dial and no front of all strengths."""
    task = read_task(task_dir / "mini.toml").load(DataAccess(offline=True), Settings())
    write_curves(
        "dial",
        "strength",
        {at: [r] for at, r in results_at(task, (0.0, 1.0), Path("r")).items()},
        Path("r"),
    )
    shown = bench("leaderboard", "r").out
    row = next(line for line in shown.splitlines() if "chosen here" in line)
    board = Path("leaderboards/dials")
    board.mkdir(parents=True)
    (board / "board.toml").write_text('title = "Dials"\n')
    assert "2 results and 1 curve in" in bench("leaderboard", "add", "r", "--board", "dials").out
    assert row in (board / "README.md").read_text()
    assert json.loads(bench("leaderboard", "check", "--json").out) == {"differences": {}}


def test_names_with_control_characters_are_shown_as_escapes_everywhere(
    bench: Bench, root: Path
) -> None:
    """U+202E turns the text that follows around: one name could pass for another."""
    name = "ash\u202efdit\x1b[2K"
    write_result(placed(EncoderId(name, "9"), "sst2", 0.9, 0.5), root / "words" / "results")
    (root / "words" / "published.csv").write_text(
        "name,task,score,value,source\npaper\u202e,sst2,polarity_at_16,60,Table\u2066 1\n"
    )
    assert bench("leaderboard", "build").code == 0
    shown = bench("leaderboard", str(root / "words")).out
    missing = bench(
        "compare", "maple", name[:-1], "--task", "sst2", "--results", str(root / "words")
    )
    assert missing.code == 2
    files = [p for p in (root / "words").iterdir() if p.suffix in {".md", ".html", ".csv", ".tex"}]
    scripts = re.compile(r"<script.*?</script>", re.DOTALL)  # libraries hold any character
    texts = [scripts.sub("", p.read_text()) for p in files if p.name != "published.csv"]
    for text in (*texts, shown, missing.err):
        assert not {"\u202e", "\u2066", "\x1b"} & set(text)
    assert len(texts) == 4
    assert "u202efdit" in shown


def test_a_folder_that_cannot_be_made_is_an_error_of_one_line(
    bench: Bench, root: Path, made: Path
) -> None:
    (encoder,) = (path.name for path in made.iterdir() if path.name == "ash")
    shutil.rmtree(root / "words" / "results" / encoder)
    (root / "words" / "results" / encoder).write_text("in the way")
    done = bench("leaderboard", "add", made / encoder, "--board", "words")
    assert done.code == 2
    assert "cannot be removed: Not a directory" in done.err
    assert "Traceback" not in done.err


def test_results_are_not_added_to_boards_of_another_kind(bench: Bench, made: Path) -> None:
    folds = Path(__file__).parents[2] / "leaderboards" / "triple-entropy"
    board = Path(shutil.copytree(folds, Path("leaderboards", "folds")))
    before = sorted(board.rglob("*"))
    done = bench("leaderboard", "add", made, "--board", "folds")
    assert done.code == 2
    assert "the board contains cross-validations" in done.err
    assert sorted(board.rglob("*")) == before


def test_an_undefined_score_takes_no_ranks_from_others(bench: Bench, root: Path) -> None:
    found = list(read_results(root / "words" / "results"))
    result = next(each for each in found if each.key.encoder.name == "ash")
    undefined = {
        key: replace(score, mean=float("nan")) if key.metric == "polarity" else score
        for key, score in result.scores.items()
    }
    kept = replace(result, scores=undefined, arrays=read_arrays(result.path))
    write_result(kept, root / "words" / "results")
    bench("leaderboard", "build", "words")
    text = (root / "words" / "README.md").read_text()
    assert re.search(r"\| [12]\S* +\| maple", text)
    assert re.search(r"\| - +\| ash", text)


def test_ranks_that_are_known_outlive_a_build_of_fewer_tasks(bench: Bench, root: Path) -> None:
    bench("leaderboard", "build")
    kept = (root / "words" / "statistics.json").read_bytes()
    for arrays in root.rglob("*.safetensors"):
        arrays.unlink()
    file = root / "words" / "board.toml"
    said = file.read_text()
    file.write_text(f'{said}encoders = ["ash"]\n')
    bench("leaderboard", "build", "words")
    file.write_text(said)
    bench("leaderboard", "build", "words")
    assert (root / "words" / "statistics.json").read_bytes() == kept


@pytest.mark.parametrize("damage", [('"ranks":', '"rank":'), ("[[", "[[1, 1], [")])
def test_damaged_statistics_are_named(bench: Bench, root: Path, damage: tuple[str, str]) -> None:
    bench("leaderboard", "build")
    for arrays in root.rglob("*.safetensors"):
        arrays.unlink()
    file = root / "words" / "statistics.json"
    text = json.dumps(json.loads(file.read_text()))
    file.write_text(text.replace(*damage, 1))
    done = bench("leaderboard", "build", "words")
    assert done.code == 2
    assert "statistics.json" in done.err


def test_a_board_of_cross_validations_is_shown_without_selections(bench: Bench) -> None:
    folder = Path(__file__).parents[2] / "leaderboards" / "fewshot"
    shown = bench("leaderboard", folder, "--title", "Mine")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("# Mine\n")
    refused = bench("leaderboard", folder, "--tasks", "trec")
    assert refused.code == 2
    assert "--tasks trec: only boards of results have this selection" in refused.err
