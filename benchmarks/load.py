"""Measure time and memory of large inputs: many sources, items of a sweep, encoders, and labels.

    python benchmarks/load.py --static FOLDER [sources sweep board labels] [--small]

Each command runs in a process of its own, on made-up data in a temporary folder. The tables show
the time on the clock, the seconds of all CPU cores, and the greatest resident memory of the
process, of which memory-mapped files are a part. CPU seconds change less with other work on the
machine. The script writes `docs/load.json`, the tables between the markers of
`docs/performance.md`, and the figure `docs/figures/load.svg`. `--small` measures a hundredth of
each size, but at least 20, and writes nothing.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from boards import write_board  # beside this script
from performance import machine, write
from tabulate import tabulate

DOCS = Path(__file__).parent.parent / "docs"
FIGURE = DOCS / "figures" / "load.svg"
SOURCES, QUERIES = (20_000, 200_000, 2_000_000), 1_000
ITEMS, LEFT = (1_000, 10_000), 10
ENCODERS = (100, 1_000)
LABELS, OF_LABELS = (10, 100, 1_000), (20_000, 5_000)
TITLES = ("clock, s", "CPU, s", "memory, GiB")
Row = dict[str, Any]
WORDS = """
the a this that our my soup film hotel phone train book song game coffee room staff driver ending
camera screen was is felt seemed looked stayed became arrived cold warm slow quick loud quiet bright
dull fresh stale kind rude cheap dear early late clean dirty long short and but so because while
very rather quite never always again today yesterday there here
"""


_LAUNCHER = """
import os, subprocess, sys, time
begun = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=sys.stderr)
_, status, used = os.wait4(process.pid, 0)
print(time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20)
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""Program that runs a command. A process counts the memory of the one that starts it as its own."""


def measured(folder: Path, *words: str) -> dict[str, float]:
    """Run a command in a folder with a cache of its own; return what it took, by title.

    Raises:
        SystemExit: If the command fails.
    """
    environment = os.environ | {"POLARITY_BENCH_CACHE": str(folder / "cache")}
    environment["HF_HUB_OFFLINE"] = "1"
    command = [sys.executable, "-c", _LAUNCHER, sys.executable, "-m", "polarity_bench", *words]
    with (folder / "log").open("wb") as log:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, check=False
        )
    if done.returncode:
        sys.exit(f"{' '.join(words)}:\n{(folder / 'log').read_text()}")
    taken = map(float, done.stdout.split())
    found = {title: round(value, 2) for title, value in zip(TITLES, taken, strict=True)}
    print(" ".join(words), found, file=sys.stderr, flush=True)
    return found


# Tasks


def write_task(folder: Path, name: str, n: tuple[int, int], labels: int, *, parts: bool) -> None:
    """Write a task of made-up short texts.

    Args:
        folder: Folder of the task files.
        name: Name of the task.
        n: Number of sources and of queries.
        labels: Number of labels, each with the same number of texts.
        parts: Whether P is also reported by label.
    """
    draw, vocabulary = random.Random(0), WORDS.split()  # noqa: S311
    for part, n_rows in zip(("source", "query"), n, strict=True):
        with (folder / f"{name}-{part}.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["text", "label", "part"])
            for i in range(n_rows):
                words = draw.choices(vocabulary, k=draw.randint(5, 12))
                rows.writerow([" ".join([*words, f"{part}{i}"]), i % labels, f"of {i % labels}"])
    names = "\n".join(f'{i} = "label {i}"' for i in range(labels))
    splits = "\n".join(f'[splits.{p}]\npath = "{name}-{p}.csv"' for p in ("source", "query"))
    (folder / f"{name}.toml").write_text(
        f'name = "{name}"\nkind = "polarity"\ntitle = "Load"\n\n[labels]\n{names}\n\n{splits}\n\n'
        '[format]\ncolumns = ["part"]\n\n[protocol]\nk = 16\n'
        + ('breakdown = "part"\n' if parts else ""),
        encoding="utf-8",
    )


def run_of(folder: Path, name: str, output: str, encoder: str) -> list[str]:
    words = ["run", "--task-dir", str(folder), "--tasks", name, "--model", encoder]
    return [*words, "--output", output]


def sources(folder: Path, sizes: Sequence[int], encoder: str) -> list[Row]:
    """Evaluate an encoder on tasks of many sources, first without and then with stored vectors."""
    rows = []
    for n in sizes:
        write_task(folder, f"of-{n}", (n, QUERIES), 2, parts=False)
        for vectors in ("encoded", "stored"):
            words = run_of(folder, f"of-{n}", f"{vectors}-{n}", encoder)
            rows.append({"sources": n, "vectors": vectors, **measured(folder, *words)})
        # Each size encodes all of its texts.
        for file in (folder / "cache" / "embeddings").glob("*.sqlite*"):
            file.unlink()
    return rows


def labels(folder: Path, sizes: Sequence[int], encoder: str) -> list[Row]:
    """Evaluate an encoder on tasks of many labels, without and with P by label; build a board."""
    rows = []
    for n in sizes:
        for title, parts in (("", False), (", P by label", True)):
            name = f"of-{n}{'-parts' * parts}"
            write_task(folder, name, OF_LABELS, n, parts=parts)
            done = measured(folder, *run_of(folder, name, f"runs/{name}", encoder))
            rows.append({"labels": n, "command": f"`run`{title}", **done})
        page = folder / "runs" / name / "index.html"
        (page.parent / "board.toml").touch()
        built = measured(folder, "leaderboard", "build", str(page.parent))
        size = {"page, MB": round(page.stat().st_size / 1e6, 2)}
        rows.append({"labels": n, "command": "`leaderboard build`", **built, **size})
    return rows


# A sweep


def sweep(folder: Path, sizes: Sequence[int], encoder: str) -> list[Row]:
    """Plan a sweep, and go on with one whose items are all done, or all but a few."""
    rows = []
    for n in sizes:
        grid = folder / f"of-{n}.toml"
        seeds = ", ".join(map(str, range(n // 10)))
        grid.write_text(
            f'tasks = ["contrast"]\n\n[all]\nmodel = "{encoder}"\ntask = "contrast"\n'
            'examples = 64\nepochs = 1\n\n[[train]]\nloss = ["triplet", "mnrl"]\n'
            f"rate = [1e-5, 2e-5, 3e-5, 4e-5, 5e-5]\nseed = [{seeds}]\n",
            encoding="utf-8",
        )
        make = ["sweep", str(grid), "-o", str(folder / f"sweep-{n}")]

        def add(command: str, *words: str, n: int = n) -> None:
            rows.append({"items": n, "command": command, **measured(folder, *words)})

        add("`sweep --dry-run`, nothing done", *make, "--dry-run")
        write_outcomes(grid, folder / f"sweep-{n}", LEFT)
        add(f"`sweep --dry-run`, {LEFT} left", *make, "--dry-run")
        write_outcomes(grid, folder / f"sweep-{n}", 0)
        add("`sweep`, all done", *make)
        add("`sweep status`", "sweep", "status", "-o", str(folder / f"sweep-{n}"))
        add("`leaderboard`", "leaderboard", str(folder / f"sweep-{n}"))
    return rows


def write_outcomes(grid: Path, folder: Path, n_left: int) -> None:
    """Write made-up results of all items of a grid but the last ones, as if they had been run."""
    from polarity_bench import EncoderOptions, evaluate, load_encoder
    from polarity_bench.encoders.base import EncoderId
    from polarity_bench.results.result_files import write_result
    from polarity_bench.sweeps.grid import read_grid
    from polarity_bench.sweeps.items import Evaluation, Setup
    from polarity_bench.sweeps.state_files import ItemOutcome, SweepState

    setup = Setup(folder, EncoderOptions())
    items = read_grid(grid, setup).items
    state = SweepState(folder)
    state.make_folders()
    made = evaluate("random", "contrast")
    base = load_encoder(items[0].model).id
    for item in items[: len(items) - n_left]:
        if state.outcome(item.digest) is None:
            is_base = isinstance(item, Evaluation)
            encoder = base if is_base else EncoderId(item.job.output.name, item.digest)  # type: ignore[union-attr]
            key = replace(made.key, encoder=encoder, reference=None if is_base else base)
            result = replace(made, key=key, arrays={})
            path = write_result(result, folder / "results")
            result = replace(result, path=path)
            state.record(item.digest, ItemOutcome.of_results(item.name, [result], folder))


# A board


def board(folder: Path, sizes: Sequence[int], encoder: str) -> list[Row]:  # noqa: ARG001
    """Build and check boards of many encoders on three tasks, and compare two of the encoders."""
    rows = []
    for n in sizes:
        here = folder / f"of-{n}"
        write_board(here, n, own=False, kinds=dict.fromkeys(THREE, "polarity"))
        (here / "board.toml").touch()
        one, other = ("organisation-1/encoder-001", "organisation-2/encoder-002")
        commands = {
            "`leaderboard build`": ["leaderboard", "build", str(here)],
            "`leaderboard check`": ["leaderboard", "check", str(here)],
            "`compare` of two": ["compare", one, other, "--task", "sst2", "--results", str(here)],
        }
        for command, words in commands.items():
            rows.append({"encoders": n, "command": command, **measured(folder, *words)})
        rows[-3]["page, MB"] = round((here / "index.html").stat().st_size / 1e6, 2)
    return rows


THREE = ("contrast", "sst2", "tweeteval-irony")

SECTIONS: Mapping[str, tuple[Callable[..., list[Row]], tuple[int, ...]]] = {
    "sources": (sources, SOURCES),
    "sweep": (sweep, ITEMS),
    "board": (board, ENCODERS),
    "labels": (labels, LABELS),
}


# Output


def table_of(rows: Sequence[Row]) -> str:
    """Return a section's rows as a Markdown table."""
    titles = list(dict.fromkeys(title for row in rows for title in row))
    cells = [[row.get(title) for title in titles] for row in rows]
    forms = [",.1f" if title.endswith(", s") else ",.2f" for title in titles]
    return tabulate(cells, titles, "pipe", floatfmt=forms, intfmt=",", missingval="-")


