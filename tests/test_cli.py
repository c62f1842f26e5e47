"""The command line as a user meets it: exit codes, what goes where, what is reused."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer.main
from standins import QUERIES, SOURCES, Done, HashEncoder, call, write_task

from polarity_bench.cli import app
from polarity_bench.cli.output import (
    announced_bar,
    fields_to_flags,
    name_options,
    print_tables,
    progress_bar,
)
from polarity_bench.encoders.base import Encoder
from polarity_bench.evaluation import many_encoders
from polarity_bench.render.markdown import escape

Bench = Callable[..., Done]
QUERIES_TOO = [("A fair and lively talk.", "1"), ("A tense and cruel talk.", "0")]


@pytest.fixture
def bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Bench:
    """Run a command line in this process, in an empty folder."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def bench(*arguments: str | Path) -> Done:
        return call(monkeypatch, capsys, *arguments)

    return bench


def subprocess_bench(*arguments: str, cwd: Path) -> Done:
    command = [sys.executable, "-c", "from polarity_bench.cli.app import main; main()", *arguments]
    done = subprocess.run(command, cwd=cwd, env=os.environ, capture_output=True, text=True)
    return Done(done.returncode, done.stdout, done.stderr)


# Help


def commands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []

    def walk(command: object, path: tuple[str, ...]) -> None:
        found.append(path)
        for name, sub in getattr(command, "commands", {}).items():
            walk(sub, (*path, name))

    walk(typer.main.get_command(app.app), ())
    return found


def node_of(command: tuple[str, ...]) -> Any:
    node: Any = typer.main.get_command(app.app)
    for name in command:
        node = node.commands[name]
    return node


def flags_of(command: str) -> dict[str, str]:
    return {each.name: each.opts[0] for each in node_of((command,)).params}


def test_these_are_the_commands() -> None:
    assert sorted(" ".join(path) for path in commands()) == [
        "",
        "blend",
        "cache",
        "cache prune",
        "card",
        "compare",
        "data",
        "data fetch",
        "data status",
        "examples",
        "explain",
        "explain-score",
        "fewshot",
        "leaderboard",
        "leaderboard add",
        "leaderboard build",
        "leaderboard check",
        "leaderboard diff",
        "leaderboard export",
        "leaderboard show",
        "neighbours",
        "predict",
        "run",
        "sweep",
        "sweep make",
        "sweep status",
        "tasks",
        "tasks new",
        "tasks schema",
        "tasks show",
        "test",
        "texts",
        "train",
        "verify",
    ]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_and_option_has_help(command: tuple[str, ...], bench: Bench) -> None:
    done = bench(*command, "--help")
    assert done.code == 0
    assert "Usage: " in done.out
    node = node_of(command)
    assert node.help
    for parameter in node.params:
        assert parameter.name == "help" or getattr(parameter, "help", None), parameter.name


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("--help", {"datasets", "sklearn", "scipy", "pandas"}),
        ("run --model random --tasks contrast --output results", {"scipy.stats"}),
    ],
)
def test_commands_start_without_heavy_packages(
    command: str, more: set[str], tmp_path: Path
) -> None:
    heavy = {"torch", "mteb", "sentence_transformers", "transformers", *more}
    code = (
        f"import sys\nsys.argv = {['polarity-bench', *command.split()]}\n"
        "from polarity_bench.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end\n"
        f"loaded = {heavy} & set(sys.modules)\nassert not loaded, loaded\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_version_and_no_arguments(bench: Bench) -> None:
    from polarity_bench import __version__

    assert bench("--version") == Done(0, f"{__version__}\n", "")
    by_name = [sys.executable, "-m", "polarity_bench", "--version"]
    assert subprocess.run(by_name, capture_output=True, text=True).stdout == f"{__version__}\n"


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--tasks contras", "unknown task 'contras'; did you mean 'contrast'"),
        ("--suite polarty", "unknown suite 'polarty'; did you mean 'polarity'?"),
        ("--k 0", "--k must be at least 1, got 0"),
        ("--k 4,x", "--k: expected integers separated by commas, got 4,x"),
        ("--k 25 -t mini --task-dir TASKS", "k = 25 needs at least 25 sources, got 24"),
        ("--limit 0", "--limit must be at least 1, got 0"),
        ("--limit 1 -t mini --task-dir TASKS", "every query has the label 'good'"),
        ("--batch-size 0", "--batch-size must be at least 1, got 0"),
        ("--batch-tokens 0", "--batch-tokens must be at least 1, got 0"),
        ("--max-tokens 0", "--max-tokens must be at least 1, got 0"),
        (
            "--prompt a --prompt-name b",
            "--prompt and --prompt-name exclude each other; give only one",
        ),
        ("--device warp", "--device warp: not usable on this machine"),
        ("--data-dir none", "the data folder none does not exist"),
        ("--task-dir none", "the task folder none does not exist"),
        ("--output TASKS/mini.toml", "the folder cannot be written to"),
        ("-m ./none", "the encoder './none': no such folder"),
        ("-m ~nobody-here/x", "the encoder '~nobody-here/x': no such folder"),
        ("-m vectors:~nobody-here/x", "~nobody-here/x: expected a .parquet or .npy file"),
        ("-m tfidf,random", "repository; to evaluate several encoders, repeat --model"),
        ("-m TASKS", "is not an encoder"),
        ("-m random:3", "the baseline 'random' takes no argument"),
        ("-m org/none --offline", "could not be read (--offline)"),
        (f"-m {'x' * 300}/y", "x/y': File name too long"),
        ("--reference ./none", "no such folder"),
        ("-m EMPTY", "the encoder '': the name is empty"),
        ("--reference EMPTY", "the encoder ' ': the name is empty"),
        ("-t sst2 --offline", "sst2: polarity/sst2/train.csv is not on this machine"),
    ],
)
def test_bad_input_ends_with_one_message_and_writes_nothing(
    bench: Bench, task_dir: Path, arguments: str, message: str
) -> None:
    words = arguments.replace("TASKS", str(task_dir)).split()
    empty = "" if "-m" in words else " "
    words = [empty if word == "EMPTY" else word for word in words]
    done = bench("run", *(() if "-m" in words else ("-m", "random")), *words)
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert [*Path().iterdir()] == []


