"""The README and the documentation: commands, blocks, tables and links are true."""

from __future__ import annotations

import ast
import re
import shlex
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer.main
from standins import call, write_task

import polarity_bench
from polarity_bench import training
from polarity_bench.cli import app
from polarity_bench.tasks.catalogue import load_suites, load_tasks, read_task
from polarity_bench.tasks.mteb_names import MTEB_PREFIXES
from polarity_bench.tasks.types.polarity.task import PolaritySpec

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
"""Pages that `make docs` writes and git ignores; test_reference_pages.py checks them."""
TRACKED = [page for page in sorted(DOCS.rglob("*.md")) if REFERENCE not in page.parents]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *TRACKED]
NEW_TASKS = ("reviews", "moods", "imdb")
"""Tasks that pages tell their readers to write or to install."""
PLACEHOLDERS = {"GRID.toml", "RECIPE", "...", "steep"}
"""Words of commands that stand for what the reader has, or writes."""
OF_OTHERS = {"--strict", "--force"}
"""Options of other programs, zensical and git."""
BOARDS = sorted((ROOT / "leaderboards").rglob("README.md"))
GITHUB = "https://github.com/polarity-bench/polarity-bench/"
"""The address of this repository, by which the site links to files outside of `docs`."""
RUNNABLE = ("python.md", "mteb.md", "own-data.md")
"""The pages whose Python blocks run as they are."""


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.M | re.S)


def commands(text: str) -> list[list[str]]:
    """Every call of the command on a page: in blocks, and between backticks."""
    lines = "\n".join(blocks("bash", text)).replace("\\\n", " ").splitlines()
    lines += re.findall(r"`(polarity-bench [^`\n]*--[^`\n]*)`", text)  # others may be cut short
    words = [shlex.split(re.sub(r"\$\(.*?\)", "x", line), comments=True) for line in lines]
    return [one for one in words if one[:1] == ["polarity-bench"]]


def parse(words: list[str]) -> dict[str, Any]:
    """Parse a command line as the real command does, without running it; returns its options."""
    command: Any = typer.main.get_command(app.app)
    context = command.make_context(words[0], words[1:], resilient_parsing=False)
    while hasattr(command, "commands") and (rest := [*context._protected_args, *context.args]):
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context, resilient_parsing=False)
    assert not context.args
    params: dict[str, Any] = context.params
    return params


def test_commands_are_found() -> None:
    assert sum(len(commands(text_of(page))) for page in PAGES) > 100
    assert ["polarity-bench", "run"] in commands(README)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_parses_and_names_what_exists(page: Path) -> None:
    suites, tasks = load_suites(), {*load_tasks(), *NEW_TASKS}
    for words in commands(text_of(page)):
        if PLACEHOLDERS.intersection(words):
            continue
        options = parse(words)
        assert options.get("suite") is None or options["suite"] in suites, words
        named = (options.get("tasks") or "").split(",")
        own = [name for name in named if name and not name.startswith(MTEB_PREFIXES)]
        assert set(own) <= tasks, words


@pytest.mark.parametrize(
    "line", ["run --no-such-option", "run --kfold many", "cache prun", "run --dtype int3"]
)
def test_the_parser_here_refuses_what_the_command_refuses(line: str) -> None:
    with pytest.raises(Exception, match=r"No such (option|command)|valid integer|not one of"):
        parse(["polarity-bench", *line.split()])


def test_every_option_in_running_text_exists() -> None:
    command: Any = typer.main.get_command(app.app)
    known = {"--help"}
    pending = [command]
    while pending:
        one = pending.pop()
        pending += getattr(one, "commands", {}).values()
        known |= {name for parameter in one.params for name in parameter.opts}
    for page in PAGES:
        named = set(re.findall(r"`(--[a-z][a-z-]*)", text_of(page)))
        assert named - OF_OTHERS <= known, page


def write_own_task(folder: Path) -> None:
    """The README's own task, its file and its data in `my-tasks`."""
    (folder / "my-tasks").mkdir()
    write_task(folder / "my-tasks", "reviews")


def python_blocks() -> list[Any]:
    """The Python blocks, the one that trains a real encoder marked as slow."""
    return [
        pytest.param(
            code,
            marks=[pytest.mark.slow] if " train(" in code else [],
            id=code.split("\n", 1)[0],
        )
        for name in RUNNABLE
        for code in blocks("python", text_of(DOCS / name))
    ]


def test_python_blocks_import_what_exists() -> None:
    codes = [code for page in PAGES for code in blocks("python", text_of(page))]
    assert len(codes) >= 10
    for code in codes:
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("polarity"):
                module = import_module(node.module or "")
                assert all(hasattr(module, name.name) for name in node.names), code


