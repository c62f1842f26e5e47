"""The page of a board in headless Chromium, from a file: by mouse, by keyboard and on a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("altair", reason="the extra `report`")
pytest.importorskip("playwright", reason="drives the browser")

from polarity_bench.render.chart import LineChart, Mark, Plane, Series
from polarity_bench.render.html.board_page import page_html
from polarity_bench.render.table import Board, Column, Detail, Role, Table

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

EVIL = "<img src=x onerror=alert(1)>|[x](javascript:1)"
NAMES = [EVIL, "beta", "gamma", "delta", "epsilon"]
AND = "a & <img src=x onerror=alert(1)>"
LONG = [f"sentence-transformers/all-MiniLM-L6-v{i}-tuned-long" for i in (2, 3, 4)]
P = [0.601, None, 0.9, 0.602, 0.6015]
COMMAND = "polarity-bench run --model beta --task sst2"


def a_board() -> Board:
    columns = [
        Column("P", P, [(p - 0.1, p + 0.1) if p else None for p in P], [""] * 5, digits=1),
        Column("S", [0.5, 0.4, 0.3, 0.2, 0.1]),
        *(Column(f"accuracy, task {i}", [0.5] * 5) for i in range(12)),
    ]
    heads = [("encoder", NAMES), ("k", ["16", "4", "64", "16", "16"])]
    details = ["", "b", "", "", ""]
    facts = {"encoder": EVIL, "</script>": "<b>bold</b>"}
    marks = [Mark(name, "encoder", p or 0.5, 0.4 + i / 20) for i, (name, p) in enumerate(_named())]
    return Board(
        f"Board of {EVIL}",
        f"By *hand*.\n\n```bash\n{COMMAND} {'--where loss=triplet ' * 9}\n```\n",
        [Table("All", heads, columns, details=details), Table("Other", [("x", ["y"])], [])],
        ["A note."],
        [
            Plane("sst2", "ref", 16, "linear", marks),
            LineChart(
                "By k", "k", "P", [4, 16], [Series("a", [0.5, 0.6]), Series(EVIL, [0.6, 0.7])]
            ),
        ],
        {"b": Detail(facts, COMMAND, ["results/a b.json"], "Somebody (2025)")},
    )


def _named() -> Iterator[tuple[str, float | None]]:
    return zip(NAMES, P, strict=True)


def ranked() -> Board:
    heads = [("rank", ["1", "2", "-"]), ("encoder", LONG), ("reference", [LONG[0]] * 3)]
    words = [("name", [AND, "&amp;", "384"]), ("made", [AND, "&amp;", "x"])]
    tables = [Table("All", heads, [Column("P", [0.5, 0.4, 0.3])]), Table("Words", words, [])]
    return Board("Ranked", "", tables, [])


def referred() -> Board:
    names = ["base", "tuned", "worse", "=other k", "gold labels (oracle)"]
    heads = [("encoder", names), ("reference", ["itself", *["base"] * 4])]
    heads.append(("k", ["16", "16", "16", "4", "16"]))
    p = Column(
        "P", [0.5, 0.7, 0.6, 0.55, 1.0], [(v - 0.1, v + 0.1) for v in (0.5, 0.7, 0.6, 0.55, 1.0)]
    )
    roles: list[Role] = [*["encoder"] * 4, "oracle"]  # type: ignore[list-item]
    return Board(
        "Referred",
        "",
        [Table("All", heads, [p, Column("S", [0.5, 0.4, 0.3, 0.3, None])], roles=roles)],
        ["N."],
    )


def many(n: int = 500, m: int = 25) -> Board:
    names = [f"encoder-{i:03d}" for i in range(n)]
    columns = [
        Column(f"task {j}", [(i * 7919 + j * 104729) % 9973 / 9973 for i in range(n)])
        for j in range(m)
    ]
    return Board("Many", "", [Table("All", [("encoder", names)], columns)], [])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    (folder / "index.html").write_text(page_html(a_board()), encoding="utf-8")
    (folder / "ranked.html").write_text(page_html(ranked()), encoding="utf-8")
    (folder / "referred.html").write_text(page_html(referred()), encoding="utf-8")
    (folder / "many.html").write_text(page_html(many()), encoding="utf-8")
    return folder


@pytest.fixture
def page(browser: Browser, folder: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The page, by the marked options; it must say nothing on the console and ask for nothing."""
    how = {"viewport": {"width": 1280, "height": 800}, **getattr(request, "param", {})}
    name = how.pop("name", "index.html")
    url = (folder / name).as_uri()
    context = browser.new_context(**how)
    page = context.new_page()
    page.set_default_timeout(120_000)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url)
    if name == "index.html":
        page.wait_for_selector("#plot[data-drawn]")
    yield page
    context.close()
    assert said == []
    assert {address.partition("?")[0].partition("#")[0] for address in asked} == {url}


