"""Two encoders query by query: what was found, fixed and broken; the command, the page's bytes."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from standins import QUERIES, BagEncoder, Bench, Done, HashEncoder, write_task

from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.axis import Axis
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.explain.explanation import Explanation, as_json, explain, find_stored
from polarity_bench.explain.explorer_page import page
from polarity_bench.render.html import templates
from polarity_bench.results.result_files import Result, read_arrays, read_result, write_result
from polarity_bench.scores import WEIGHTINGS
from polarity_bench.tasks.catalogue import read_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.polarity.task import PolarityTask
from polarity_bench.values import printable

MARKUP = "</script><img src=x onerror=alert(1)><!-- \u2028 | *warm*"
QUERIES_TOO = [*QUERIES, (MARKUP, "1"), ("Nothing but a dull walk.", "0")]


def load(task_dir: Path, **settings: Any) -> PolarityTask:
    task = read_task(task_dir / "mini.toml").load(DataAccess(offline=True), Settings(**settings))
    assert isinstance(task, PolarityTask)
    return task


@pytest.fixture
def task(task_dir: Path) -> PolarityTask:
    write_task(task_dir, queries=QUERIES_TOO)
    return load(task_dir)


def put(task: PolarityTask, encoder: HashEncoder | str, folder: Path) -> Result:
    encoder = BagEncoder(encoder) if isinstance(encoder, str) else encoder
    return read_result(write_result(evaluate(encoder, task), folder))


@pytest.fixture
def pair(task: PolarityTask, tmp_path: Path) -> tuple[Result, Result]:
    return put(task, "ash", tmp_path / "results"), put(task, "maple", tmp_path / "results")


def explained(task: PolarityTask, folder: Path) -> Explanation:
    return explain(task, put(task, "ash", folder), put(task, "maple", folder), task.ks[-1])


# What became of each query


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("k", [2, 4])
def test_answers_are_what_a_slow_loop_makes_of_the_samples(
    task_dir: Path, tmp_path: Path, weighting: str, k: int
) -> None:
    write_task(task_dir, queries=QUERIES_TOO)
    task = load(task_dir, ks=(2, 4))
    stored = put(task, "ash", tmp_path), put(task, "maple", tmp_path)
    found = explain(task, *stored, k, weighting)
    samples = [list(task.retrieved(read_arrays(result.path))) for result in stored]
    weights = [(k - i if weighting == "linear" else 1) for i in range(k)]
    became: Counter[tuple[bool, bool]] = Counter()
    changed = {row["query"]: row for row in as_json(found, len(found.answers))["changed"]}
    assert changed
    for i, answer in enumerate(found.answers):
        sides = [each[i]["retrieved"][:k] for each in samples]
        votes = []
        for side, rows in enumerate(sides):
            near, other = answer.found[side], [row["text"] for row in sides[1 - side]]
            assert [task.source.texts[each.source] for each in near] == [r["text"] for r in rows]
            assert [each.similarity for each in near] == [row["similarity"] for row in rows]
            shown = changed[i][f"found_by_{'ab'[side]}"] if i in changed else []
            for row, in_json in zip(rows, shown, strict=bool(shown)):
                rank = other.index(row["text"]) + 1 if row["text"] in other else None
                assert (in_json["text"], in_json["rank_elsewhere"]) == (row["text"], rank)
            tally: dict[str, int] = {}
            for weight, row in zip(weights, rows, strict=True):
                tally[row["label"]] = tally.get(row["label"], 0) + weight
            label = task.query.labels[i]
            assert answer.p[side] == pytest.approx(tally.get(label, 0) / sum(weights), abs=1e-6)
            votes.append(max(tally, key=lambda name: tally[name]) == label)  # ties: the first met
        assert answer.right == tuple(votes)
        became[answer.right] += 1
    assert found.counts == {
        "fixed by B": became[False, True],
        "broken by B": became[True, False],
        "both right": became[True, True],
        "both wrong": became[False, False],
    }
    scores = [sum(answer.p[side] for answer in found.answers) / 10 for side in (0, 1)]
    assert found.p.aligned.scores == pytest.approx(scores)


def test_the_other_way_round_fixed_is_broken(
    task: PolarityTask, pair: tuple[Result, Result]
) -> None:
    one, other = explain(task, *pair, 4), explain(task, *pair[::-1], 4)
    assert one.counts["fixed by B"] + one.counts["broken by B"] > 0
    assert one.counts["fixed by B"] == other.counts["broken by B"]
    assert [a.moved for a in one.answers] == [-a.moved for a in other.answers]
    moves = [abs(answer.moved) for answer in one.most_changed(100)]
    assert moves == sorted(moves, reverse=True)
    assert 0 < len(moves) == sum(a.moved != 0 for a in one.answers) < 10
    assert one.most_changed(2) == one.most_changed(100)[:2]


def test_one_encoder_and_other_data_are_refused(
    task: PolarityTask, pair: tuple[Result, Result], task_dir: Path
) -> None:
    one, other = pair
    with pytest.raises(InputError, match="`model` and `against` are the same encoder, ash"):
        explain(task, one, one, 4)
    write_task(task_dir)
    with pytest.raises(InputError, match=re.escape(f"{one.path}: the result was computed")):
        explain(load(task_dir), one, other, 4)


# Results that are there


def test_a_result_is_found_by_digest_or_file_and_by_no_name(
    task: PolarityTask, pair: tuple[Result, Result], tmp_path: Path, task_dir: Path
) -> None:
    folder, path, digest = tmp_path / "results", pair[0].path, pair[0].key.encoder.digest
    for name in (digest, digest[:8], str(path)):
        assert find_stored(folder, name, task, 4) == pair[0]
    assert find_stored(folder, "ash", task, 4) is None
    assert find_stored(tmp_path / "none", digest, task, 4) is None
    assert find_stored(folder, "0" * 16, task, 4) is None
    assert find_stored(folder, digest, task, 3) is None
    assert find_stored(folder, digest, task, 4, prompt="query: ") is None
    assert find_stored(folder, digest, task, 4, strength=1.0) is None
    # An encoder in a folder is always loaded again.
    assert find_stored(folder, str(path.parent), task, 4) is None
    with pytest.raises(InputError, match="does not include k = 3"):
        find_stored(folder, str(path), task, 3)
    write_task(task_dir)
    assert find_stored(folder, digest, load(task_dir), 4) is None
    path.with_suffix(".queries.safetensors").unlink()
    assert find_stored(folder, digest, task, 4) is None
    with pytest.raises(InputError, match="the values per query are missing"):
        find_stored(folder, str(path), task, 4)


# The command


@pytest.fixture
def loadable(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Encoders of words by any name; returns the names that were loaded."""
    loaded: list[str] = []

    def load_encoder(name: str, options: object = None) -> BagEncoder:
        loaded.append(name)
        return BagEncoder("ash" if name == "alias" else name)

    monkeypatch.setattr("polarity_bench.encoders.load.load_encoder", load_encoder)
    return loaded