@pytest.mark.parametrize(
    "arguments",
    ["run --weighting none", "run --dtype int3", "run --limit x", "run --nonsense", "none"],
)
def test_what_the_parser_refuses_ends_with_2(bench: Bench, arguments: str) -> None:
    done = bench(*arguments.split())
    assert done.code == 2
    assert done.out == ""
    assert "Error" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        "run --tasks none",
        "run --limit x",
        "run --nonsense",
        "train",
        "examples --output x --seed -1",
        "leaderboard none",
        "verify --only none",
        "tasks --suite none",
        "tasks show none",
        "data status --tasks none",
        "data fetch --tasks none",
        "cache prune",
        "card",
    ],
)
def test_where_json_is_asked_for_an_error_is_json_too(bench: Bench, arguments: str) -> None:
    plain, done = bench(*arguments.split()), bench(*arguments.split(), "--json")
    assert (plain.code, plain.out, done.code) == (2, "", 2)
    said = json.loads(done.out)
    assert list(said) == ["error"]
    assert said["error"] in plain.err
    assert said["error"] in done.err


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_can_print_json(command: tuple[str, ...]) -> None:
    node = node_of(command)
    if command not in {(), ("data",), ("sweep",), ("leaderboard",)}:  # which only hold others
        assert "--json" in {flag for parameter in node.params for flag in parameter.opts}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("tasks --suite none", "unknown suite 'none'"),
        ("tasks show contras", "unknown task 'contras'; did you mean 'contrast'"),
        ("data status --tasks none", "unknown task 'none'"),
        ("data fetch --tasks sst2 --offline", "sst2: polarity/sst2/train.csv"),
        ("leaderboard none", "none: no such folder of results; run `polarity-bench run` first"),
        ("leaderboard shwo", "shwo: no such command, file or folder; did you mean 'show'?"),
        ("leaderboard .", ".: the board has no results"),
    ],
)
def test_bad_input_to_the_other_commands(bench: Bench, arguments: str, message: str) -> None:
    done = bench(*arguments.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {message}")
    assert [*Path().iterdir()] == []


def test_a_wrong_file_is_named_with_its_line_before_anything_is_encoded(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = HashEncoder()
    monkeypatch.setattr("polarity_bench.encoders.load.load_encoder", lambda *_: encoder)
    write_task(tmp_path, sources=[*SOURCES, ("", "1")])
    write_task(tmp_path, "fine")
    done = bench("run", "-t", "fine,mini", "--task-dir", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(r"error: .*mini-source\.csv, line 26: the text is empty, .*\n", done.err)
    assert encoder.encoded == []
    assert [*Path().iterdir()] == []


OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def test_no_option_has_a_name_outside_the_command_line() -> None:
    package = Path(app.__file__).parents[1]
    below = [path for path in package.rglob("*.py") if path.parent.name != "cli"]
    assert len(below) > 50
    ours = {
        option
        for command in commands()
        for parameter in node_of(command).params
        for option in parameter.opts
        if option.startswith("--")
    }
    assert len(ours) > 60
    named = {path: set(OPTION.findall(path.read_text("utf-8"))) & ours for path in below}
    found = {path.relative_to(package).as_posix(): names for path, names in named.items() if names}
    assert found == {"boards/provenance_notes.py": {"--output"}}  # it reads recorded commands


@pytest.mark.parametrize("start", ["-m ", "--strength ", "--tasks ", "--"])
def test_messages_quote_only_a_part_of_a_long_text(bench: Bench, start: str) -> None:
    """Before, a message repeated all of an option, or of a line of a file."""
    done = bench("run", *f"{start}{'x' * 100_000}".split())
    assert done.code == 2
    assert 1000 < len(done.err) < 5000
    assert "x … x" in done.err


def test_fields_in_messages_become_flags() -> None:
    name_options(flags_of("run"))
    said = fields_to_flags("`ks` and `max_tokens`, not `polarity-bench run` nor `nothing`")
    assert said == "--k and --max-tokens, not `polarity-bench run` nor `nothing`"


WIDE = (
    "run -m random -t contrast",
    "leaderboard",
    "tasks",
    "tasks --suite full",
    "data status",
    "cache",
)


def test_tables_are_whole_where_they_are_piped(bench: Bench) -> None:
    for line in WIDE:
        done = bench(*line.split())
        assert max(map(len, done.out.splitlines())) > 64, line
        assert done.out == bench(*line.split(), "--wide").out
        assert "Too wide" not in done.out


def test_names_are_not_escaped_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    print_tables(escape("a_ [3]"))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_tables(escape("a_ [3]"))
    assert capsys.readouterr().out == "a\\_ \\[3\\]\na_ [3]\n"


def test_tables_fit_the_terminal(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "64")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for line in WIDE:
        done = bench(*line.split())
        rows = [row for row in done.out.splitlines() if row.startswith("|")]
        assert rows
        assert max(map(len, rows)) <= 64, line
        assert max(map(len, bench(*line.split(), "--wide").out.splitlines())) > 64
    done = bench(*WIDE[0].split(), "--columns", "all")
    assert "Too wide to show here, see --wide: retention; joint; front; P uniform" in done.out


def test_a_score_is_explained(bench: Bench) -> None:
    done = bench("explain-score", "SgTS")
    assert done.out.startswith("SgTS: Spearman's correlation of cosine with equality of labels")
    assert "aspect: share of the k nearest sources that have" in bench("explain-score").out
    assert "P" in json.loads(bench("explain-score", "--json").out)
    assert bench("explain-score", "nothing").code == 2


@pytest.mark.parametrize("title", ["P uniform", "kNN accuracy", "Spearman all", "P, negation"])
def test_a_title_of_several_words_needs_no_quotes(bench: Bench, title: str) -> None:
    done = bench("explain-score", *title.split())
    assert done.code == 0, done.err
    assert done.out.startswith(f"{title}: ")
    assert bench("explain-score", title).out == done.out


def test_a_command_that_is_interrupted_says_that_it_goes_on(
    bench: Bench, task_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("polarity_bench.evaluation.many_encoders.run_suite", interrupted)
    done = run_mini(bench, task_dir)
    assert done.code == 130
    assert done.err.endswith("interrupted; run the same command again to resume\n")


def test_an_unfinished_run_says_what_it_is(bench: Bench) -> None:
    Path("half").mkdir()
    made = {"format": 2, "run": "0", "finished": False, "base": {}, "files": [], "spec": {}}
    Path("half/train.json").write_text(json.dumps(made))
    for words in (("-m", "half"), ("-m", "random", "--reference", "half")):
        done = bench("run", *words)
        assert done.code == 2
        assert "half: the training has not finished; run the same `polarity-be" in done.err


def test_no_flag_is_named_that_the_command_lacks() -> None:
    name_options(flags_of("verify"))
    assert fields_to_flags("say `allow_pickle`") == "say `allow_pickle`"
    assert fields_to_flags("`data_dir`") == "--data-dir"


def test_a_log_that_is_no_terminal_gets_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("polarity_bench.cli.output.LINE_SECONDS", 0.05)
    with progress_bar("scoring", 40) as advance:
        advance(30)  # had been done before, and tells nothing of the pace
        time.sleep(0.2)
        assert set(capsys.readouterr().err.splitlines()) == {"scoring: 30 of 40"}
        advance(1)
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 2
    for line in lines:
        told = re.fullmatch(r"scoring: 31 of 40, ([\d.]+) per second, (\d+) s left", line)
        assert told
        assert 1 < float(told[1]) < 6
        assert 1 <= int(told[2]) <= 9
    time.sleep(0.15)
    assert capsys.readouterr().err == ""


def test_a_log_with_forced_colours_has_no_bar(
    bench: Bench, task_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = bench("data", "fetch", "--tasks", "mini", "--task-dir", task_dir, "--offline")
    assert (done.out, done.err) == ("mini: 24 sources, 8 queries, 0 overlap\n", "")


def test_a_bar_on_a_terminal_leaves_results_on_stdout(task_dir: Path) -> None:
    ours, theirs = os.openpty()
    words = ["data", "fetch", "--tasks", "mini", "--task-dir", str(task_dir), "--offline"]
    command = [sys.executable, "-m", "polarity_bench", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as running:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the end of a terminal
            while part := os.read(ours, 10_000):
                shown += part
        printed, _ = running.communicate()
    os.close(ours)
    assert (running.returncode, printed) == (0, b"mini: 24 sources, 8 queries, 0 overlap\n")
    assert b"fetching" in shown


def test_long_work_says_in_a_log_at_once_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    with announced_bar("training x, going on after step 4", 12):
        assert capsys.readouterr().err == "training x, going on after step 4: 12 in all\n"


# Running


def run_mini(bench: Bench, task_dir: Path, *more: str | Path) -> Done:
    return bench("run", "-m", "random", "-t", "mini", "--task-dir", task_dir, *more)


@pytest.mark.parametrize(
    ("options", "has_bfloat16", "least", "suggested"),
    [
        ((), True, 1, True),
        ((), False, 1, False),
        ((), True, 5_000, False),
        (("--dtype", "bfloat16"), True, 1, False),
    ],
)
def test_run_suggests_bfloat16_where_it_is_faster(
    bench: Bench,
    task_dir: Path,
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    has_bfloat16: bool,
    least: int,
    suggested: bool,
) -> None:
    monkeypatch.setattr(many_encoders, "multiplies_bfloat16", lambda: has_bfloat16)
    monkeypatch.setattr(many_encoders, "_MANY_TEXTS", least)
    given = ("-m", tiny_model, "-t", "mini", "--task-dir", task_dir, "--device", "cpu")
    done = bench("run", *given, *options)
    assert done.code == 0, done.err
    assert ("--dtype bfloat16 encodes about twice as fast" in done.err) == suggested


def test_run_says_how_many_texts_reach_the_limit_of_tokens(
    bench: Bench, task_dir: Path, tiny_model: Path
) -> None:
    given = ("-m", tiny_model, "-t", "mini", "--task-dir", task_dir, "--device", "cpu")
    message = "32 of the encoded texts reach the limit of tokens (--max-tokens); the encoder does"
    assert message in bench("run", *given, "--max-tokens", "2").err
    assert "limit of tokens" not in bench("run", *given).err


def test_json_alone_goes_to_stdout(bench: Bench, task_dir: Path) -> None:
    done = run_mini(bench, task_dir, "--json", "--k", "2,4")
    assert done.code == 0
    said = json.loads(done.out)
    assert said["unit"] == "fraction"
    assert (said["failures"], said["skipped"]) == ([], {})
    (result,) = said["results"]
    assert (result["task"], result["reused"]) == ("mini", False)
    assert result["scores"]["retention_at_4"] == 1.0
    assert {"polarity_at_2", "polarity_uniform_at_4", "joint_at_2"} <= set(result["scores"])
    assert Path(result["file"]).is_file()
    assert "encoded in" in done.err


def test_the_json_of_a_reused_result_is_the_same(bench: Bench, task_dir: Path) -> None:
    first, second = (json.loads(run_mini(bench, task_dir, "--json").out) for _ in range(2))
    (a,), (b,) = first["results"], second["results"]
    assert (a["reused"], b["reused"]) == (False, True)
    assert a["scores"] == b["scores"]
    assert a["run"] == b["run"]


def test_a_table_goes_to_stdout_and_the_next_command_to_stderr(
    bench: Bench, task_dir: Path
) -> None:
    done = run_mini(bench, task_dir)
    assert "| mini" in done.out
    assert "next: polarity-bench leaderboard results" in done.err
    again = run_mini(bench, task_dir)
    assert again.out == done.out
    assert "reused stored results (to recompute them, use --overwrite): mini" in again.err


@pytest.mark.parametrize("change", ["data", "task", "encoder", "k", "limit", "reference", "none"])
def test_only_the_very_same_question_is_answered_from_a_stored_result(
    bench: Bench, tmp_path: Path, task_dir: Path, change: str
) -> None:
    def reused(*more: str, model: str = "random") -> bool:
        done = bench("run", "-m", model, "-t", "mini", "--task-dir", task_dir, "--json", *more)
        assert done.code == 0, done.err
        return bool(json.loads(done.out)["results"][0]["reused"])

    assert not reused()
    if change == "data":
        file = task_dir / "mini-source.csv"
        file.write_text(file.read_text().replace("kind", "mild"))
    if change == "task":
        write_task(task_dir, k=5)
    options = {"k": ["--k", "3"], "limit": ["--limit", "6"], "reference": ["--reference", "tfidf"]}
    model = "constant" if change == "encoder" else "random"
    assert reused(*options.get(change, []), model=model) == (change == "none")
    assert reused(*options.get(change, []), model=model)
    assert not reused(*options.get(change, []), "--overwrite", model=model)


def test_a_damaged_result_is_made_again(bench: Bench, task_dir: Path) -> None:
    path = Path(json.loads(run_mini(bench, task_dir, "--json").out)["results"][0]["file"])
    whole = json.loads(path.read_text())["scores"]
    path.write_bytes(path.read_bytes()[:100])
    done = run_mini(bench, task_dir, "--json")
    assert done.code == 0
    assert not json.loads(done.out)["results"][0]["reused"]
    assert json.loads(path.read_text())["scores"] == whole


def test_k_names_the_scores_and_the_rows(bench: Bench, task_dir: Path) -> None:
    done = run_mini(bench, task_dir, "--k", "2,8,4,2")
    assert re.findall(r"^\| mini +\| (\d+)", done.out, flags=re.M)[:3] == ["2", "4", "8"]


def test_an_empty_value_of_the_breakdown_has_a_column(bench: Bench, tmp_path: Path) -> None:
    columns = '\n[format]\ntype = "csv"\ntext = "text"\nlabel = "label"\ncolumns = ["topic"]'
    file = write_task(tmp_path, protocol=f'breakdown = "topic"{columns}')
    for split in ("source", "query"):
        rows = pd.read_csv(tmp_path / f"mini-{split}.csv")
        topics = ["food" if i % 3 else "" for i in range(len(rows))]
        rows.assign(topic=topics).to_csv(tmp_path / f"mini-{split}.csv", index=False)
    words = ("run", "-m", "random", "-t", "mini", "--task-dir", file)
    done = bench(*words, "--columns", "all")
    assert done.code == 0, done.err
    for title in ("P, (empty)", "P, food"):
        assert f" {title} |" in done.out
        assert f" {title} |" in bench(*words, "--columns", title).out


def test_columns_are_chosen_by_their_titles(bench: Bench, task_dir: Path) -> None:
    words = ("run", "-m", "random", "-t", "contrast,mini", "--task-dir", task_dir, "--columns")
    done = bench(*words, "P, front, P, negation")
    assert done.code == 0, done.err
    lines = [line for line in done.out.splitlines() if line.startswith("| task")]
    heads = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert ["task", "k", "P", "front"] in heads
    assert ["task", "k", "P, negation"] in heads
    assert "Percent, [95 % interval]. Compare S, retention and joint only under one " in done.out
    done = bench(*words, "kNN accuracy")
    assert "\nPercent. Compare S" in done.out
    refused = bench(*words, "P,jont", "--overwrite")
    assert (refused.code, refused.out) == (2, "")
    assert "--columns P,jont: no column 'jont'; did you mean 'joint'" in refused.err


def test_the_encoder_as_its_own_reference_is_no_other_question(
    bench: Bench, task_dir: Path
) -> None:
    run_mini(bench, task_dir)
    assert "reused stored results" in run_mini(bench, task_dir, "--reference", "random").err


def stand_in(monkeypatch: pytest.MonkeyPatch, encoder: Encoder) -> None:
    monkeypatch.setattr("polarity_bench.encoders.load.load_encoder", lambda *_: encoder)


@pytest.mark.parametrize(("value", "what"), [(float("nan"), "is not finite"), (0.0, "is all zero")])
def test_one_task_that_fails_does_not_stop_the_others(
    bench: Bench, task_dir: Path, monkeypatch: pytest.MonkeyPatch, value: float, what: str
) -> None:
    stand_in(monkeypatch, HashEncoder(spoiled=["A text of its own."], spoil=value))
    write_task(task_dir, "odd", queries=[("A text of its own.", "1"), *QUERIES])
    done = bench("run", "-t", "odd,mini", "--task-dir", task_dir, "--json")
    assert done.code == 1
    said = json.loads(done.out)
    assert [result["task"] for result in said["results"]] == ["mini"]
    (failure,) = said["failures"]
    assert failure["task"] == "odd"
    assert f"the vector of 'A text of its own.' {what}" in failure["error"]
    assert "error: odd failed: " in done.err
    assert "Traceback" not in done.err
    names = [path.name for path in Path("results").rglob("*.json")]
    assert "MiniPolarityRetrieval.json" in names
    assert "OddPolarityRetrieval.json" not in names


def test_if_every_task_fails_for_its_input_the_exit_code_is_2(
    bench: Bench, task_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, HashEncoder(spoiled=[QUERIES[0][0]], spoil=float("nan")))
    done = bench("run", "-t", "mini", "--task-dir", task_dir)
    assert (done.code, done.out) == (2, "")
    assert "error: mini failed: " in done.err


def test_the_hint_after_a_quick_look_leads_somewhere(bench: Bench, task_dir: Path) -> None:
    done = run_mini(bench, task_dir, "--limit", "6")
    assert "next: run the same command without --limit" in done.err
    assert "leaderboard" not in done.err
    refused = bench("leaderboard")
    assert refused.code == 2
    assert "`polarity-bench run` without a `limit`" in refused.err
    run_mini(bench, task_dir)
    assert bench("leaderboard").code == 0
    assert bench("leaderboard", "--tasks", "mini", "--models", "random").code == 0
    assert (
        "--models none: no results with this name" in bench("leaderboard", "--models", "none").err
    )


def test_what_was_retrieved_is_written_as_text(bench: Bench, task_dir: Path) -> None:
    run_mini(bench, task_dir)
    assert not [*Path("results").rglob("*.jsonl")]
    done = run_mini(bench, task_dir, "--log-samples")  # of a stored result as of a new one
    (file,) = Path("results").rglob("*.jsonl")
    assert file.name == "MiniPolarityRetrieval.samples.jsonl"
    assert f"retrieved texts of mini: {file}" in done.err
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    labels = {"0": "bad", "1": "good"}
    assert [(line["text"], line["label"]) for line in lines] == [
        (text, labels[label]) for text, label in QUERIES
    ]
    sources = {text: labels[label] for text, label in SOURCES}
    for line in lines:
        assert len(line["retrieved"]) == 4
        cosines = [hit["similarity"] for hit in line["retrieved"]]
        assert cosines == sorted(cosines, reverse=True)
        hits = [hit["label"] == line["label"] for hit in line["retrieved"]]
        assert all(sources[hit["text"]] == hit["label"] for hit in line["retrieved"])
        assert line["scores"]["polarity_uniform_at_4"] == pytest.approx(sum(hits) / 4)
    assert bench("leaderboard").code == 0


def test_what_was_retrieved_before_the_data_changed_is_gone(bench: Bench, task_dir: Path) -> None:
    run_mini(bench, task_dir, "--log-samples")
    run_mini(bench, task_dir)
    assert [*Path("results").rglob("*.samples.jsonl")], "it is still true"
    write_task(task_dir, queries=[("What a brand new evening.", "1"), *QUERIES[1:]])
    run_mini(bench, task_dir)
    assert not [*Path("results").rglob("*.samples.jsonl")]


def test_several_encoders_are_evaluated_one_after_the_other(bench: Bench, task_dir: Path) -> None:
    words = ("run", "-t", "mini", "--task-dir", task_dir, "-m", "random", "-m", "constant")
    done = bench(*words)
    assert done.code == 0
    assert re.findall(r"^(\w+), reference: itself$", done.out, flags=re.M) == ["random", "constant"]
    said = json.loads(bench(*words, "--json").out)
    assert [(r["encoder"], r["reused"]) for r in said["results"]] == [
        ("random", True),
        ("constant", True),
    ]


def test_an_encoder_that_cannot_be_loaded_takes_no_other_with_it(
    bench: Bench, task_dir: Path
) -> None:
    words = ("run", "-t", "mini", "--task-dir", task_dir, "-m", "./none", "--json")
    done = bench(*words, "-m", "random")
    assert done.code == 1
    said = json.loads(done.out)
    assert [result["encoder"] for result in said["results"]] == ["random"]
    (failure,) = said["failures"]
    assert (failure["encoder"], failure["task"]) == ("./none", None)
    assert failure["error"] in done.err
    assert bench(*words, "-m", "./neither").code == 2


def test_a_suite_goes_on_without_missing_data_when_told_so(bench: Bench, task_dir: Path) -> None:
    words = ("run", "-m", "random", "--task-dir", task_dir, "--offline", "-t")
    refused = bench(*words, "sst2,mini,cr")
    assert (refused.code, refused.out) == (2, "")
    assert "sst2: polarity/sst2/train.csv is not on this machine" in refused.err
    assert "cr: " in refused.err
    assert "to run only the other tasks, use --skip-missing: mini" in refused.err
    done = bench(*words, "sst2,mini,cr", "--skip-missing", "--json")
    assert done.code == 0
    said = json.loads(done.out)
    assert [result["task"] for result in said["results"]] == ["mini"]
    assert list(said["skipped"]) == ["sst2", "cr"]
    assert "skipped: sst2: polarity/sst2/train.csv is not" in done.err
    nothing = bench(*words, "sst2,cr", "--skip-missing")
    assert nothing.code == 2
    assert "the data of every task is missing" in nothing.err


def test_what_is_wrong_with_data_is_not_skipped(bench: Bench, task_dir: Path) -> None:
    write_task(task_dir, "odd", sources=[("", "1")])
    done = run_mini(bench, task_dir, "-t", "odd,mini", "--skip-missing")
    assert (done.code, done.out) == (2, "")
    assert "the text is empty" in done.err


# The other commands


def test_tasks_are_listed_filtered_and_shown(bench: Bench, task_dir: Path) -> None:
    assert "| sst2" in bench("tasks").out
    listed = json.loads(bench("tasks", "--json", "--filter", "IRONY").out)
    assert [task["name"] for task in listed] == ["tweeteval-irony"]
    mine = json.loads(bench("tasks", "--json", "--task-dir", task_dir).out)
    assert "mini" in {task["name"] for task in mine}
    suite = json.loads(bench("tasks", "--json", "--suite", "demo").out)
    assert [task["name"] for task in suite] == ["contrast"]
    shown = bench("tasks", "show", "mini", "--task-dir", task_dir)
    assert 'title = "Task mini"' in shown.out
    spec = json.loads(bench("tasks", "show", "sst2", "--json").out)
    assert spec["spec"]["splits"]["query"]["rows"] == 872


def test_a_task_file_is_written_for_data_and_can_be_run(bench: Bench, tmp_path: Path) -> None:
    rows = "".join(f"{text},{label}\n" for text, label in SOURCES)
    data = tmp_path / "500 reviews.csv"
    data.write_text(f"sentence,stars\n{rows}")
    done = bench("tasks", "new", data, "--name", "mine")
    assert done.code == 0, done.err
    assert 'text = "sentence"\nlabel = "stars"\n' in done.out
    assert 'rows = 20 # "0": 10, "1": 10\n' in done.out
    assert "overlap = 0" in done.out
    file = tmp_path / "mine.toml"
    following = f"polarity-bench run --tasks mine --task-dir '{file}'"
    assert following.replace("'", "") in done.err.replace("'", "")
    assert "| mine" in bench("run", "-m", "tfidf", "-t", "mine", "--task-dir", file).out
    refused = bench("tasks", "new", data, "--label", "star", "--name", "again")
    assert (refused.code, refused.out) == (2, "")
    assert "--label star: " in refused.err
    assert "has no such column" in refused.err
    again = bench("tasks", "new", data, "--name", "mine")
    assert (again.code, again.out) == (0, done.out)  # The same data gives the same file.
    data.write_text(f"sentence,stars\n{rows}A word,0\n")
    other = bench("tasks", "new", data, "--name", "mine")
    assert (other.code, other.out) == (2, "")
    assert "mine-source.csv already exists" in other.err
    data.write_text(f"sentence,stars\n{rows}")
    told = json.loads(bench("tasks", "new", data, "--name", "told", "--json").out)
    assert told["spec"]["format"]["text"] == "sentence"


def test_the_schema_of_task_files_is_printed(bench: Bench) -> None:
    schema = json.loads(bench("tasks", "schema").out)
    assert len(schema["oneOf"]) == 6
    assert "file" not in schema["$defs"]["PolaritySpec"]["properties"]


def test_data_status_and_fetch(bench: Bench, task_dir: Path) -> None:
    rows = json.loads(bench("data", "status", "--json", "--tasks", "contrast,sst2").out)
    assert [row["status"] for row in rows] == ["here", "missing", "missing"]
    assert "raw.githubusercontent.com" in rows[1]["place"]
    done = bench("data", "fetch", "--tasks", "mini", "--task-dir", task_dir, "--offline")
    assert done.code == 0
    assert "mini: 24 sources, 8 queries" in done.out


def test_queries_among_the_sources_are_told_of_on_stderr(bench: Bench, tmp_path: Path) -> None:
    write_task(tmp_path, sources=[*SOURCES, QUERIES[0]], queries=[*QUERIES, *QUERIES_TOO])
    done = bench("run", "-m", "random", "-t", "mini", "--task-dir", tmp_path)
    assert done.code == 0
    assert "\nwarning: mini: 1 of 10 queries also occur among the sources" in f"\n{done.err}"
    assert done.err.count("also occur") == 1
    write_task(tmp_path, sources=[*SOURCES, *QUERIES])
    refused = bench("run", "-m", "random", "-t", "mini", "--task-dir", tmp_path)
    assert (refused.code, refused.out) == (2, "")
    assert "error: mini: 8 of 8 queries also occur among the sources" in refused.err


def test_a_draw_of_the_sources_is_told_of(bench: Bench, tmp_path: Path) -> None:
    file = write_task(tmp_path)
    run = ("run", "-m", "random", "-t", "mini", "--task-dir", tmp_path)
    assert "sources" not in bench(*run).err
    file.write_text(file.read_text().replace("sources_per_query = 0", "sources_per_query = 2"))
    assert (
        "mini: 16 of 24 sources sampled (see sources_per_query in the task file)\n"
        in bench(*run).err
    )
    told = json.loads(bench(*run, "--json").out)["results"][0]["counts"]
    assert told == {"sources": 16, "queries": 8, "overlap": 0, "drawn from": 24}


def test_what_is_fetched_and_what_cannot_be_is_json(bench: Bench, task_dir: Path) -> None:
    words = ("data", "fetch", "--task-dir", task_dir, "--offline", "--json", "--tasks")
    done = bench(*words, "mini,sst2")
    assert done.code == 2
    said = json.loads(done.out)
    assert said["tasks"] == {"mini": {"sources": 24, "queries": 8, "overlap": 0}}
    assert "is not on this machine" in said["failures"]["sst2"]
    assert bench(*words, "mini").code == 0


def test_a_leaderboard_is_fractions_in_json(bench: Bench, task_dir: Path) -> None:
    made = json.loads(run_mini(bench, task_dir, "--json").out)["results"][0]["scores"]
    said = json.loads(bench("leaderboard", "--json").out)
    assert said["unit"] == "fraction"
    (mini,) = said["tables"]
    assert mini["heading"] == "Summary: mini"
    row, oracle, chance = mini["rows"]
    assert [oracle["encoder"], chance["encoder"]] == ["gold labels (oracle)", "random retrieval"]
    assert (row["encoder"], row["reference"], row["k"]) == ("random", "itself", "4")
    assert row["values"]["P"] == made["polarity_at_4"]
    names = {"P": "polarity", "S": "similarity", "joint": "joint", "front": "front"}
    assert row["intervals"] == {
        title: [made[f"{name}_at_4_ci95_{end}"] for end in ("low", "high")]
        for title, name in names.items()
    }
    assert row["values"]["joint"] == made["joint_at_4"]


def test_the_whole_way_in_a_process_of_its_own(task_dir: Path, tmp_path: Path) -> None:
    done = subprocess_bench(
        "run", "-m", "random", "-t", "mini", "--task-dir", str(task_dir), cwd=tmp_path
    )
    assert done.code == 0, done.err
    assert "| mini" in done.out
    assert "Warning" not in done.err
    bad = subprocess_bench("run", "-m", "random", "-t", "non", cwd=tmp_path)
    assert (bad.code, bad.out, bad.err.count("\n")) == (2, "", 1)


def test_a_cache_of_a_library_that_cannot_be_written_is_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if mteb were imported for the first time, when it makes its cache."""

    def fail(*_: object) -> None:
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", "/none/.cache/mteb")

    monkeypatch.setattr("polarity_bench.tasks.mteb_names.find_sets", fail)
    done = bench("tasks", "--from-mteb", "danish")
    assert done.code == 2
    assert done.err == (
        "error: [Errno 20] Not a directory: '/none/.cache/mteb'; if this is a cache, set HOME, or "
        "MTEB_CACHE, HF_HOME and POLARITY_BENCH_CACHE, to folders that can be written to\n"
    )
