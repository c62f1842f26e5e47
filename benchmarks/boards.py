"""A board of many encoders: how long it takes to build, how large its page is, how fast it sorts.

    python benchmarks/boards.py [--encoders 500] [--own] [--folder DIR] [--profile FILE]

The results are made up, in the shape of those that evaluation makes: the tasks of `--suite full`
with their numbers of queries, all values per query, what was retrieved. Every encoder has a skill
and every query its own difficulty, so that encoders correlate as real ones do. All but the first
are measured by the first, or with `--own` each by itself. A folder that is there is taken as it is;
one with 500 encoders takes 1.1 GB.

Seconds are those of the CPU, of all threads together, which other work on the machine moves less
than the clock. The first sort is that of the widest table in headless Chromium, where it and
playwright are there: until the browser has painted the sorted rows.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from polarity_bench.boards import board as boards
from polarity_bench.boards import build
from polarity_bench.boards.board_folder import open_board
from polarity_bench.boards.config import FILE
from polarity_bench.compare import encoder_ranks
from polarity_bench.encoders.base import EncoderId
from polarity_bench.metrics import polarity, similarity
from polarity_bench.metrics.correlation import correlate
from polarity_bench.render.html import board_page
from polarity_bench.results.result_files import Result, ResultKey, read_results, write_result
from polarity_bench.scores import WEIGHTINGS, Score, ScoreKey
from polarity_bench.tasks.types.polarity.scoring import derived
from polarity_bench.tasks.types.sts import sts
from polarity_bench.values import BoolArray, FloatArray

K = 16
POLARITY = {"emotion": 2000, "sarcastic-headlines": 2767, "sst2": 872, "tweeteval-irony": 784}
PHENOMENA = (
    *("antonym", "concession", "intensifier", "irony"),
    *("negation", "neutral connective", "valence shifter"),
)
N_TWINS, N_TOPICS = 305, 10
TRANSFER = {
    "cr": 3775,
    "mpqa": 10606,
    "mr": 10662,
    "mrpc": 1725,
    "sick-e": 4927,
    "sst2-transfer": 1821,
    "sst5": 2210,
    "subj": 10000,
    "trec": 500,
}
RELATEDNESS = {"sick-r": 4927, "stsb-relatedness": 1379}
STS = {
    "sts12": {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "OnWN": 750, "SMTnews": 399},
    "sts13": {"FNWN": 189, "headlines": 750, "OnWN": 561},
    "sts14": {"deft-forum": 450, "deft-news": 300, "headlines": 750, "images": 750, "OnWN": 750}
    | {"tweet-news": 750},
    "sts15": {"answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750}
    | {"images": 750},
    "sts16": {"answer-answer": 254, "headlines": 249, "plagiarism": 230, "postediting": 244}
    | {"question-question": 209},
    "stsb": {"test": 1379},
}
ENVIRONMENT = {
    "python": "3.11.7",
    "platform": "Linux-6.18.44-x86_64-with-glibc2.36",
    "command": "polarity-bench run --suite full --model encoder --output results",
    "commit": "0123456789ab",
    "polarity-bench": "0.1.0",
    "mteb": "2.26.24",
    "sentence-transformers": "6.2.0",
    "transformers": "5.23.0",
    "torch": "2.13.0+cpu",
    "numpy": "2.4.6",
    "device": "cpu",
}
Values = dict[ScoreKey, FloatArray]
Made = tuple[dict[ScoreKey, Score], dict[str, NDArray[Any]], dict[str, int]]


# Results


@dataclass(frozen=True)
class Someone:
    """An encoder, how good it is, from -1 to 1, and whom it is measured by."""

    id: EncoderId
    skill: float
    reference: EncoderId | None
    seed: int


def encoders(n: int, *, own: bool) -> list[Someone]:
    skills = np.random.default_rng(1).uniform(-1, 1, n)
    ids = [EncoderId(f"organisation-{i % 40}/encoder-{i:03}", f"{i:016x}") for i in range(n)]
    return [
        Someone(each, float(skill), None if own or i == 0 else ids[0], i)
        for i, (each, skill) in enumerate(zip(ids, skills, strict=True))
    ]


def write_board(folder: Path, n: int, *, own: bool, kinds: Mapping[str, str]) -> None:
    """Write a board of made-up results on some of the tasks, whose kinds are given."""
    folder.mkdir(parents=True)
    everyone = encoders(n, own=own)
    for place, (task, kind) in enumerate(kinds.items()):
        make = _MADE_BY[kind](task, np.random.default_rng([place, 7]))
        for someone in everyone:
            scores, arrays, counts = make(someone)
            result = Result(
                task=task,
                kind=kind,
                result_name="".join(map(str.title, task.split("-"))),
                version=1,
                languages=("eng-Latn",),
                main_score=_MAIN[kind],
                key=ResultKey(
                    task=f"{place:016x}",
                    data=f"{place + 100:016x}",
                    encoder=someone.id,
                    reference=someone.reference if kind == "polarity" else None,
                    protocol=_protocol(task, kind),
                ),
                scores=scores,
                counts=counts,
                experiment="reference_of-all" if kind == "polarity" and someone.reference else "",
                seconds={"embed": 1.0, "score": 1.0},
                environment=ENVIRONMENT,
                date=1.7e9 + place,
                arrays=arrays,
            )
            write_result(result, folder / "results")
        print(f"wrote {task}", file=sys.stderr, flush=True)


def task_kinds() -> dict[str, str]:
    return (
        dict.fromkeys(["contrast", *POLARITY], "polarity")
        | dict.fromkeys(TRANSFER, "transfer")
        | dict.fromkeys(RELATEDNESS, "relatedness")
        | dict.fromkeys(STS, "sts")
    )


def _protocol(task: str, kind: str) -> dict[str, Any]:
    name = {"polarity": "polarity-retrieval", "transfer": "senteval-sklearn"}.get(kind, kind)
    said: dict[str, Any] = {"name": name, "version": 1}
    said |= {"k": [K]} if kind == "polarity" else {}
    said |= {"kfold": 10, "seed": 1111} if kind == "transfer" else {}
    return said | ({"intervals": "pairs within topic"} if task == "contrast" else {})


def _polarity(task: str, generator: np.random.Generator) -> Callable[[Someone], Made]:
    """Return what makes results of a task; what all of them share is drawn once."""
    is_twins = task == "contrast"
    n = 2 * N_TWINS if is_twins else POLARITY[task]
    ease = generator.normal(0, 1, n)
    near = generator.normal(0.5, 0.1, n)
    labels = np.tile([0, 1], n)[:n]
    shared: Values = {ScoreKey("polarity_chance"): np.full(n, 0.5)}
    shared[ScoreKey("similarity_chance")] = near - 0.4
    for weighting in WEIGHTINGS:
        shared[ScoreKey("similarity_reference", K, weighting)] = near
        shared[ScoreKey("similarity_oracle", K, weighting)] = near - 0.05
        shared[ScoreKey("polarity_oracle", K, weighting)] = np.full(n, 1.0)
    units = np.repeat(np.arange(N_TWINS), 2)
    phenomena = np.array(PHENOMENA)[units % len(PHENOMENA)]

    def make(someone: Someone) -> Made:
        own = np.random.default_rng([someone.seed, n])
        chance = 1 / (1 + np.exp(-(0.4 + 1.2 * someone.skill + ease)))
        hits: BoolArray = own.random((n, K)) < chance[:, None]
        lost = 0 if someone.seed == 0 else 0.05 + 0.03 * someone.skill
        cosine = near[:, None] - lost + own.normal(0, 0.02, (n, K))
        values = dict(shared)
        for weighting in WEIGHTINGS:
            p = polarity.polarity(hits, weighting)
            found = np.where(hits, labels[:, None], 1 - labels[:, None])
            values[ScoreKey("polarity", K, weighting)] = p
            values[ScoreKey("similarity", K, weighting)] = similarity.similarity(cosine, weighting)
            vote = polarity.neighbour_vote(labels, found, weighting)
            values[ScoreKey("knn_accuracy", K, weighting)] = vote
            for part in PHENOMENA if is_twins else ():
                in_part = np.where(phenomena == part, p, np.nan)
                values[ScoreKey("polarity", K, weighting, part)] = in_part
        values[ScoreKey("overlap", K)] = own.integers(0, K + 1, n) / K
        scores = {key: _score(each) for key, each in values.items()}
        means = {key: np.array(score.mean) for key, score in scores.items()}
        for weighting in WEIGHTINGS:
            for metric in ("retention", "joint", "front"):
                mean = float(derived(means, metric, K, weighting))
                scores[ScoreKey(metric, K, weighting)] = _single(mean, n)
        scores[ScoreKey("sgts")] = Score.single(someone.skill / 2, 20_000)
        arrays: dict[str, NDArray[Any]] = {str(k): v.astype(np.float32) for k, v in values.items()}
        arrays["retrieved_index"] = own.integers(0, 5 * n, (n, K), dtype=np.int32)
        arrays["retrieved_similarity"] = cosine.astype(np.float32)
        if is_twins:
            arrays["resampled_units"] = units.astype(np.int32)
            arrays["resampled_strata"] = (units % N_TOPICS).astype(np.int32)
        return scores, arrays, {"sources": 5 * n, "queries": n, "overlap": 0}

    return make


def _transfer(task: str, generator: np.random.Generator) -> Callable[[Someone], Made]:
    n = TRANSFER[task]
    label = generator.integers(0, 2, n).astype(np.int32)
    ease = generator.normal(0, 1, n)

    def make(someone: Someone) -> Made:
        own = np.random.default_rng([someone.seed, n])
        right = own.random(n) < 1 / (1 + np.exp(-(1.4 + someone.skill + ease)))
        mean = float(right.mean())
        scores = {
            ScoreKey("accuracy"): Score.single(round(mean, 4), n),
            ScoreKey("dev_accuracy"): Score.single(round(mean, 4), n),
            ScoreKey("exact_accuracy"): _score(right.astype(float)),
            ScoreKey("macro_f1"): _single(mean, n),
            ScoreKey("recall", part="negative"): _single(mean, n),
            ScoreKey("recall", part="positive"): _single(mean, n),
        }
        arrays = {
            "fold_accuracy": np.full(10, mean),
            "fold_regularization": np.full(10, 1.0),
            "prediction": np.where(right, label, 1 - label).astype(np.int32),
            "label": label,
        }
        return scores, arrays, {"all": n}

    return make


def _relatedness(task: str, generator: np.random.Generator) -> Callable[[Someone], Made]:
    n = RELATEDNESS[task]
    gold = generator.uniform(1, 5, n).round(1)

    def make(someone: Someone) -> Made:
        prediction = gold + _noise(someone, n)
        found = correlate(prediction, gold)
        scores = {
            ScoreKey("pearson"): Score.single(found.pearson, n),
            ScoreKey("spearman"): _single(found.spearman, n),
            ScoreKey("mse"): Score.single(float(np.mean((prediction - gold) ** 2)), n),
            ScoreKey("dev_pearson"): Score.single(found.pearson, n),
        }
        return scores, {"prediction": prediction, "gold": gold}, {"train": 4500, "test": n}

    return make


def _sts(task: str, generator: np.random.Generator) -> Callable[[Someone], Made]:
    counts = STS[task]
    gold = {name: generator.uniform(0, 5, n).round(1) for name, n in counts.items()}
    n = sum(counts.values())

    def make(someone: Someone) -> Made:
        noise = np.split(_noise(someone, n), np.cumsum(list(counts.values()))[:-1])
        cosine = {name: (gold[name] + noise[i]) / 10 for i, name in enumerate(gold)}
        scores = {
            ScoreKey(metric, part=part): Score.single(getattr(each, metric), each.n)
            for part, each in sts(cosine, gold).items()
            for metric in ("spearman", "pearson")
        }
        scores[_MAIN["sts"]] = _single(scores[_MAIN["sts"]].mean, n)
        arrays = {
            "cosine": np.concatenate(list(cosine.values())),
            "gold": np.concatenate(list(gold.values())),
        }
        return scores, arrays, counts

    return make


_MADE_BY: Mapping[str, Callable[[str, np.random.Generator], Callable[[Someone], Made]]] = {
    "polarity": _polarity,
    "transfer": _transfer,
    "relatedness": _relatedness,
    "sts": _sts,
}
_MAIN = {
    "polarity": ScoreKey("joint", K),
    "transfer": ScoreKey("accuracy"),
    "relatedness": ScoreKey("pearson"),
    "sts": ScoreKey("spearman", part="all"),
}


def _noise(someone: Someone, n: int) -> FloatArray:
    own = np.random.default_rng([someone.seed, n])
    return np.asarray(own.normal(0, 1.5 - someone.skill, n))


def _score(values: FloatArray) -> Score:
    known = values[~np.isnan(values)]
    mean, std = float(known.mean()), float(known.std())
    half = 1.96 * std / len(known) ** 0.5
    return Score(mean, std, (mean - half, mean + half), len(known))


def _single(mean: float, n: int) -> Score:
    return Score.single(mean, n, (mean - 0.01, mean + 0.01))


# Times


class Clock:
    """Seconds of the CPU and of the wall, by part."""

    def __init__(self) -> None:
        self.parts: dict[str, tuple[float, float]] = {}

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        spent = time.process_time() - cpu, time.perf_counter() - wall
        before = self.parts.get(part, (0.0, 0.0))
        self.parts[part] = before[0] + spent[0], before[1] + spent[1]

    def follow(self, module: object, name: str, part: str) -> None:
        """Time every call of a function from here on."""
        made = getattr(module, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.of(part):
                return made(*args, **kwargs)

        setattr(module, name, timed)


def built(folder: Path) -> tuple[Clock, dict[str, bytes], list[int]]:
    """Build a board's files; returns what it took, them, and the number of columns by table."""
    from polarity_bench.render.figures import figure_files

    clock = Clock()
    setattr(boards, "read_results", lambda found: list(read_results(found)))  # noqa: B010
    clock.follow(boards, "read_results", "reading results")
    clock.follow(encoder_ranks.Standings, "of", "standings: who can be told apart")
    clock.follow(figure_files, "figure_files", "figures")
    clock.follow(board_page, "page_html", "page")
    clock.follow(build, "render", "markdown")
    clock.follow(build, "board_csv", "csv")
    clock.follow(build, "board_latex", "latex")
    with clock.of("all"):
        opened = open_board(folder)
        rendered = build.rendered(opened, with_report=figure_files.can_draw())
    return clock, rendered, [len(table.columns) for table in opened.board.tables]