def named(page: Page) -> list[str]:
    return page.locator("#t-all tbody th").all_inner_texts()


def sorted_by(page: Page, title: str) -> str | None:
    return page.locator("#t-all thead th", has_text=title).first.get_attribute("aria-sort")


def test_sorts_by_click_with_the_missing_last(page: Page) -> None:
    head = page.locator("#t-all thead th").nth(2)
    head.click()
    page.wait_for_selector("#t-all th[aria-sort=descending]")
    assert named(page) == ["gamma", "delta", "epsilon", EVIL, "beta"]
    head.click()
    page.wait_for_selector("#t-all th[aria-sort=ascending]")
    assert named(page) == [EVIL, "epsilon", "delta", "gamma", "beta"]
    head.click()
    page.wait_for_selector("#t-all th[aria-sort]", state="detached")
    assert named(page) == NAMES


def test_sorts_by_keyboard_and_numbers_as_numbers(page: Page) -> None:
    page.locator("#t-all thead [role=button][aria-label^='k:']").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#t-all th[aria-sort=ascending]")
    assert sorted_by(page, "k") == "ascending"
    assert [name for name in named(page) if name in {"beta", "gamma"}] == ["beta", "gamma"]
    assert named(page)[0] == "beta"
    assert named(page)[-1] == "gamma"


def test_filters_by_name_and_by_choice(page: Page) -> None:
    page.get_by_label("Filter rows").fill("ta")
    assert named(page) == ["beta", "delta"]
    assert page.locator("#t-all .count").inner_text() == "2 of 5 rows"
    page.get_by_label("Filter rows").fill("60.1")  # numbers are not searched
    assert page.locator("#t-all tbody").inner_text() == "No row matches."
    page.get_by_label("Filter rows").fill("")
    page.locator("#t-all [data-choose=k]").select_option("64")
    assert named(page) == ["gamma"]


@pytest.mark.parametrize("page", [{"name": "ranked.html"}], indirect=True)
def test_the_filter_searches_text_and_no_markup(page: Page) -> None:
    names = page.locator("#t-words tbody th")
    find = page.get_by_label("Filter rows")
    for words, found in (
        ("button", []),
        ("type", []),
        ("lt;", []),
        ("& <img", [AND]),
        ("&amp;", ["&amp;"]),
        ("38", ["384"]),
        ("", [AND, "&amp;", "384"]),
    ):
        find.fill(words)
        assert names.all_inner_texts() == found
    for text, n in ((AND, 0), ("&amp;", 1)):
        page.locator("#t-words [data-choose=made]").select_option(text)
        assert names.all_inner_texts() == [[AND, "&amp;"][n]]
    assert page.locator("img").count() == 0


def test_columns_and_groups_can_be_left_out(page: Page) -> None:
    heads = page.locator("#t-all thead th")
    assert heads.count() == 16
    page.locator("#t-all").get_by_role("button", name="Columns").press("Enter")
    page.get_by_label("S", exact=False).and_(page.locator("#t-all [data-column='3']")).uncheck()
    assert heads.count() == 15
    group = page.locator("#t-all fieldset", has_text="task 11").locator("[data-group]")
    group.press("Space")
    assert heads.count() == 3
    page.locator("#t-all [data-column='5']").check()
    assert heads.count() == 4
    assert group.evaluate("box => box.indeterminate")
    small = page.locator("#t-all td small").first
    assert small.is_visible()
    page.locator("#t-all [data-ends]").uncheck()
    assert not small.is_visible()


def test_a_row_opens_by_keyboard_and_closes(page: Page) -> None:
    page.get_by_role("button", name=EVIL, exact=True).focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "beta"
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="beta")
    text = dialog.inner_text()
    for said in (EVIL, "</script>", "<b>bold</b>", COMMAND, "Somebody (2025)", "accuracy, task 11"):
        assert said in text
    assert dialog.locator("a").get_attribute("href") == "./results/a%20b.json"
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert page.evaluate("document.activeElement.textContent") == "beta"
    page.locator("#t-all tbody td").first.click()
    assert page.get_by_role("dialog", name=EVIL).is_visible()


