"""The explorer's page in headless Chromium, from a file: search, filters, keys, phone, dark."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standins import QUERIES, SOURCES, BagEncoder, write_task

from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.base import Encoder
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.explain.explanation import Explanation, explain
from polarity_bench.explain.explorer_page import page as page_of
from polarity_bench.results.result_files import read_result, write_result
from polarity_bench.tasks.catalogue import load_task, read_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.task import PolarityTask

playwright = pytest.importorskip("playwright.sync_api", reason="the extra `dev` has playwright")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")

MARKUP = "</script><img src=x onerror=alert(1)>"
HOSTILE = f"{MARKUP}<!-- \u2028 &amp; was warm, \u202egib"
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 812}


def explained(task: Any, one: Encoder, other: Encoder, folder: Path) -> Explanation:
    assert isinstance(task, PolarityTask)
    paths = [write_result(evaluate(encoder, task), folder) for encoder in (one, other)]
    a, b = map(read_result, paths)
    return explain(task, a, b, task.ks[-1])


@pytest.fixture(scope="module")
def contrast(tmp_path_factory: pytest.TempPathFactory) -> tuple[Explanation, str]:
    folder = tmp_path_factory.mktemp("contrast")
    found = explained(load_task("contrast"), BagEncoder("ash"), BagEncoder("maple"), folder)
    (folder / "page.html").write_bytes(page_of(found))
    return found, (folder / "page.html").as_uri()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("hostile")
    queries = [(HOSTILE, "1"), *QUERIES, ("long" * 300, "0")]
    file = write_task(folder, sources=[*SOURCES, (f"A warm {HOSTILE}", "1")], queries=queries)
    task = read_task(file).load(DataAccess(offline=True), Settings())
    found = explained(task, BagEncoder(MARKUP), BagEncoder("x" * 64), folder)
    (folder / "page.html").write_bytes(page_of(found))
    return (folder / "page.html").as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Visit:
    """A page in a context of its own, and all that it did that it must not."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.wrong: list[str] = []
        context = browser.new_context(**({"viewport": WIDE} | options))
        self.page = context.new_page()
        self.page.set_default_timeout(120_000)
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: self.wrong.append(dialog.message))  # and it hangs
        self.page.on("request", lambda request: self.wrong.append(request.url))
        self.page.goto(url)
        assert self.wrong == [url.partition("#")[0]]
        self.wrong.clear()

    @property
    def status(self) -> str:
        return str(self.page.get_by_role("status").inner_text())

    @property
    def queries(self) -> Any:
        return self.page.locator("#queries button.query")

    @property
    def texts(self) -> list[str]:
        found: list[str] = self.page.locator("#queries .said").all_text_contents()
        return found

    @property
    def focused(self) -> str:
        found: str = self.page.evaluate("document.activeElement.id")
        return found

    @property
    def opened(self) -> list[str]:
        found: list[str] = self.page.locator("button.query[aria-expanded=true]").evaluate_all(
            "all => all.map(each => each.id)"
        )
        return found

    def colours(self) -> tuple[str, str]:
        found: list[str] = self.page.evaluate(
            "(({color, backgroundColor}) => [color, backgroundColor])(getComputedStyle("
            "document.body))"
        )
        return found[0], found[1]


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    visits: list[Visit] = []

    def open_page(url: str, **options: Any) -> Visit:
        visits.append(Visit(browser, url, **options))
        return visits[-1]

    yield open_page
    for each in visits:
        assert each.wrong == []
        each.page.context.close()


def ids(found: Explanation, **wanted: str) -> list[str]:
    """The numbers of queries of an outcome, those first whose P moved most."""
    order = sorted(found.answers, key=lambda answer: -abs(answer.moved))
    return [f"query-{a.query + 1}" for a in order if a.outcome == wanted.get("outcome", a.outcome)]


def test_the_first_page_shows_what_changed_most(
    visit: Any, contrast: tuple[Explanation, str]
) -> None:
    found, url = contrast
    seen = visit(url)
    assert seen.page.title() == "maple against ash on contrast"
    assert seen.status == "610 queries"
    assert seen.queries.count() == 25
    first = found.most_changed(1)[0]
    assert seen.opened == [f"query-{first.query + 1}"]
    task = found.task
    spoken = (
        f"{task.query.texts[first.query]} {task.query.labels[first.query]} "
        f".* A P {100 * first.p[0]:.1f} B P {100 * first.p[1]:.1f} "
        f"change in P .{100 * abs(first.moved):.1f} {first.outcome}"
    )
    assert seen.page.get_by_role("button", name=re.compile(spoken)).count() == 1
    for name, side, other in zip("AB", first.found, reversed(first.found), strict=True):
        ranks = {near.source: str(rank) for rank, near in enumerate(other, start=1)}
        rows = seen.page.get_by_role("region", name=f"Nearest under {name}").locator("tbody tr")
        cells = [row.locator("td").all_text_contents() for row in rows.all()]
        gone = {"A": "lost", "B": "new"}[name]
        for rank, (near, (number, text, cosine, elsewhere)) in enumerate(
            zip(side, cells, strict=True), start=1
        ):
            assert int(number) == rank
            assert float(cosine) == pytest.approx(near.similarity, abs=1e-3)
            label = task.source.labels[near.source]
            assert text.split() == [label, *task.source.texts[near.source].split()]
            assert elsewhere == ranks.get(near.source, gone)
        filled = [row.locator(".label.same").count() == 1 for row in rows.all()]
        label = task.query.labels[first.query]
        assert filled == [task.source.labels[near.source] == label for near in side]