def ran(bench: Bench, task_dir: Path, *arguments: str | Path, b: str = "maple") -> Done:
    of = ("-m", "ash", "--against", b, "-t", "mini", "--task-dir", task_dir, "--no-store")
    return bench("explain", *of, *arguments)


def test_the_command_makes_results_once_and_prints_what_changed(
    bench: Bench, task_dir: Path, task: PolarityTask, loadable: list[str], tmp_path: Path
) -> None:
    done = ran(bench, task_dir, "-o", "made", "--changed", "3")
    assert (done.code, done.err) == (0, "")
    assert loadable == ["ash", "maple"]
    found = explained(task, tmp_path / "again")
    said = ", ".join(f"{n} {outcome}" for outcome, n in found.counts.items())
    assert f"Of 10 queries, by the vote of their 4 nearest sources: {said}." in done.out
    lines = [line for line in done.out.split("\n") if re.match(r"\| \d+ ", line)]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    for row, answer in zip(rows, found.most_changed(3), strict=True):
        number, text, label, *p, became, _, nearest = (cell.strip() for cell in row)
        assert int(number) == answer.query + 1
        assert (label, became) == (task.query.labels[answer.query], answer.outcome)
        assert [float(each) for each in p] == pytest.approx([100 * x for x in answer.p], abs=0.01)
        assert nearest == task.source.texts[answer.found[1][0].source]
        assert text == task.query.texts[answer.query] or "&lt;img" in text
    again = ran(bench, task_dir, "--results", "made", "--changed", "3")
    assert again.out == done.out
    assert re.fullmatch(r"ash: from made/ash/\S+\nmaple: from made/maple/\S+\n", again.err)
    reused = bench(
        "run", "-m", "ash", "-t", "mini", "--task-dir", task_dir, "-o", "made", "--no-store"
    )
    assert "reused stored results (to recompute them, use --overwrite): mini" in reused.err