@dataclass(frozen=True)
class Sorted:
    """Milliseconds until a page can be sorted, of its first sort, and of that on the CPU."""

    ready: float
    sort: float
    on_cpu: float


def first_sort(html: bytes) -> Sorted | None:
    """Sort the widest table of a page by its last column; None without a browser."""
    chromium = shutil.which("chromium")
    if find_spec("playwright") is None or chromium is None:
        return None
    from playwright.sync_api import CDPSession, sync_playwright

    def spent(session: CDPSession) -> float:
        found = session.send("Performance.getMetrics")["metrics"]
        return next(float(each["value"]) for each in found if each["name"] == "TaskDuration")

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        file = Path(folder) / "index.html"
        file.write_bytes(html)
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shown = browser.new_page()
        session = shown.context.new_cdp_session(shown)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        start = time.perf_counter()
        shown.goto(file.as_uri())
        shown.wait_for_selector("th.dt-orderable-asc", timeout=120_000)
        ready = time.perf_counter() - start
        shown.wait_for_timeout(3_000)  # until the figure is drawn
        before = spent(session)
        taken = float(shown.evaluate(_SORT))
        on_cpu = spent(session) - before
        browser.close()
    return Sorted(1000 * ready, taken, 1000 * on_cpu)


_SORT = """async () => {
  const tables = [...document.querySelectorAll("table.numbers-table")];
  const widest = tables.sort((a, b) =>
    b.querySelectorAll("thead th").length - a.querySelectorAll("thead th").length)[0];
  const heads = widest.querySelectorAll("thead th.dt-orderable-asc");
  const head = heads[heads.length - 1];
  const before = performance.now();
  head.click();
  widest.getBoundingClientRect();
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - before;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoders", type=int, default=500)
    parser.add_argument("--own", action="store_true", help="Each is its own reference.")
    parser.add_argument("--tasks", help="Only these, by commas.")
    parser.add_argument("--folder", type=Path, help="Of the board; kept, and taken if it is there.")
    parser.add_argument("--page", type=Path, help="Write the page to this file.")
    parser.add_argument("--profile", type=Path, help="Write what cProfile finds to this file.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary) / "board"
        if not folder.exists():
            setattr(os, "fsync", lambda _: None)  # noqa: B010 - they need not outlive a power cut
            write_board(folder, asked.encoders, own=asked.own, kinds=task_kinds())
        only = asked.tasks.split(",") if asked.tasks else list(task_kinds())
        said = "\n".join(['title = "Many encoders"', f"tasks = {json.dumps(only)}", ""])
        (folder / FILE).write_text(said)
        profile = cProfile.Profile()
        if asked.profile:
            profile.enable()
        clock, files, columns = built(folder)
        profile.disable()
        if asked.profile:
            profile.dump_stats(asked.profile)
    rows = [[part, *seconds] for part, seconds in clock.parts.items()]
    print(f"{asked.encoders} encoders, {sum(columns)} columns in {len(columns)} tables\n")
    print(tabulate(rows, ["", "CPU seconds", "seconds"], "pipe", floatfmt=".2f"), "\n")
    sizes = [[name, len(content) / 1e6] for name, content in files.items()]
    print(tabulate(sizes, ["file", "MB"], "pipe", floatfmt=".2f"))
    html = files.get(build.PAGE)
    if asked.page and html:
        asked.page.write_bytes(html)
    if html and (found := first_sort(html)):
        print(
            f"\nThe page is ready after {found.ready:.0f} ms; its first sort takes "
            f"{found.sort:.0f} ms, {found.on_cpu:.0f} ms of the CPU."
        )


if __name__ == "__main__":
    main()
