"""Draw the figures of the documentation.

    python docs/make_figures.py

Trains an axis encoder on `contrast`, which takes half a minute, and draws what all-MiniLM-L6-v2 and
that encoder retrieve for one query: `figures/p-and-s.svg` and `figures/dial.svg`. Writes the page
`turn-the-dial.html` of an encoder that is trained by the command in `dial.md`. Copies the front of
the board `axis`, and takes screenshots of that board with the installed Chromium.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from playwright.sync_api import sync_playwright

from polarity_bench import Job, load_encoder, load_task, train
from polarity_bench.metrics.polarity import rank_weights
from polarity_bench.training import Axis
from polarity_bench.values import FloatArray

HERE = Path(__file__).parent
QUERY, LABEL, K = "The soup was cold and the waiter ignored us.", "negative", 16
COLOURS = {True: "#2f5fb3", False: "#e08a1e"}
FONT = "font-family='system-ui, sans-serif'"


class Neighbour(NamedTuple):
    """A retrieved sentence, and its cosine with the query under the reference."""

    text: str
    label: str
    cosine: float


def retrieved(
    query: FloatArray, sources: FloatArray, cosines: FloatArray, task: Any
) -> list[Neighbour]:
    """Return the k nearest sources, nearest first."""
    nearest = np.argsort(-(sources @ query), kind="stable")[:K]
    texts, labels = task.source.texts, task.source.labels
    return [Neighbour(texts[i], labels[i], float(cosines[i])) for i in nearest]


def panel(title: str, neighbours: list[Neighbour], left: float) -> str:
    """Draw the query in the middle and its neighbours around it, by cosine distance."""
    x, y, scale = left + 200, 225, 215
    weights = rank_weights(K, "linear")
    same = [each.label == LABEL for each in neighbours]
    p = 100 * float(np.dot(weights, same))
    s = 100 * float(np.dot(weights, [each.cosine for each in neighbours]))
    rings = "".join(
        f"<circle cx='{x}' cy='{y}' r='{scale * d:.0f}' fill='none' stroke='#d5d9e0'/>"
        f"<text x='{x}' y='{y - scale * d - 4:.0f}' fill='#77808f' font-size='11' "
        f"text-anchor='middle'>{1 - d:.1f}</text>"
        for d in (0.3, 0.5, 0.7)
    )
    dots = []
    for rank, (each, is_same) in enumerate(zip(neighbours, same, strict=True)):
        angle = 2.4 * rank + 0.6  # the golden angle spreads the ranks around the circle
        at = scale * (1 - each.cosine)
        place = f"cx='{x + at * math.cos(angle):.1f}' cy='{y + at * math.sin(angle):.1f}'"
        label = f"<title>{escape(each.text)} ({each.label}, {each.cosine:.2f})</title>"
        dots.append(f"<circle {place} r='8' fill='{COLOURS[is_same]}'>{label}</circle>")
    return (
        f"<text x='{x}' y='34' font-size='17' font-weight='600' text-anchor='middle'>{title}</text>"
        f"{rings}<circle cx='{x}' cy='{y}' r='5' fill='#1b1f27'/>{''.join(dots)}"
        f"<text x='{x}' y='425' font-size='16' text-anchor='middle'>P {p:.0f}, S {s:.0f}</text>"
    )


def svg(width: int, height: int, body: str, text: str) -> str:
    """Return a whole SVG on a white card, so that it reads on light and dark pages."""
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img' "
        f"aria-label='{escape(text, quote=True)}' {FONT} fill='#1b1f27'>"
        f"<rect width='{width}' height='{height}' rx='12' fill='#ffffff'/>{body}</svg>\n"
    )


def draw_p_and_s(before: list[Neighbour], after: list[Neighbour]) -> str:
    """Draw both panels, with a legend."""
    legend = (
        f"<text x='400' y='458' font-size='13' text-anchor='middle'>Query: {escape(QUERY)} "
        "Circles: cosine with the query under all-MiniLM-L6-v2.</text>"
        f"<circle cx='262' cy='480' r='6' fill='{COLOURS[True]}'/>"
        "<text x='274' y='485' font-size='13'>same polarity</text>"
        f"<circle cx='402' cy='480' r='6' fill='{COLOURS[False]}'/>"
        "<text x='414' y='485' font-size='13'>opposite polarity</text>"
    )
    body = panel("all-MiniLM-L6-v2", before, 0) + panel("with a polarity axis", after, 400)
    return svg(800, 505, body + legend, "The 16 nearest sentences of one query, two encoders")


def draw_dial(rankings: dict[str, list[Neighbour]]) -> str:
    """Draw the first five ranks at three strengths, as columns."""
    parts = [
        (
            "<text x='470' y='32' font-size='15' text-anchor='middle'>"
            f"{escape(QUERY)} (negative)</text>"
        )
    ]
    for column, (title, neighbours) in enumerate(rankings.items()):
        x = 20 + 310 * column
        parts.append(f"<text x='{x}' y='68' font-size='15' font-weight='600'>{title}</text>")
        for row, each in enumerate(neighbours[:5]):
            y = 84 + 44 * row
            colour = COLOURS[each.label == LABEL]
            text = each.text if len(each.text) < 40 else f"{each.text[:38]}…"
            parts.append(
                f"<rect x='{x}' y='{y}' width='290' height='36' rx='6' fill='{colour}' "
                f"fill-opacity='0.14'/>"
                f"<rect x='{x}' y='{y}' width='5' height='36' fill='{colour}'/>"
                f"<text x='{x + 14}' y='{y + 23}' font-size='12'>{escape(text)}</text>"
            )
    return svg(940, 320, "".join(parts), "Five nearest sentences at strengths 1, 0 and -1")


def _model(name: str) -> Any:
    """Return the sentence-transformers model of an encoder."""
    encoder: Any = load_encoder(name)
    return encoder.model


def write_dial_page(file: Path) -> None:
    """Train an axis with the command line, as the page names the command, and write its page."""
    train_it = ["train", "axis", "--model", "minilm", "--task", "contrast", "--output", "runs/axis"]
    show_it = ["explain", "--model", "runs/axis", "--offline", "--html", str(file)]
    with tempfile.TemporaryDirectory() as folder:
        for words in (train_it, show_it):
            command = [sys.executable, "-m", "polarity_bench", *words]
            subprocess.run(command, cwd=folder, check=True)  # noqa: S603


def photograph_board(page: Path, folder: Path) -> None:
    """Take a screenshot of a board's first table in the light and in the dark theme."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for theme in ("light", "dark"):
            view = browser.new_page(
                viewport={"width": 1280, "height": 720}, color_scheme=theme, reduced_motion="reduce"
            )
            view.goto(page.as_uri())
            view.wait_for_selector("table.dataTable")
            view.evaluate("document.querySelector('h2').scrollIntoView()")
            view.screenshot(path=folder / f"board-{theme}.png")
        browser.close()