def test_a_name_is_never_answered_by_a_result_of_other_settings(
    bench: Bench, task_dir: Path, task: PolarityTask, loadable: list[str]
) -> None:
    other = BagEncoder("maple")  # of other vectors, so that another answer is seen
    other.id = replace(other.id, name="ash", max_tokens=4, dtype="float16")
    path = put(task, other, Path("made")).path
    plain = BagEncoder("ash").id.digest
    digest = other.id.digest
    for _ in range(2):  # made, then read
        said = json.loads(ran(bench, task_dir, "-o", "made", "--json").out)
        assert said["a"]["encoder_digest"] == plain
    loadable.clear()
    words = ("explain", "-m", digest, "--against", plain[:8], "-t", "mini", "--json")
    said = json.loads(bench(*words, "--task-dir", task_dir, "-o", "made").out)
    assert (said["a"]["file"], said["a"]["encoder_digest"]) == (str(path), digest)
    assert (said["b"]["encoder_digest"], loadable) == (plain, [])


def test_a_name_that_cannot_be_loaded_selects_a_result(
    bench: Bench, task_dir: Path, task: PolarityTask, tmp_path: Path
) -> None:
    paths = [put(task, BagEncoder(name), tmp_path / "made").path for name in ("ash", "maple")]
    done = ran(bench, task_dir, "-o", tmp_path / "made", "--json", "--offline")
    said = json.loads(done.out)
    assert [said[side]["file"] for side in "ab"] == list(map(str, paths))
    assert done.err.splitlines() == [f"{p.parts[-3]}: from {p}" for p in paths]
    assert ran(bench, task_dir, "-o", tmp_path / "made", "--offline", b="elm").code == 2
    assert ran(bench, task_dir, "-o", tmp_path / "made", "--dtype", "float16").code == 2
    assert find_stored(tmp_path / "made", "ash", task, 4, prompt="query: ", by_name=True) is None
    other = BagEncoder("elm")
    other.id = replace(other.id, name="ash")
    digests = [path.parts[-2] for path in (paths[0], put(task, other, tmp_path / "made").path)]
    done = ran(bench, task_dir, "-o", tmp_path / "made", "--offline")
    assert "error: the encoder 'ash': no such folder" in done.err
    chosen = " (ash), ".join(sorted(digests))
    assert f"\nerror: ash: matches 2 encoders; choose one of {chosen} (ash)\n" in done.err


def test_the_command_prints_json(
    bench: Bench, task_dir: Path, task: PolarityTask, loadable: list[str], tmp_path: Path
) -> None:
    said = json.loads(ran(bench, task_dir, "--json", "--changed", "2", "-k", "3").out)
    deep = load(task_dir, ks=(3,))
    found = explained(deep, tmp_path / "again")
    assert (said["task"], said["k"], said["weighting"], said["n"]) == ("mini", 3, "linear", 10)
    assert said["counts"] == found.counts
    assert [said[side]["encoder"] for side in "ab"] == ["ash", "maple"]
    assert said["difference"] == pytest.approx(said["b"]["P"] - said["a"]["P"])
    assert len(said["changed"]) == 2
    first, answer = said["changed"][0], found.most_changed(1)[0]
    assert first["text"] == task.query.texts[first["query"]]
    assert (first["moved"], first["outcome"]) == (answer.moved, answer.outcome)
    assert len(first["found_by_a"]) == len(first["found_by_b"]) == 3
    near = first["found_by_b"][0]
    assert set(near) == {"source", "text", "label", "similarity", "rank_elsewhere"}
    assert near["text"] == task.source.texts[near["source"]]
    assert len(json.loads(ran(bench, task_dir, "--json").out)["changed"]) <= 10