def test_filters_and_sorts(visit: Any, contrast: tuple[Explanation, str]) -> None:
    found, url = contrast
    seen = visit(url)
    for outcome, n in found.counts.items():
        shown = f"{outcome[0].upper()}{outcome[1:]} {n}"
        seen.page.get_by_role("radio", name=shown, exact=True).check()
        assert seen.status == f"{n} of 610 queries"
        assert set(seen.page.locator(".became").all_text_contents()) <= {
            outcome,
            f"\u25b2 {outcome}",
            f"\u25bc {outcome}",
        }
    seen.page.get_by_role("radio", name="Fixed by B").check()
    seen.page.get_by_label("Sort").select_option("P fell most")
    moved = [answer.moved for answer in found.answers if answer.outcome == "fixed by B"]
    shown = seen.page.locator(".moved").first.text_content()
    assert f"{100 * min(moved):.1f}" in shown.replace("+", "").replace("\u2212", "-")
    seen.page.get_by_role("radio", name="All").check()
    seen.page.get_by_label("Sort").select_option("as in the task")
    assert seen.texts[:25] == list(found.task.query.texts[:25])
    seen.page.get_by_label("phenomenon").select_option("sarcasm")
    seen.page.get_by_label("label", exact=True).select_option("negative")
    wanted = [
        text
        for text, label, phenomenon in zip(
            found.task.query.texts,
            found.task.query.labels,
            found.task.query.columns["phenomenon"],
            strict=True,
        )
        if (label, phenomenon) == ("negative", "sarcasm")
    ]
    assert seen.texts == wanted[:25]
    assert seen.status == f"{len(wanted)} of 610 queries"


def test_search_finds_queries_and_what_they_found(
    visit: Any, contrast: tuple[Explanation, str]
) -> None:
    found, url = contrast
    seen = visit(url)
    seen.page.get_by_role("searchbox", name="Search").fill(" VIEW")
    task = found.task
    queries = [i for i, text in enumerate(task.query.texts) if "view" in text.lower()]
    assert 0 < len(queries) < 25
    assert seen.status == f"{len(queries)} of 610 queries"
    assert sorted(seen.texts) == sorted(task.query.texts[i] for i in queries)
    assert {text.lower() for text in seen.page.locator(".said mark").all_text_contents()} == {
        "view"
    }
    seen.page.get_by_role("checkbox", name="also search the retrieved sentences").check()
    deep = [
        answer.query
        for answer in found.answers
        if answer.query in queries
        or any("view" in task.source.texts[n.source].lower() for s in answer.found for n in s)
    ]
    assert len(queries) < len(deep) < 610
    assert seen.status == f"{len(deep)} of 610 queries"
    for words in ("negative", "sarcasm"):  # a label and a phenomenon, which no sentence says
        seen.page.get_by_role("checkbox", name="also search the retrieved sentences").uncheck()
        seen.page.get_by_role("searchbox", name="Search").fill(words)
        n = sum(words in text.lower() for text in task.query.texts)
        assert seen.status == f"{n} of 610 queries"
    seen.page.get_by_role("searchbox", name="Search").fill("no such words at all")
    assert (seen.status, seen.queries.count()) == ("0 of 610 queries", 0)
    assert "No query matches" in seen.page.locator("#queries").text_content()


def test_search_answers_within_a_tenth_of_a_second(
    visit: Any, contrast: tuple[Explanation, str]
) -> None:
    seen = visit(contrast[1])
    seen.page.get_by_role("checkbox", name="also search the retrieved sentences").check()
    least = seen.page.evaluate(
        """() => Math.min(...["a", "the", "so", "was", "no"].map((term) => {
            const field = document.getElementById("search"), begun = performance.now();
            field.value = term;
            field.dispatchEvent(new Event("input"));
            document.body.getBoundingClientRect();
            return performance.now() - begun;
        }))"""
    )
    assert seen.status != "610 queries"
    assert 0 < least < 100