@pytest.mark.parametrize("page", [{"name": "ranked.html"}], indirect=True)
def test_ranks_stand_before_whole_names(page: Page) -> None:
    first = page.locator("#t-all tbody tr").first
    assert first.locator("td").first.inner_text() == "1"
    names = page.locator("#t-all tbody th button")
    assert names.all_inner_texts() == LONG
    cut = "e => [e, ...e.querySelectorAll('*')].some(e => e.scrollWidth > e.clientWidth + 1)"
    assert not any(
        cell.evaluate(cut) for cell in page.locator("#t-all tbody :is(th, td.text)").all()
    )
    names.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name=LONG[1])
    facts = [text.strip() for text in dialog.locator("dl > *").all_inner_texts()]
    assert facts == ["rank", "2", "reference", LONG[0], "P", "40.00"]
    page.keyboard.press("Escape")
    page.locator("#t-all thead th").first.click()
    page.locator("#t-all thead th").first.click()
    page.wait_for_selector("#t-all th[aria-sort=descending]")
    assert named(page) == [LONG[1], LONG[0], LONG[2]]  # what has no rank is last
    page.locator("#t-all").get_by_role("button", name="Columns").click()
    page.locator("#t-all [data-column='0']").uncheck()
    assert named(page) == [LONG[1], LONG[0], LONG[2]]


def test_a_command_is_copied(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="beta", exact=True).press("Enter")
    page.get_by_role("button", name="Copy").press("Enter")
    page.get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == COMMAND


def test_the_scatter_tells_names_and_numbers(page: Page) -> None:
    mark = page.locator("#plot .mark-symbol path[aria-label*=onerror]").first
    mark.hover(force=True)
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert EVIL in tip.inner_text()
    assert "60.10" in tip.inner_text()
    assert page.locator("img").count() == 0


def test_another_figure_can_be_chosen_by_keyboard(page: Page) -> None:
    choice = page.get_by_label("Show", exact=True)
    choice.focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("#plot[data-drawn='1']")
    assert EVIL[:10] in (page.locator("#plot svg").text_content() or "")