def test_an_axis_is_explained_at_two_strengths(
    bench: Bench, task_dir: Path, tiny_model: Path, tmp_path: Path
) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu")
    torch.manual_seed(3)
    axis = Axis(["bad", "good"], 32)
    torch.nn.init.normal_(axis.head.weight, std=5)
    model.append(Normalize())
    model.append(axis.eval())
    model.similarity_fn_name = "dot"
    model.save_pretrained(str(tmp_path / "axis"), create_model_card=False)
    both = ("-m", tmp_path / "axis", "--against", tmp_path / "axis", "--task-dir", task_dir)
    words = ("explain", *both, "-t", "mini", "--against-strength", "1", "--json", "--offline")
    said = json.loads(bench(*words, "--strength", "0").out)
    assert said["a"]["encoder"] == said["b"]["encoder"] == "axis"
    assert said["a"]["encoder_digest"] != said["b"]["encoder_digest"]
    assert said["changed"]
    same = bench(*words, "--strength", "1")
    assert (same.code, "are both" in same.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-m tfidf --against tfidf", "--model and --against are both 'tfidf'; name two different"),
        ("-m tfidf --against random -t contras", "unknown task 'contras'; did you mean 'contrast'"),
        ("-m tfidf --against random -t cr", "--task cr: expected a polarity task, got a task"),
        ("-m tfidf --against random --html a.htm", "--html a.htm: the file name must end in .htm"),
        ("-m tfidf --against random --html no/a.html", "--html no/a.html: the folder no does not"),
        (
            "-m tfidf --against random --html is.html",
            "--html is.html: expected a file, got a folder",
        ),
        ("-m tfidf --against random --changed -1", "--changed must be at least 0, got -1"),
        ("-m tfidf --against random -k 0", "-k must be at least 1, got 0"),
        ("-m tfidf --against random -k 25", "mini: k = 25 needs at least 25 sources, got 24"),
        ("-m tfidf --against random --limit 0", "--limit must be at least 1, got 0"),
        ("-m tfidf --against ./none", "the encoder './none': no such folder"),
        ("-m tfidf --against x.json", "the encoder 'x.json': no such folder"),
        (
            "-m tfidf --against random --strength 1",
            "--strength 1: tfidf has no axis; train an encoder",
        ),
        ("-m tfidf --against random --against-strength 1", "--against-strength 1: random has no"),
        ("-m tfidf --against random --strength nan", "--strength must be a finite number, got nan"),
        ("-m tfidf --against random --against-prompt a", "'random' takes no --against-prompt"),
        ("-m tfidf --against random -o is.html/a", "the folder cannot be written to"),
    ],
)
def test_bad_input_ends_with_one_message(
    bench: Bench, task_dir: Path, arguments: str, message: str
) -> None:
    Path("is.html").mkdir()
    Path("is.html/a").touch()
    words = arguments.split()
    words += [] if "-t" in words else ["-t", "mini"]
    done = bench("explain", *words, "--task-dir", task_dir)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not Path("results").exists()


def test_two_names_of_one_encoder_are_refused(
    bench: Bench, task_dir: Path, loadable: list[str]
) -> None:
    done = ran(bench, task_dir, b="alias")
    assert (done.code, done.out) == (2, "")
    assert "--model and --against are the same encoder, ash (" in done.err
    assert not Path("results").exists()