def main() -> None:
    """Train the encoder, retrieve, draw, and photograph the board."""
    task: Any = load_task("contrast")
    texts = list(task.source.texts)
    base = _model("minilm")
    with tempfile.TemporaryDirectory() as folder:
        train(Job(Axis(), model="minilm", task="contrast", output=Path(folder) / "axis"))
        dial = _model(f"{folder}/axis")
        documents = dial.encode_document(texts)
        queries = {a: dial.encode_query(QUERY, strength=a) for a in (1.0, 0.0, -1.0)}
    unit = base.encode([QUERY, *texts], normalize_embeddings=True)
    cosines = unit[1:] @ unit[0]

    found = {a: retrieved(query, documents, cosines, task) for a, query in queries.items()}
    titles = {1.0: "strength 1: same polarity", 0.0: "strength 0: as before"}
    titles[-1.0] = "strength -1: opposite polarity"
    figures = HERE / "figures"
    before = retrieved(unit[0], unit[1:], cosines, task)
    (figures / "p-and-s.svg").write_text(draw_p_and_s(before, found[1.0]), encoding="utf-8")
    dial_text = draw_dial({titles[a]: ranking for a, ranking in found.items()})
    (figures / "dial.svg").write_text(dial_text, encoding="utf-8")
    write_dial_page(HERE / "turn-the-dial.html")

    board = HERE.parent / "leaderboards" / "axis"
    shutil.copy(board / "figures" / "sst2-p-against-s.svg", figures / "front.svg")
    photograph_board(board / "index.html", figures)


if __name__ == "__main__":
    main()
