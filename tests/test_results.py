"""Results on disk: whole, valid for mteb, and never served for another question."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pytest
from safetensors.numpy import load_file
from standins import QUERIES, SOURCES, HashEncoder, write_task
from standins.board import read_board

import polarity_bench
from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.evaluation import environment
from polarity_bench.evaluation.environment import command_line
from polarity_bench.evaluation.one_task import evaluate
from polarity_bench.files import (
    check_writable,
    folder_name,
    json_bytes,
    with_checksum,
    write_atomically,
)
from polarity_bench.results import result_files
from polarity_bench.results.packed_results import stored_bytes
from polarity_bench.results.result_files import (
    Result,
    place,
    read_result,
    read_results,
    write_result,
)
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.tasks.catalogue import read_task
from polarity_bench.tasks.types.base import Settings

UNDEFINED = Score.single(math.nan, 8)


def made(
    task_dir: Path,
    encoder: HashEncoder | None = None,
    *,
    reference: HashEncoder | None = None,
    **settings: Any,
) -> Result:
    task = read_task(task_dir / "mini.toml").load(DataAccess(offline=True), Settings(**settings))
    return evaluate(encoder or HashEncoder(), task, reference=reference)


def same(first: Result, second: Result) -> bool:
    """Compare results: seconds are rounded on disk, and nan equals nan."""
    scores = [json.dumps(_plain(result), sort_keys=True) for result in (first, second)]
    plain = [replace(result, scores={}, seconds={}, arrays={}) for result in (first, second)]
    return scores[0] == scores[1] and plain[0] == plain[1]


def _plain(result: Result) -> dict[str, object]:
    return {str(key): astuple(score) for key, score in result.scores.items()}


# Round trip


def test_what_is_written_is_read(task_dir: Path, tmp_path: Path) -> None:
    result = made(task_dir, reference=HashEncoder("reference"), ks=(2, 4))
    path = write_result(result, tmp_path)
    assert path == place(tmp_path, result.key.encoder, result.experiment, result.result_name)
    assert same(read_result(path), result)
    assert same(read_result(str(path)), result)
    assert (result.path, read_result(str(path)).path) == (Path(), path)
    assert write_result(result, str(tmp_path)) == path
    assert [found.path for found in read_results(tmp_path)] == [path]


def test_what_was_seen_in_training_is_written_beside_the_scores(
    task_dir: Path, tmp_path: Path
) -> None:
    result = replace(made(task_dir), unseen_of="other")
    path = write_result(result, tmp_path)
    assert (read_result(path).seen, read_result(path).unseen_of) == (None, "other")
    assert json.loads(path.with_suffix(".provenance.json").read_text())["seen"] is None
    scores = path.read_bytes()
    seen = {"sources": {"exactly": 3}, "queries": {"exactly": 0}}
    counted = replace(result, seen=seen, path=path)
    result_files.write_seen(counted)
    assert same(read_result(path), counted)
    assert path.read_bytes() == scores
    assert counted.key.digest == result.key.digest


def test_values_per_query_and_the_retrieval_are_kept(task_dir: Path, tmp_path: Path) -> None:
    result = made(task_dir)
    arrays = load_file(write_result(result, tmp_path).with_suffix(".queries.safetensors"))
    assert arrays["retrieved_index"].shape == (8, 4)
    assert arrays["polarity_at_4"].mean() == pytest.approx(result.flat["polarity_at_4"], abs=1e-6)
    assert arrays["polarity_at_4"].std() == pytest.approx(result.flat["polarity_at_4_std"])


def test_the_provenance_says_when_by_which_command_and_from_which_code(
    task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/polarity-bench", "run", "a b"])
    path = write_result(replace(made(task_dir), date=1e9), tmp_path)
    provenance = json.loads(path.with_suffix(".provenance.json").read_text())
    assert provenance["date"] == "2001-09-09T01:46:40+00:00"
    environment = provenance["environment"]
    assert environment["command"] == "polarity-bench run 'a b'"
    assert environment["polarity-bench"] == polarity_bench.__version__
    git = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=Path(polarity_bench.__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    commit = environment.get("commit", "").removesuffix("-dirty")
    assert commit == git.stdout[:12]


def test_asking_for_the_commit_leaves_the_index_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process would leave the lock of the index behind, which stops the user's git."""

    def git(*words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True)

    monkeypatch.setattr(environment, "__file__", str(tmp_path / "package" / "evaluation" / "x.py"))
    ask = environment._commit.__wrapped__
    assert ask() is None
    git("init")
    assert ask() is None
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one")
    os.utime(tmp_path / "file", (0, 0))  # so that the index would be written again
    before = (tmp_path / ".git" / "index").read_bytes()
    commit = ask()
    assert commit is not None
    assert re.fullmatch("[0-9a-f]{12}", commit)
    assert (tmp_path / ".git" / "index").read_bytes() == before
    (tmp_path / "other").write_text("not tracked")
    assert ask() == commit
    (tmp_path / "file").write_text("two")
    assert ask() == f"{commit}-dirty"


