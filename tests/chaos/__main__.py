"""Attack the commands and the readers, and print what held and what did not.

    python -m chaos [--short] [--seed N] [--only NAME …] [--fuzz SECONDS] [--write]

Run it with tests/ on the path, as `make chaos` does, on Linux as root: full disks are mounted. With
`--only`, only these commands, attacks and readers (`fuzz` means all of them) are chosen. With
`--write`, each figure goes to docs/reliability.json and to the table in docs/reliability.md as soon
as it is known, and other figures stay. With `--fuzz` and `--write`, a reader goes on after the
files that its figure counts, until it has had the seconds, so a long run can be stopped, continued
and split. The exit code is 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tabulate import tabulate

from chaos.attacks import ATTACKS, Bench, Figures
from chaos.children import can_trace, warm_up
from chaos.fuzz import Limit, fuzz, make_samples, readers
from chaos.subjects import SUBJECTS, make_template

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "reliability.md"
RECORD = PAGE.with_suffix(".json")
TRIALS = {"kill -9": 48, "failed write": 10, "full disk": 8, "bit flip": 12}
"""Attacks on each command: 240 trials with kills, every third of two, and 32 with workers."""
SHORT = {"kill -9": 2, "failed write": 1, "full disk": 0, "bit flip": 1}
"""The form in CI: no attack depends on time, on load, or on the right to mount a disk."""
_SLOW = {"sweep": 3, "sweep on Ray": 3}
"""How many times fewer trials these commands have: their processes import everything again."""
_LONG = {"sweep", "sweep on Ray", "train margins"}
"""Commands that the short form leaves out."""
_SECONDS, _FILES = 6.0, 20
"""Limits of a reader: time, and in the short form the number of files."""


def main() -> int:
    """Run the attacks that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="the form in CI: about a minute")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--fuzz", type=float, metavar="SECONDS", help="time for each reader")
    parser.add_argument("--write", action="store_true", help="write the figures to docs/")
    args = parser.parse_args()
    if not can_trace():
        print("strace is not installed or may not attach to a process", file=sys.stderr)
        return 2
    # The trace of a panic in Rust needs more memory than a reader may take.
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "RUST_BACKTRACE": "0"}
    begun = time.monotonic()
    found = []
    for each in attack(args.seed, SHORT if args.short else TRIALS, args):
        found.append(each)
        if args.write:
            write(args.seed, each)
        print(each.attack, each.subject, each.n, dict(each.outcomes), flush=True)
        for defect in each.defects:
            print(f"  BROKEN {defect}", flush=True)
    minutes = (time.monotonic() - begun) / 60
    print(table([asdict(each) for each in found]))
    print(f"seed {args.seed}, {minutes:.0f} minutes")
    return int(any(each.defects for each in found))


def recorded() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the figures of the record, by attack and subject, in its order."""
    figures = json.loads(RECORD.read_text(encoding="utf-8"))["figures"]
    return {(each["attack"], each["subject"]): each for each in figures}


def write(seed: int, figures: Figures) -> None:
    """Write figures to the record and to the page, in place of those of the same attack."""
    known = recorded() | {(figures.attack, figures.subject): asdict(figures)}
    record = {"seed": seed, "figures": [*known.values()]}
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")


def attack(seed: int, trials: dict[str, int], args: Any) -> Iterator[Figures]:
    """Yield the figures of each attack on each command, then of each reader."""
    warm_up()
    with tempfile.TemporaryDirectory(prefix="chaos-") as place:
        root = Path(place)
        template = make_template(root / "template")
        for subject in SUBJECTS:
            is_left_out = args.short and subject.name in _LONG
            attacks = ATTACKS if not args.only or subject.name in args.only else args.only
            chosen = [name for name in ATTACKS if name in attacks and trials[name]]
            if is_left_out or not chosen or (subject.needs and find_spec(subject.needs) is None):
                continue
            bench = Bench.of(root, subject, is_short=args.short)
            for name in chosen:
                yield bench.attack(name, max(1, trials[name] // _SLOW.get(subject.name, 1)), seed)
        samples = make_samples(root / "samples", template)
        for reader in readers(samples):
            if args.only and not {reader.name, "fuzz"} & {*args.only}:
                continue
            limit, earlier = Limit(files=_FILES), None
            if not args.short:
                earlier = recorded().get(("fuzz", reader.name)) if args.fuzz else None
                goal, done = args.fuzz or _SECONDS, earlier["seconds"] if earlier else 0.0
                if done >= goal:
                    continue
                limit = Limit(seconds=goal - done, first=earlier["n"] if earlier else 0)
            figures = fuzz(reader, samples, root / "work", seed, limit)
            if earlier:
                figures.add(Figures(**earlier))
            yield figures


def table(figures: Sequence[dict[str, Any]]) -> str:
    """Return the figures as a table in Markdown."""
    rows = [
        (
            each["attack"],
            each["subject"],
            f"{each['n']:,}",
            ", ".join(f"{n:,} {what}" for what, n in sorted(each["outcomes"].items())),
            len(each["defects"]),
        )
        for each in figures
    ]
    headers = ("attack", "on", "n", "outcomes", "broken")
    return tabulate(rows, headers, tablefmt="github", disable_numparse=True)


def page(text: str, record: dict[str, Any]) -> str:
    """Return the page with the table of a record between its two marks."""
    before, mark, rest = text.partition("<!-- chaos -->\n")
    _, end, after = rest.partition("<!-- end of chaos -->\n")
    assert mark, "the page has lost its first mark"
    assert end, "the page has lost its second mark"
    return f"{before}{mark}{table(record['figures'])}\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