def chart_of(rows: Sequence[Row]) -> Any:
    """Return a chart of CPU seconds and one of memory by the number of sources, all on log axes."""
    import altair as alt

    shown = [row | {"seconds": row["CPU, s"], "memory": row["memory, GiB"]} for row in rows]
    data = alt.InlineData(values=shown)
    x = alt.X("sources:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s", tickCount=4))
    colour = alt.Color("vectors:N", title="vectors", scale=alt.Scale(range=["#0072b2", "#c44f00"]))
    panels = [
        alt.Chart(data, width=260, height=220)
        .mark_line(point=True)
        .encode(x=x, y=alt.Y(f"{name}:Q", title=title, scale=alt.Scale(type="log")), color=colour)
        for name, title in (("seconds", "CPU seconds"), ("memory", "memory (GiB)"))
    ]
    return alt.hconcat(*panels).configure(background="white", font="sans-serif")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)} [default: all]")
    parser.add_argument("--static", required=True, help="folder of a model2vec encoder")
    parser.add_argument(
        "--small", action="store_true", help="a hundredth of each size, but at least 20"
    )
    options = parser.parse_args(arguments)
    file = DOCS / "load.json"
    for section in options.sections or SECTIONS:
        where = machine(on_gpu=False)
        measure, sizes = SECTIONS[section]
        if options.small:
            sizes = tuple(dict.fromkeys(max(20, size // 100) for size in sizes))
        with tempfile.TemporaryDirectory() as folder:
            rows = measure(Path(folder), sizes, options.static)
        print(f"{table_of(rows)}\n", flush=True)
        if options.small:
            continue
        stored = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        stored[section] = {"machine": where, "rows": rows}
        file.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
        write(section, f"{where}.\n\n{table_of(rows)}")
        if section == "sources":
            import vl_convert

            FIGURE.write_text(vl_convert.vegalite_to_svg(chart_of(rows).to_dict()), "utf-8")


if __name__ == "__main__":
    setattr(os, "fsync", lambda _: None)  # noqa: B010 - made-up results need not outlive a power cut
    main()