def test_keys_alone_do_everything(visit: Any, contrast: tuple[Explanation, str]) -> None:
    found, url = contrast
    seen, order = visit(url), ids(contrast[0])
    press = seen.page.keyboard.press
    press("Tab")
    assert seen.page.locator(":focus").inner_text() == "Skip to the queries"
    assert seen.page.locator(":focus").bounding_box()["x"] >= 0
    press("j")
    assert (seen.focused, seen.opened) == (order[1], [order[1]])
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert seen.page.evaluate(outline) == "solid"
    press("ArrowDown")
    press("j")
    press("k")
    assert (seen.focused, seen.opened) == (order[2], [order[2]])
    assert seen.page.url.endswith(f"#{order[2]}")
    press("Enter")
    assert (seen.focused, seen.opened) == (order[2], [])
    press("Space")
    assert seen.opened == [order[2]]
    for _ in range(23):
        press("j")
    assert seen.focused == order[25]  # on the next page
    assert 0 <= seen.page.locator(":focus").bounding_box()["y"] < WIDE["height"] / 2
    assert seen.page.get_by_role("navigation", name="Pages").inner_text().split()[1:4] == [
        "2",
        "of",
        "25",
    ]
    press("/")
    assert seen.focused == "search"
    seen.page.keyboard.type("jokes/k")
    assert seen.page.get_by_role("searchbox").input_value() == "jokes/k"
    press("Escape")
    assert seen.page.get_by_role("searchbox").input_value() == ""
    press("/")
    press("Shift+Tab")
    press("ArrowRight")
    assert seen.status == f"{found.counts['fixed by B']} of 610 queries"
    press("/")
    press("Enter")
    assert seen.focused == ids(found, outcome="fixed by B")[0]
    box = seen.page.locator(":focus").bounding_box()
    assert 0 <= box["y"] < WIDE["height"]


def test_a_link_opens_its_query(visit: Any, contrast: tuple[Explanation, str]) -> None:
    seen = visit(f"{contrast[1]}#query-300")
    assert seen.opened == ["query-300"]
    assert seen.page.locator("#query-300").bounding_box()["y"] < WIDE["height"]
    seen.page.evaluate("location.hash = 'query-7'")  # a link that is followed on the page
    seen.page.locator("#query-7[aria-expanded=true]").wait_for()
    assert seen.opened == ["query-7"]
    seen.page.get_by_role("searchbox").fill("no such words at all")
    seen.page.evaluate("location.hash = 'query-9'")
    seen.page.locator("#query-9[aria-expanded=true]").wait_for()  # though it was filtered out
    assert (seen.status, seen.page.get_by_role("searchbox").input_value()) == ("610 queries", "")


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_columns_stand_side_by_side_or_on_a_phone_below(
    visit: Any, contrast: tuple[Explanation, str], hostile: str, viewport: dict[str, int]
) -> None:
    for url in (contrast[1], hostile):
        seen = visit(url, viewport=viewport)
        a, b = (
            seen.page.get_by_role("region", name=f"Nearest under {name}").bounding_box()
            for name in "AB"
        )
        if viewport is PHONE:
            assert b["y"] >= a["y"] + a["height"]
            assert a["x"] == b["x"]
        else:
            assert b["y"] == a["y"]
            assert b["x"] >= a["x"] + a["width"]
        wide = seen.page.evaluate("document.documentElement.scrollWidth")
        assert wide == viewport["width"]  # nothing to be scrolled sideways


def test_light_and_dark(visit: Any, contrast: tuple[Explanation, str]) -> None:
    light, dark = (
        ("rgb(29, 31, 34)", "rgb(252, 251, 248)"),
        ("rgb(233, 231, 225)", "rgb(23, 24, 26)"),
    )
    for scheme, first, second in (("light", light, dark), ("dark", dark, light)):
        seen = visit(contrast[1], color_scheme=scheme)
        assert seen.colours() == first
        button = {"light": "Dark", "dark": "Light"}[scheme]
        seen.page.get_by_role("button", name=f"{button} colours").click()
        assert seen.colours() == second
        seen.page.reload()
        seen.wrong.remove(contrast[1])
        assert seen.colours() == second  # as it was left


def test_markup_is_text(visit: Any, hostile: str) -> None:
    seen = visit(hostile)
    assert seen.page.locator("img").count() == 0
    assert HOSTILE.split("\u2028", 1)[0].strip() in " ".join(seen.texts)
    assert MARKUP in seen.page.locator(".sides").inner_text()
    assert seen.page.title().endswith(f"against {MARKUP} on mini")
    seen.page.get_by_role("searchbox").fill("<img src=x")
    assert seen.status == "1 of 10 queries"
    assert seen.page.locator(".said mark").text_content() == "<img src=x"
    seen.page.locator("button.query").click()
    assert seen.page.locator(".found .text", has_text="A warm </script><img").count() > 0
    assert seen.page.locator("img").count() == 0