def test_nan_is_null_on_disk(task_dir: Path, tmp_path: Path) -> None:
    result = made(task_dir)
    scores = {**result.scores, ScoreKey("sgts"): UNDEFINED}
    path = write_result(replace(result, scores=scores), tmp_path)
    assert json.loads(path.read_text())["scores"]["test"][0]["sgts"] is None
    assert math.isnan(read_result(path).flat["sgts"])


def test_every_committed_result_is_read_number_by_number() -> None:
    found = list(read_results(Path(__file__).parent.parent / "leaderboards", of_folds=None))
    assert len(found) > 200
    for result in found:
        (row,) = json.loads(stored_bytes(result.path))["scores"]["test"]
        main = row.pop("main_score")
        flat = {name: None if math.isnan(v) else v for name, v in result.flat.items()}
        assert flat | {"hf_subset": "default", "languages": ["eng-Latn"]} == row, result.path
        assert result.main.mean == main
        assert result.limit is None


def test_two_scores_of_one_name_are_refused(task_dir: Path) -> None:
    result = made(task_dir)
    one = ScoreKey("spearman", part="x"), Score(0.1, 0.2, (0.0, 1.0), 3)
    other = ScoreKey("spearman", part="x_std"), Score.single(0.3, 3)
    for pair in ([one, other], [other, one]):
        with pytest.raises(InputError, match="two scores are named 'spearman_x_std'"):
            replace(result, scores=dict(pair)).flat  # noqa: B018


# mteb


def test_a_result_is_a_valid_task_result_of_mteb(task_dir: Path, tmp_path: Path) -> None:
    result = made(task_dir)
    path = write_result(result, tmp_path)
    theirs = mteb.TaskResult.from_disk(path)
    assert theirs.task_name == "MiniPolarityRetrieval"
    assert theirs.get_score() == max(result.flat["joint_at_4"], 0.0)
    assert theirs.languages == ["eng"]
    assert mteb.TaskResult.model_validate(json.loads(path.read_text())).scores == theirs.scores
    meta = json.loads(path.with_name("model_meta.json").read_text())
    assert meta == {"name": "hash", "revision": result.key.encoder.digest}


def test_mteb_reads_a_main_score_that_is_undefined(task_dir: Path, tmp_path: Path) -> None:
    result = made(task_dir)
    undefined = replace(result, scores={**result.scores, result.main_score: UNDEFINED})
    theirs = mteb.TaskResult.from_disk(write_result(undefined, tmp_path))
    (row,) = theirs.scores["test"]
    assert row["main_score"] is None


# Names and places


@pytest.mark.parametrize(
    "row",
    [
        {"é\n": 0.1, "b": None, "main_score": 1e-9, "hf_subset": "default", "languages": ["eng"]},
        {"a": 1, "languages": ["eng", "deu"]},
        {"languages": ["eng"], "a": 1},
        {"a": [1], "languages": ["eng"]},
        {"languages": ["eng"]},
        {},
    ],
)
def test_scores_are_digested_as_they_are_written(row: dict[str, Any]) -> None:
    for scores in ({"test": [row]}, {"test": [row, row]}, {"test": [row], "dev": []}):
        digest = result_files._digest_of_scores({"scores": scores})
        assert digest == hashlib.sha256(json_bytes(scores)).hexdigest()


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("org/model-v1.5", "org__model-v1.5"),
        ("../../etc", "__..__etc"),
        ("..", "_"),
        ("", "_"),
        ('a b:c*?"<>|\\', "a_b_c_______"),
        ("models/ü", "models___"),
        ("x" * 120, "x" * 120),
        ("x" * 300, "x" * 103 + "-" + hashlib.sha256(b"x" * 300).hexdigest()[:16]),
        ("a\x00\n", "a__"),
    ],
)
def test_names_are_made_safe(name: str, safe: str) -> None:
    assert folder_name(name) == safe
    assert place(Path("out"), EncoderId(name, "w"), "", "T").parents[2] == Path("out")