def test_an_encoder_that_fails_is_named(
    bench: Bench, task_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoiled = [text for text, _ in QUERIES]
    monkeypatch.setattr(
        "polarity_bench.encoders.load.load_encoder",
        lambda name, _: HashEncoder(name, spoiled, float("nan")),
    )
    done = ran(bench, task_dir)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ash: ")


def test_without_jinja2_the_extra_is_named_before_anything_is_made(
    bench: Bench, task_dir: Path, monkeypatch: pytest.MonkeyPatch, loadable: list[str]
) -> None:
    monkeypatch.setattr("polarity_bench.errors.find_spec", lambda _: None)
    done = ran(bench, task_dir, "--html", "a.html")
    assert done.err.startswith("error: --html needs jinja2; in the clone of polarity-bench: pip")
    assert (done.code, loadable) == (2, [])


# The page's bytes


def written(bench: Bench, task_dir: Path, *arguments: str) -> str:
    done = ran(bench, task_dir, "--html", "a.html", *arguments)
    assert (done.code, done.err.endswith("wrote a.html\n")) == (0, True)
    return Path("a.html").read_text(encoding="utf-8")


def data_of(text: str) -> Any:
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    return json.loads(data)


def test_the_same_results_make_the_same_bytes(
    bench: Bench, task_dir: Path, loadable: list[str]
) -> None:
    first = written(bench, task_dir)
    assert ran(bench, task_dir, "--html", "a.html").out == ""
    assert Path("a.html").read_text(encoding="utf-8") == first
    assert str(Path.cwd()) not in first


def test_the_page_holds_every_query_and_every_source_once(
    task: PolarityTask, pair: tuple[Result, Result]
) -> None:
    found = explain(task, *pair, 4)
    data = data_of(page(found).decode())
    texts = [text for text, _ in data["sources"]]
    assert len(texts) == len(set(texts)) < len(task.source)
    for answer, query in zip(found.answers, data["queries"], strict=True):
        text, label, _, p, moved, outcome, *sides = query
        assert text == task.query.texts[answer.query]
        assert data["labels"][label] == task.query.labels[answer.query]
        assert p == pytest.approx(answer.p, abs=1e-4)
        assert moved == answer.moved == pytest.approx(answer.p[1] - answer.p[0], abs=1e-6)
        assert data["outcomes"][outcome] == answer.outcome
        for near, (places, cosines) in zip(answer.found, sides, strict=True):
            assert [texts[i] for i in places] == [task.source.texts[n.source] for n in near]
            assert cosines == pytest.approx([n.similarity for n in near], abs=1e-3)


def hostile(found: Explanation) -> Explanation:
    """The same of encoders whose names are markup."""
    results = tuple(
        replace(r, key=replace(r.key, encoder=EncoderId(f"{MARKUP}{i}", f"{i}")))
        for i, r in enumerate(found.p.aligned.results)
    )
    p = replace(found.p, aligned=replace(found.p.aligned, results=results))
    return replace(found, p=p)


def test_markup_is_text(task: PolarityTask, pair: tuple[Result, Result]) -> None:
    text = page(hostile(explain(task, *pair, 4))).decode()
    assert "<img" not in text
    assert "<!--" not in text
    assert "\u2028" not in data_of(text)["task"]
    assert text.count("</script>") == 2
    assert text.count("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;") >= 2
    data = data_of(text)
    assert MARKUP in [query[0] for query in data["queries"]]
    assert data["encoders"] == [printable(f"{MARKUP}0"), printable(f"{MARKUP}1")]
    (line,) = [line for line in text.splitlines() if 'id="data"' in line]
    assert re.findall(r"[<>&\u2028\u2029]", line) == ["<", ">", "<", ">"]


def test_only_what_is_written_here_runs(task: PolarityTask, pair: tuple[Result, Result]) -> None:
    text = page(explain(task, *pair, 4)).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', text)
    assert "default-src &#39;none&#39;" in policy
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src &#39;sha256-{digest}&#39;" in policy
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)", text)
    assert "innerHTML" not in text


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_stand_out_as_wcag_aa_asks(scheme: int) -> None:
    style = (templates.ASSETS / "shared.css").read_text(encoding="utf-8")
    pairs = re.findall(r"--([\w]+): light-dark\((#\w{6}), (#\w{6})\)", style)
    colours = {name: luminance(both[scheme]) for name, *both in pairs}
    labels = [name for name in colours if re.fullmatch(r"l\d", name)]
    assert len(labels) == 8
    grounds = {"paper": colours["paper"], "raised": colours["raised"], "mark": colours["mark"]}
    for ground, behind in grounds.items():
        least = {"ink": 4.5}
        least |= (
            {"soft": 4.5, "focus": 3.0, **dict.fromkeys(labels, 3.0)} if ground != "mark" else {}
        )
        for name, ratio in least.items():
            low, high = sorted([colours[name], behind])
            assert (high + 0.05) / (low + 0.05) >= ratio, (name, ground)