def test_everything_is_reached_by_tab_and_the_first_is_a_skip_link(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    nameless = page.evaluate(
        """[...document.querySelectorAll('button, a, input, select, [tabindex="0"]')].filter(e =>
        !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).length"""
    )
    assert nameless == 0


REFERRED = pytest.mark.parametrize("page", [{"name": "referred.html"}], indirect=True)


def front_of(page: Page) -> dict[str, str]:
    cells = page.locator("#t-all tbody tr td:last-child").all_inner_texts()
    return dict(zip(named(page), cells, strict=True))


@REFERRED
def test_the_front_is_of_the_rows_shown_with_one_reference_and_k(page: Page) -> None:
    bound = {"gold labels (oracle)": "not measured"}
    first = {"base": "yes", "tuned": "yes", "worse": "no", "=other k": "yes"}
    assert front_of(page) == first | bound
    page.get_by_label("Filter rows").fill("w")
    assert front_of(page) == {"worse": "yes"}, "what beats it is not shown"


@REFERRED
def test_a_view_is_in_the_address_and_comes_back(page: Page) -> None:
    url = page.url
    assert "#" not in url
    page.locator("#t-all thead th", has_text="P").first.click()
    page.locator("#t-all [data-choose=k]").select_option("16")
    page.locator("#t-all").get_by_role("button", name="Columns").click()
    page.locator("#t-all [data-column='4']").uncheck()
    page.get_by_label("Filter rows").fill("e")
    view = "#t-all?find=e&sort=P%2Cdesc&hide=S&only.k=16"
    assert page.evaluate("location.href") == f"{url}{view}"
    shown = named(page)
    assert shown == ["gold labels (oracle)", "tuned", "worse", "base"]
    page.goto("about:blank")
    page.goto(f"{url}{view}")
    page.wait_for_selector("#t-all th[aria-sort=descending]")
    assert named(page) == shown
    assert page.get_by_label("Filter rows").input_value() == "e"
    assert page.locator("#t-all [data-choose=k]").input_value() == "16"
    assert "S" not in page.locator("#t-all thead th").all_inner_texts()
    assert page.evaluate("location.href") == f"{url}{view}"
    page.goto(url)


@REFERRED
def test_the_view_can_be_downloaded_as_csv_without_formulas(page: Page) -> None:
    page.locator("#t-all thead th", has_text="P").first.click()
    page.locator("#t-all [data-choose=reference]").select_option("base")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").press("Enter")
    assert download.value.suggested_filename == "all.csv"
    assert download.value.path().read_text(encoding="utf-8").splitlines() == [
        "encoder,reference,k,P,P low,P high,S,on the front",
        "gold labels (oracle),base,16,100.00,90.00,110.00,,not measured",
        "tuned,base,16,70.00,60.00,80.00,40.00,yes",
        "worse,base,16,60.00,50.00,70.00,30.00,no",
        "'=other k,base,4,55.00,45.00,65.00,30.00,yes",
    ]


@REFERRED
def test_an_embedded_page_shows_its_tables_alone(page: Page) -> None:
    assert page.locator("footer").is_visible()
    url = page.url
    page.goto(f"{url}?embed=1")
    assert page.locator("#t-all").is_visible()
    for part in ("header.bar", "footer", "#notes"):
        assert not page.locator(part).is_visible(), part
    page.goto(url)


PHONE = {"viewport": {"width": 375, "height": 720}, "has_touch": True, "is_mobile": True}


@pytest.mark.parametrize("page", [PHONE], indirect=True)
def test_on_a_phone_only_tables_and_commands_scroll_sideways(page: Page) -> None:
    wide, shown = page.locator("pre").evaluate("e => [e.scrollWidth, e.clientWidth]")
    assert wide > shown, "the command is longer than the screen"
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    table = page.locator("#t-all .scroll")
    wide, shown = table.evaluate("e => [e.scrollWidth, e.clientWidth]")
    assert wide > shown
    assert page.locator("#plot svg").evaluate("e => e.getBoundingClientRect().width") <= 375
    page.get_by_role("button", name="beta", exact=True).tap()
    assert page.get_by_role("dialog", name="beta").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 375


BROKEN = """() => [...document.querySelectorAll('#t-all td.text')].flatMap((cell) => {
  const range = document.createRange(), text = cell.firstChild;
  return [...(text?.data ?? '').matchAll(/\\w+/g)].filter((word) => {
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return range.getClientRects().length > 1;
  }).map((word) => word[0]);
})"""


@pytest.mark.parametrize("page", [{**PHONE, "name": "referred.html"}], indirect=True)
def test_on_a_phone_no_word_of_a_cell_breaks(page: Page) -> None:
    assert "not measured" in page.locator("#t-all td.text").all_inner_texts()
    assert page.evaluate(BROKEN) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 375


LUMINANCE = """(selector) => {
  const light = (colour) => {
    const canvas = document.createElement('canvas').getContext('2d');
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  };
  const text = light(getComputedStyle(document.querySelector(selector)).color);
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return [paper, (Math.max(text, paper) + 0.05) / (Math.min(text, paper) + 0.05)];
}"""


@pytest.mark.parametrize("page", [{"color_scheme": "dark"}], indirect=True)
def test_dark_follows_the_system_and_the_button(page: Page) -> None:
    for is_dark in (True, False):
        button = page.get_by_role("button", name=f"{'Light' if is_dark else 'Dark'} colours")
        assert button.get_attribute("aria-pressed") is None  # it says what it switches to
        for selector in ("body", ".note", "nav a", "td small", ".count", "thead th"):
            paper, contrast = page.evaluate(LUMINANCE, selector)
            assert (paper < 0.1) == is_dark
            assert contrast >= 4.5, selector
        button.press("Enter")
    assert page.get_by_role("button", name="Light colours").inner_text() == "Light"
    page.reload()
    assert page.get_by_role("button", name="Light colours").is_visible()  # as it was left


@pytest.mark.parametrize("page", [{"name": "many.html"}], indirect=True)
def test_many_encoders_sort_at_once(page: Page, folder: Path) -> None:
    assert (folder / "many.html").stat().st_size < 3_000_000
    took = page.evaluate(
        """async () => {
          const body = document.querySelector('#t-all tbody');
          const drawn = new Promise((done) =>
            new MutationObserver(done).observe(body, { childList: true }));
          const start = performance.now();
          document.querySelectorAll('#t-all thead th')[3].click();
          await drawn;
          document.body.offsetHeight;
          return performance.now() - start;
        }"""
    )
    assert took < 1000  # 200 where nothing else runs
    first = page.locator("#t-all tbody tr").first.locator("td").nth(2).inner_text()
    assert float(first) == pytest.approx(100, abs=0.1)
