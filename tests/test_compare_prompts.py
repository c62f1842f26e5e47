"""`run --compare-prompts`: each encoder with and without its prompt, paired query by query."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from standins import Bench, write_task

from polarity_bench.compare.paired_comparison import compare_encoders

RUN = ("run", "--compare-prompts", "--task-dir", "tasks", "--tasks", "mini,other")


@pytest.fixture
def tasks(task_dir: Path) -> Path:
    write_task(task_dir, "other", k=8)
    return task_dir


def test_both_are_measured_and_paired(bench: Bench, tasks: Path, sentence_bert: Path) -> None:
    arguments = (*RUN, "-m", sentence_bert, "--prompt-name", "query", "--reference", "random")
    done = bench(*arguments)
    assert done.code == 0, done.err
    assert "\ntiny (prompt 'query: '), reference: random" in f"\n{done.out}"
    assert "\ntiny, reference: random" in done.out
    *_, after = done.out.partition("## tiny, with and without the prompt 'query: '")
    rows = [line.split("|")[1:3] for line in after.splitlines() if line.startswith("| ")][1:]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["mini", "joint, k = 4"],
        ["other", "joint, k = 8"],
    ]
    assert "corrected for 2 tasks by Holm's method" in after
    board = re.sub(" +", " ", bench("leaderboard", "results").out)
    assert "| encoder | prompt | reference |" in board
    assert "| tiny | 'query: ' | random |" in board
    assert "| tiny | - | random |" in board
    as_json = json.loads(bench(*arguments, "--json").out)
    assert len(as_json["results"]) == 4
    (pairs,) = as_json["prompts"]
    alone = []
    for pair in pairs:
        assert pair["prompt"] == "query: "
        assert pair["without"]["encoder_digest"] != pair["with"]["encoder_digest"]
        assert pair["difference"] == pair["with"]["score"] - pair["without"]["score"]
        without, with_prompt = (pair[side]["encoder_digest"] for side in ("without", "with"))
        alone.append(compare_encoders(without, with_prompt, pair["task"]).test)
    assert [pair["interval"] for pair in pairs] == [list(test.interval) for test in alone]
    p = [test.p for test in alone]
    assert min(pair["p"] for pair in pairs) == min(1.0, 2 * min(p))
    assert max(pair["p"] for pair in pairs) >= max(p)


def test_p_is_compared_if_each_is_its_own_reference(
    bench: Bench, tasks: Path, tiny_model: Path
) -> None:
    done = bench(*RUN, "-m", tiny_model, "--prompt", "good ")
    assert done.code == 0, done.err
    assert re.search(r"\| P, k = 4 +\|", done.out)
    assert done.err.count("to compare the main score, name a --reference") == 1


def test_an_encoder_without_a_prompt_is_an_error(
    bench: Bench, tasks: Path, tiny_model: Path, sentence_bert: Path
) -> None:
    for arguments, expected in (
        (("-m", tiny_model), "has no prompt in its configuration; give one with --prompt"),
        (("-m", tiny_model, "--prompt", ""), "has no prompt in its configuration"),
        (("-m", sentence_bert), "choose one with --prompt-name (query, document)"),
        (("-m", "random"), "takes no prompt; name an encoder of sentence-transformers"),
        (("-m", tiny_model, "--prompt", "a ", "--fail-under", "random"), "takes no --fail-under"),
        (("-m", tiny_model, "--prompt", "a ", "--strength", "0,1"), "at most one --strength"),
    ):
        done = bench(*RUN, *arguments)
        assert (done.code, expected in done.err) == (2, True), done.err
    assert not list(Path("results").glob("**/*.json"))
    for file in tasks.glob("*.csv"):
        file.unlink()
    done = bench(*RUN, "-m", tiny_model)
    assert "has no prompt in its configuration" in done.err, "it is checked before the data"


def test_an_encoder_that_cannot_be_loaded_leaves_the_others(
    bench: Bench, tasks: Path, tiny_model: Path
) -> None:
    done = bench(*RUN, "-m", "./missing", "-m", tiny_model, "--prompt", "good ", "--json")
    assert done.code == 1
    (pairs,) = json.loads(done.out)["prompts"]
    assert [pair["task"] for pair in pairs] == ["mini", "other"]


def test_an_encoder_without_a_prompt_leaves_the_others(
    bench: Bench, tasks: Path, tmp_path: Path, tiny_model: Path, sentence_bert: Path
) -> None:
    """Before, the comparison of the first encoder was lost after both of its evaluations."""
    prompted = shutil.copytree(sentence_bert, tmp_path / "prompted")
    file = prompted / "config_sentence_transformers.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"default_prompt_name": "query"}))
    done = bench(*RUN, "-m", prompted, "-m", tiny_model, "--json")
    assert done.code == 1
    assert done.err.count("has no prompt in its configuration") == 1
    shown = json.loads(done.out)
    assert len(shown["results"]) == 4, "the encoder without a prompt is not evaluated"
    (pairs,) = shown["prompts"]
    assert [pair["task"] for pair in pairs] == ["mini", "other"]
