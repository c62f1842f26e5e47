"""The commands that are attacked, on tiny encoders and tasks, and what they make."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file
from standins import Workshop, tiny_encoder, write_task
from standins.sweeps import small_grid

from chaos.children import run

_VOLATILE = frozenset(
    [
        "date",
        "ended",
        "evaluation_time",
        "seconds",
        "sha256",
        "queries_sha256",
        "command",
        "commit",
        "seconds_per_fold",
        "made",
        "began",
    ]
)
"""Fields with times, or with a checksum over times, and the commit, which `--write` makes dirty."""
_QUICK = "--epochs 2 --batch-size 8 --held-out 0"
_BOARD = 'title = "Mini"\nintroduction = "Two encoders."\n'


@dataclass(frozen=True)
class Subject:
    """A command and the folder with what it makes."""

    name: str
    line: str
    product: str
    has_workers: bool = False
    needs: str = ""

    @property
    def words(self) -> list[str]:
        return self.line.split()


_SWEEP = "sweep small.toml --task-dir tasks --retry-failed -o made"
_TINY = "--model tiny --task-dir tasks -o made"
SUBJECTS = [
    Subject(
        "run",
        f"run {_TINY} --data-dir data --tasks mini,little-sts,little-mr --workers 1",
        "made",
    ),
    Subject("train axis", f"train axis {_TINY} --task mini --head tuned {_QUICK}", "made"),
    Subject(
        "train margins",
        f"train margins {_TINY} --task mini --examples 32 --neighbours 4 {_QUICK}",
        "made",
    ),
    Subject(
        "fewshot",
        f"fewshot {_TINY} --task mini --loss cce,frozen --rows 4 --folds 3 --workers 1",
        "made",
    ),
    Subject("sweep", f"{_SWEEP} --workers 1", "made", has_workers=True),
    Subject("sweep on Ray", f"{_SWEEP} --engine ray", "made", has_workers=True, needs="ray"),
    Subject("leaderboard build", "leaderboard build", "leaderboards"),
]


def make_template(folder: Path) -> Path:
    """Make a folder in which every command of `SUBJECTS` runs."""
    folder.mkdir(parents=True)
    workshop = Workshop(folder)
    workshop.sts()
    workshop.labelled_lines()
    write_task(workshop.tasks)
    tiny_encoder(folder / "tiny")
    small_grid(folder, Path("tiny"))
    board = folder / "leaderboards" / "mini"
    board.mkdir(parents=True)
    (board / "board.toml").write_text(_BOARD, encoding="utf-8")
    for model in ("tiny", "random"):
        line = f"run --model {model} --task-dir tasks --tasks mini -o leaderboards/mini/results"
        ended = run(line.split(), folder)
        assert ended.code == 0, ended.err
    return folder


def copy(template: Path, folder: Path) -> Path:
    if folder.exists():
        shutil.rmtree(folder)
    return Path(shutil.copytree(template, folder))


def made(folder: Path) -> Mapping[str, str]:
    """Return a digest of each file below a folder, without times, logs and hidden files."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if not path.is_file() or path.suffix == ".log" or any(p[0] == "." for p in name.parts):
            continue
        found[str(name)] = hashlib.sha256(_without_times(path)).hexdigest()
    return found


def _without_times(path: Path) -> bytes:
    if path.suffix == ".sqlite":
        with sqlite3.connect(path) as store:
            rows = store.execute("SELECT key, vector FROM vectors ORDER BY key").fetchall()
        return b"".join(key + vector for key, vector in rows)
    if path.suffix == ".safetensors":
        arrays = load_file(path)
        return b"".join(
            name.encode() + each.tobytes()
            for name, each in sorted(arrays.items())
            if name != "seconds"
        )
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    if ".json" in path.suffixes:
        return json.dumps(_kept(json.loads(content))).encode()
    if ".jsonl" in path.suffixes:
        return json.dumps([_kept(json.loads(line)) for line in content.splitlines()]).encode()
    return content


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _kept(each) for key, each in value.items() if key not in _VOLATILE}
    return [_kept(each) for each in value] if isinstance(value, list) else value