def test_two_encoders_of_one_name_lie_apart(task_dir: Path, tmp_path: Path) -> None:
    first, second = HashEncoder("one"), HashEncoder("two")
    second.id = replace(second.id, name="one")
    paths = {write_result(made(task_dir, each), tmp_path) for each in (first, second)}
    assert len(paths) == 2


def test_experiments_of_long_names_lie_apart() -> None:
    """What 45 values of k are called is longer than a folder's name may be."""
    ks = "k_" + "-".join(map(str, range(1, 46)))
    asked = [ks, f"{ks}-46", f"{ks}__limit_20", f"{ks}__reference_a-1", f"{ks}__reference_b-2"]
    encoder = EncoderId("tfidf", "w")
    places = [place(Path("out"), encoder, experiment, "Task") for experiment in asked]
    assert len(set(places)) == len(asked)
    assert all(len(path.parent.name) <= 120 for path in places)
    plain = place(Path("out"), encoder, "k_4-16__limit_20", "Task")
    assert plain.parent.name == "k_4-16__limit_20"  # as stored results have it


def test_an_output_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for output in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match=r"`output` .*: the folder cannot be written to"):
            check_writable(output)


# Whole or not at all


def test_a_failing_write_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "f"
    write_atomically(file, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match=r"/f: cannot be written: No space left"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert [*tmp_path.iterdir()] == [file]


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_a_file_has_the_mode_of_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        for content in (b"old", b"new"):
            write_atomically(tmp_path / "file", content)
            assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~umask
    finally:
        os.umask(before)


@pytest.mark.parametrize("n_writes", range(4))
def test_a_run_killed_while_writing_leaves_no_result_of_another_question(
    task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_writes: int
) -> None:
    old = made(task_dir)
    path = write_result(old, tmp_path / "out")
    text = (task_dir / "mini-source.csv").read_text()
    (task_dir / "mini-source.csv").write_text(text.replace("The a", "The zzz"))
    new = made(task_dir)
    assert old.key.digest != new.key.digest
    left = n_writes

    def dies(file: Path, content: bytes) -> None:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        write_atomically(file, content)

    monkeypatch.setattr("polarity_bench.results.result_files.write_atomically", dies)
    with pytest.raises(KeyboardInterrupt):
        write_result(new, tmp_path / "out")
    with pytest.raises(InputError, match="cannot be read"):  # so that it is made again
        read_result(path)


def test_an_edited_result_is_refused(task_dir: Path, tmp_path: Path) -> None:
    path = write_result(made(task_dir), tmp_path)
    path.write_text(path.read_text().replace('"main_score": 0', '"main_score": 1'))
    with pytest.raises(InputError, match="the scores were edited or are incomplete"):
        read_result(path)


PROVENANCE = "MiniPolarityRetrieval.provenance.json"
EDITS: dict[str, Callable[[Any], object]] = {
    "limit": lambda made: made.update(limit=None),
    "encoder.name": lambda made: made["encoder"].update(name="another"),
    "main_score": lambda made: made.update(main_score="polarity_at_4"),
    "counts": lambda made: made["counts"].update(queries=9),
    "seen": lambda made: made.update(seen={"sources": {"normalised": 9}}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_provenance_is_refused(task_dir: Path, tmp_path: Path, edit: str) -> None:
    path = write_result(made(task_dir, limit=4), tmp_path)
    file = path.with_name(PROVENANCE)
    stored = json.loads(file.read_text())
    EDITS[edit](stored)
    file.write_text(json.dumps(stored, indent=2))
    with pytest.raises(
        InputError, match=r"provenance\.json: the result was edited or is damaged; run the eval"
    ):
        read_result(path)
    with pytest.raises(InputError, match="the result was edited or is damaged"):
        result_files.write_seen(replace(made(task_dir), path=path))


def test_results_behind_links_are_read_once_each(task_dir: Path, tmp_path: Path) -> None:
    """An encoder's folder may lie on another disk, linked from the folder of the results."""
    output = tmp_path / "out"
    path = write_result(made(task_dir), output)
    encoder = path.relative_to(output).parts[0]
    shutil.move(output / encoder, tmp_path / "disk")
    (output / encoder).symlink_to(tmp_path / "disk")
    (output / "circle").symlink_to(output)
    (output / "again").symlink_to(tmp_path / "disk")
    assert len(list(read_results(output))) == 1
    assert shown_by_board(output) == ["hash"]


def shown_by_board(folder: Path) -> list[str]:
    table = read_board(folder).tables[-1]
    roles = dict(table.heads)["encoder"]
    return [name for i, name in enumerate(roles) if table.role(i) == "encoder"]


def test_a_board_of_results_without_a_gold_label_score_has_no_row_of_it(
    task_dir: Path, tmp_path: Path
) -> None:
    result = made(task_dir)
    scores = {key: score for key, score in result.scores.items() if "oracle" not in key.metric}
    scores |= {key: result.scores[key] for key in result.scores if key.metric == "polarity_oracle"}
    write_result(replace(result, scores=scores), tmp_path)
    assert shown_by_board(tmp_path) == ["hash"]


def test_a_folder_in_place_of_a_file_is_an_error_of_one_line(
    task_dir: Path, tmp_path: Path
) -> None:
    path = write_result(made(task_dir), tmp_path)
    path.with_name(PROVENANCE).unlink()
    path.with_name(PROVENANCE).mkdir()
    with pytest.raises(InputError, match=r"provenance\.json: cannot be removed: "):
        write_result(made(task_dir), tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("MiniPolarityRetrieval.json", "{", "damaged, not valid JSON"),
        ("MiniPolarityRetrieval.json", "[" * 100_000, "damaged, not valid JSON: maximum recurs"),
        ("MiniPolarityRetrieval.provenance.json", "{", "damaged, not valid JSON"),
        ("MiniPolarityRetrieval.provenance.json", "{}", "not a result of polarity-bench"),
        ("MiniPolarityRetrieval.provenance.json", '{"format": 0}', "in format 6, got format 0"),
        ("MiniPolarityRetrieval.provenance.json", '{"format": 5}', "in format 6, got format 5"),
        ("MiniPolarityRetrieval.provenance.json", None, "cannot be read: No such file"),
        ("MiniPolarityRetrieval.provenance.json", "[]", "not a result of polarity-bench"),
        ("MiniPolarityRetrieval.json", "[]", "the scores were edited or are incomplete"),
        (
            "MiniPolarityRetrieval.json",
            '{"scores": "\\ud800"}',
            "the scores were edited or are inc",
        ),
        (
            "MiniPolarityRetrieval.json",
            '{"scores": NaN}',
            "the scores were edited or are incomplete",
        ),
    ],
)
def test_a_damaged_result_is_refused(
    task_dir: Path, tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    path = write_result(made(task_dir), tmp_path)
    file = path.with_name(name)
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    with pytest.raises(InputError, match=message):
        read_result(path)


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process by /proc")
def test_a_file_that_does_not_fit_into_memory_is_named(tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    file.write_text(f"[{'0.5,' * 4_000_000}0]")  # 128 MB as a list
    code = f"""
import resource
from pathlib import Path
from polarity_bench.files import read_json
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 2**20,) * 2)
read_json(Path({str(file)!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    problem = "large.json: too large, its 16,000,003 bytes do not fit into memory"
    assert done.stderr.rstrip().endswith(problem)


SEALED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a score": ({}, {"overlap_at_4": [0.5]}, "'overlap_at_4' must be a number"),
    "a text": ({}, {"overlap_at_4": "x"}, "'overlap_at_4' must be a number"),
    "an end": ({}, {"overlap_at_4_ci95_low": {}}, "'overlap_at_4_ci95_low' must be a number"),
    "no main score": ({"main_score": "joint_at_5"}, {}, "ScoreKey"),
    "n": ({"n": []}, {}, "must be a table|valid dictionary"),
    "encoder": ({"encoder": {"name": "a", "proto": 1}}, {}, "unknown key 'proto'"),
    "task": ({"task": "mini"}, {}, "'task.digest' is missing"),
    "main score": ({"main_score": 0.5}, {}, "expected string"),
}


@pytest.mark.parametrize(("of_provenance", "of_scores", "said"), SEALED.values(), ids=SEALED)
def test_a_result_with_its_checksum_and_a_wrong_structure_is_refused(
    task_dir: Path,
    tmp_path: Path,
    of_provenance: dict[str, Any],
    of_scores: dict[str, Any],
    said: str,
) -> None:
    path = write_result(made(task_dir), tmp_path)
    file = path.with_name(PROVENANCE)
    stored, about = json.loads(path.read_text()), json.loads(file.read_text()) | of_provenance
    stored["scores"]["test"][0].update(of_scores)
    about["scores_sha256"] = hashlib.sha256(json_bytes(stored["scores"])).hexdigest()
    path.write_bytes(json_bytes(stored))
    file.write_bytes(json_bytes(with_checksum(about)))
    with pytest.raises(InputError, match=f"not a result of polarity-bench .*({said})"):
        read_result(path)


def test_results_without_a_kind_or_with_an_odd_date_are_refused(
    task_dir: Path, tmp_path: Path
) -> None:
    path = write_result(made(task_dir), tmp_path)
    stored = json.loads(path.read_text()) | {"date": 1e300}
    path.write_bytes(json_bytes(stored))
    with pytest.raises(InputError, match=r"'mteb\.date' must be at most"):
        read_result(path)
    path = write_result(made(task_dir), tmp_path)
    about = json.loads(path.with_name(PROVENANCE).read_text())
    del about["task"]["kind"]
    path.with_name(PROVENANCE).write_bytes(json_bytes(with_checksum(about)))
    with pytest.raises(InputError, match=r"'task\.kind' is missing"):
        read_result(path)


def test_a_field_of_a_wrong_type_is_named(task_dir: Path, tmp_path: Path) -> None:
    path = write_result(made(task_dir), tmp_path)
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(stored | {"task_name": None}))  # no checksum covers this field
    with pytest.raises(
        InputError,
        match=r"\.json: not a result .* \('mteb.task_name' must be text, got None\); run the eval",
    ):
        read_result(path)
    path.write_text(json.dumps({name: stored[name] for name in stored if name != "task_name"}))
    with pytest.raises(InputError, match=r"\('mteb.task_name' is missing\); run the eval"):
        read_result(path)


# The key: what decides the numbers


def test_the_key_changes_with_everything_that_decides_the_numbers(task_dir: Path) -> None:
    def digest(**options: Any) -> str:
        return made(task_dir, **options).key.digest

    plain = digest()
    assert digest() == plain
    assert digest(encoder=HashEncoder("other")) != plain
    assert digest(ks=(2,)) != plain
    assert digest(ks=(4,)) == plain
    assert digest(reference=HashEncoder("reference")) != plain
    write_task(task_dir, k=5)
    assert digest() != plain
    write_task(task_dir, sources=[(SOURCES[0][0], "0"), *SOURCES[1:]])
    assert digest() != plain
    write_task(task_dir, queries=QUERIES[::-1])
    assert digest() != plain
    write_task(task_dir, head='description = "Another."')
    assert digest() == plain


def test_scores_do_not_depend_on_where_the_task_lies(task_dir: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(task_dir, tmp_path / "moved"))
    assert same(replace(made(moved), date=0.0), replace(made(task_dir), date=0.0))


def test_limits_are_told_from_full_results(task_dir: Path, tmp_path: Path) -> None:
    for result, limit in ((made(task_dir), None), (made(task_dir, limit=6), 6)):
        assert result.limit == limit
        assert read_result(write_result(result, tmp_path)).limit == limit
    path = write_result(replace(made(task_dir), experiment="reference_no__limit_7"), tmp_path)
    assert read_result(path).limit is None


# What a task's scores hold


def test_scores_of_one_encoder_against_a_reference(task_dir: Path) -> None:
    scores = made(task_dir, reference=HashEncoder("reference"), ks=(2, 4)).flat
    for k in (2, 4):
        for weighting in ("", "uniform_"):
            s = scores[f"similarity_{weighting}at_{k}"]
            best = scores[f"similarity_reference_{weighting}at_{k}"]
            chance = scores["similarity_chance"]
            kept = scores[f"retention_{weighting}at_{k}"]
            assert kept == pytest.approx((s - chance) / (best - chance))
            p = scores[f"polarity_{weighting}at_{k}"]
            lift = (p - scores["polarity_chance"]) / (1 - scores["polarity_chance"])
            sides = abs(lift), min(abs(kept), 1.0)
            expected = 2 * math.prod(sides) / sum(sides) * (-1 if min(lift, kept) < 0 else 1)
            assert scores[f"joint_{weighting}at_{k}"] == pytest.approx(expected)
        assert 0 <= scores[f"overlap_at_{k}"] <= 1
    assert scores["polarity_chance"] == 0.5


def test_an_encoder_is_its_own_reference_by_default(task_dir: Path) -> None:
    scores = made(task_dir).flat
    assert scores["retention_at_4"] == 1.0
    assert scores["overlap_at_4"] == 1.0
    assert scores["similarity_at_4"] == scores["similarity_reference_at_4"]


def test_scores_at_a_smaller_k_are_those_of_a_run_at_that_k(task_dir: Path) -> None:
    both, alone = made(task_dir, ks=(2, 4)).flat, made(task_dir, ks=(2,)).flat
    for name in alone:
        assert both[name] == pytest.approx(alone[name], nan_ok=True), name


def test_a_constant_encoder_scores_chance(task_dir: Path) -> None:
    class Constant(HashEncoder):
        def _vector(self, text: str) -> np.ndarray:
            return np.ones(16, dtype=np.float32)

    result = made(task_dir, Constant("constant"))
    assert result.arrays["retrieved_index"].tolist() == [[0, 1, 2, 3]] * 8
    assert result.flat["polarity_at_4"] == 0.5  # all of one label, half the queries of each
    assert math.isnan(result.flat["retention_at_4"])
    assert result.flat["joint_at_4"] == 0.0
    assert math.isnan(result.flat["sgts"])


def test_a_query_never_retrieves_its_own_text(tmp_path: Path) -> None:
    write_task(tmp_path, sources=[*QUERIES, *SOURCES], protocol="overlap = 8")
    result = made(tmp_path)
    index = result.arrays["retrieved_index"]
    assert not (index == np.arange(8)[:, None]).any()
    assert result.counts["overlap"] == 8


def test_minimal_pairs_without_a_subject_in_common_are_undefined(tmp_path: Path) -> None:
    sources = [("good cake", "1", "x", "s1"), ("bad cake", "0", "x", "s1"), *_fill("y")]
    queries = [
        ("great pie", "1", "none", "q1"),
        ("poor pie", "0", "none", "q1"),
        ("fine tart", "1", "x", "q2"),
        ("sad tart", "0", "x", "q2"),
    ]
    result = made(_paired(tmp_path, sources, queries))
    assert result.flat["pairwise_accuracy_n_undefined"] == 1
    assert result.flat["pairwise_accuracy"] in {0.0, 1.0}
    alone = made(_paired(tmp_path, sources, [*queries[:2], *_fill("z")]))
    assert math.isnan(alone.flat["pairwise_accuracy"])


def _fill(topic: str) -> list[tuple[str, str, str, str]]:
    return [(f"{topic} {i}", str(i % 2), topic, f"{topic}{i}") for i in range(4)]


def _paired(folder: Path, *splits: list[tuple[str, str, str, str]]) -> Path:
    file = write_task(folder, protocol='groups = ["topic"]\npair = "pair"')
    for name, rows in zip(("source", "query"), splits, strict=True):
        lines = ["text,label,topic,pair", *(",".join(row) for row in rows)]
        (folder / f"mini-{name}.csv").write_text("\n".join(lines) + "\n")
    columns = '[format]\ncolumns = ["topic", "pair"]\n[splits.source]'
    file.write_text(file.read_text().replace("[splits.source]", columns))
    return folder


def test_a_run_by_the_module_records_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/home/me/polarity_bench/__main__.py", "run", "-m", "a b"])
    assert command_line() == "polarity-bench run -m 'a b'"