def test_every_name_of_the_api_page_exists() -> None:
    names = re.findall(r"^::: (\S+)$", text_of(DOCS / "api.md"), flags=re.M)
    public = {*polarity_bench.__all__, *training.__all__}
    assert {name.rpartition(".")[2] for name in names} >= public
    for name in names:
        module, _, last = name.rpartition(".")
        assert hasattr(import_module(module), last), name


def test_the_front_is_the_figure_of_the_board() -> None:
    board = DOCS.parent / "leaderboards" / "axis" / "figures" / "sst2-p-against-s.svg"
    assert (DOCS / "figures" / "front.svg").read_bytes() == board.read_bytes()


@pytest.mark.usefixtures("minilm_vectors")
@pytest.mark.parametrize("code", python_blocks())
def test_every_python_block_runs(
    code: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "import mteb" in code and not find_spec("mteb"):
        pytest.skip("needs mteb")
    if "my-tasks" in code:
        write_own_task(tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(code, {"__name__": "__main__"})
    output = capsys.readouterr().out
    if "mteb.get_task" in code:
        assert output == "joint_at_16 5\n"
    elif "generate_examples" in code:
        assert output == "500 ['anchor', 'positive', 'negative']\n"
    elif " train(" in code:
        trained = re.fullmatch(r"P 57\.67 -> (\d\d\.\d\d)\n", output)
        assert trained
        assert float(trained[1]) > 65  # it trains something
    elif "task_from" in code:
        assert re.fullmatch(r"{'sources': 38, 'queries': 10, .*} joint \d+\.\d\d\n", output)
    elif "my-tasks" in code:
        assert re.fullmatch(r"{'sources': 24, 'queries': 8, .*} joint \d\d\.\d\d\n", output)
    elif "evaluate(" in code:
        assert re.fullmatch(r"P \d\d\.\d\d\n", output)


def test_p_can_be_computed_from_what_was_retrieved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, capsys, "run", "--model", "random", "--output", "results").code == 0
    (code,) = (each for each in blocks("python", text_of(DOCS / "results.md")) if "hits" in each)
    exec(code, {"__name__": "__main__"})
    computed, stored = map(float, capsys.readouterr().out.split())
    assert computed == pytest.approx(stored, abs=1e-9)


def test_no_name_of_the_package_is_that_of_a_module() -> None:
    """Importing a module binds its name in the package, over what was there."""
    modules = {path.stem for path in (ROOT / "polarity_bench").iterdir()}
    assert modules.isdisjoint(polarity_bench.__all__)


def test_every_toml_block_is_a_task_file(tmp_path: Path) -> None:
    (text,) = blocks("toml", text_of(DOCS / "own-data.md"))
    file = tmp_path / "reviews.toml"
    file.write_text(text, encoding="utf-8")
    spec = read_task(file)
    assert isinstance(spec, PolaritySpec)
    assert spec.name == "reviews"
    assert "reviews" in load_tasks(tmp_path)


def anchors(text: str) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}


def target_of(page: Path, place: str) -> Path | None:
    """The file that a link leads to, if it is one of this repository."""
    if place.startswith(GITHUB):
        branch = re.match(r"(blob|tree)/main/", place.removeprefix(GITHUB))
        return ROOT / place.removeprefix(GITHUB + branch[0]) if branch else None
    if re.match(r"[a-z]+:", place):
        return None
    return page.parent / place if place else page


def test_every_link_into_the_repository_leads_somewhere() -> None:
    dead = []
    n_links = 0
    for page in [*PAGES, *BOARDS]:
        for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
            place, _, anchor = target.partition("#")
            linked = target_of(page, place)
            n_links += linked is not None
            # After the address of a page with a script, the anchor is a state of the page.
            if linked is None or (linked.exists() and (not anchor or linked.suffix == ".html")):
                continue
            if not linked.exists() or anchor not in anchors(text_of(linked)):
                dead.append(f"{name_of(page)}: {target}")
    assert n_links > 150
    assert not dead


# The table of suites


def table_of_suites() -> dict[str, list[str]]:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", README, flags=re.M)
    suites = load_suites()
    found = {}
    for suite, cell in rows:
        if suite in suites:
            found[suite] = [name.strip(" `") for name in cell.split(",")]
    return found


def test_the_table_of_suites_is_that_of_the_file() -> None:
    shown, suites = table_of_suites(), load_suites()
    assert list(shown) == list(suites)
    assert shown.pop("full") == ["all of the above"]
    of_mteb = {name for name in suites if suites[name][0].startswith(MTEB_PREFIXES)}
    assert of_mteb == {"multilingual", "nano"}
    for name in of_mteb:
        assert shown.pop(name)[0].startswith(f"{len(suites[name])} "), name
    for name, tasks in shown.items():
        assert sorted(tasks) == sorted(suites[name]), name
    every = {task for name in ("polarity", "transfer", "sts") for task in suites[name]}
    assert set(suites["full"]) == every
    more = {task for name in ("unseen", "probing", "answers") for task in suites[name]}
    assert every | more == set(load_tasks())
