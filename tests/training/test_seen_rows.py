"""Rows of transfer, relatedness and STS tasks that an encoder was trained on, and the others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import save_file
from scipy.stats import pearsonr, spearmanr
from sentence_transformers import SentenceTransformer
from standins import Bench, Done, Workshop, call, tiny_encoder, write_task
from standins.board import read_board
from standins.training import made_run
from standins.workshop import _NOUNS, _WORDS

from polarity_bench.boards.unseen_columns import unseen_table
from polarity_bench.data.nli import load_nli
from polarity_bench.data.sources import DataAccess
from polarity_bench.encoders.load import load_encoder
from polarity_bench.encoders.reference_encoder import Base, write_base
from polarity_bench.encoders.train_file import TrainFile
from polarity_bench.evaluation.contamination import Contamination, TrainingTexts, seen_rows
from polarity_bench.render.markdown import render
from polarity_bench.results.result_files import read_arrays, read_results, scores_digest
from polarity_bench.results.score_names import explain
from polarity_bench.tasks.catalogue import load_tasks
from polarity_bench.tasks.types.base import Settings
from polarity_bench.training.data import load_training_data
from polarity_bench.training.recipes.margins.recipe import Margins

TASKS = ["little-mr", "little-sst2", "little-mrpc", "little-sick-r", "little-sts", "little-stsb"]
AFFECTED = [("mr", "all"), ("subj", "all"), ("mpqa", "all"), ("sst2-transfer", "test")]
AFFECTED += [("sst5", "test"), ("sst2-transfer", "train"), ("sst5", "train")]
MAIN = {"little-sick-r": "pearson", "little-sts": "spearman", "little-stsb": "spearman"}
ALONE = ["--workers", "1"]  # other processes keep the folder that an earlier test worked in
KNOWN = [*chain(*_WORDS, _NOUNS), "the", "is", "and", "quite", ",", "."]


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A base and another encoder, which says that it was trained from it."""
    folder = tmp_path_factory.mktemp("encoders")
    return tiny_encoder(folder / "base", KNOWN), tiny_encoder(folder / "own", KNOWN, width=16)


@pytest.fixture
def bench(
    tmp_path: Path,
    workshop: Workshop,
    encoders: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Bench:
    """Run a command line beside `base` and `own`, trained on rows of each of the tasks."""
    workshop.labelled_lines()
    workshop.sst_binary()
    workshop.mrpc()
    workshop.sick(relatedness=True)
    workshop.sts()
    workshop.stsb(relatedness=False)
    texts = {row[0] for name in TASKS for rows in parts(workshop, name).values() for row in rows}
    trained = [t.upper().replace(" .", "!") if i % 2 else t for i, t in enumerate(sorted(texts))]
    write_task(workshop.tasks, sources=[(t, str(i % 2)) for i, t in enumerate(trained[::3])])
    monkeypatch.chdir(tmp_path)
    for folder in encoders:
        shutil.copytree(folder, tmp_path / folder.name)
    made_run(
        tmp_path / "own",
        workshop.tasks,
        Margins(held_out=0),
        base=str(tmp_path / "base"),
        of=load_encoder("base").id,
    )

    def bench(*arguments: str | Path) -> Done:
        own = "--data-dir", workshop.data, "--task-dir", workshop.tasks
        return call(monkeypatch, capsys, *arguments, *own)

    return bench


def parts(workshop: Workshop, name: str) -> dict[str, list[tuple[str, ...]]]:
    """The texts of each row, by train, dev and test or all together."""
    task: Any = workshop.load(workshop.specs[name])
    read = {part: [row.texts for row in rows] for part, rows in task.parts.items()}
    return read if "train" in read else {"all": [row for rows in read.values() for row in rows]}


def asked(*more: str, model: str = "own", tasks: Sequence[str] = TASKS) -> list[str]:
    return ["run", "--model", model, "--tasks", ",".join(tasks), "--kfold", "3", *more, *ALONE]


def results_of(done: Done) -> dict[str, Any]:
    assert done.code == 0, done.err
    return {result["task"]: result for result in json.loads(done.out)["results"]}


def words(text: str) -> list[str]:
    """Words in small letters, by no expression of ours."""
    return "".join(letter if letter.isalnum() else " " for letter in text.lower()).split()


def trained_on(workshop: Workshop) -> list[str]:
    spec = load_tasks(workshop.tasks)["mini"]
    return list(load_training_data(spec, workshop.access, held_out=0, seed=0).pool.texts)


def by_hand(workshop: Workshop, name: str) -> dict[str, list[bool]]:
    """Whether a text of a row is a training text, by a loop over both."""
    known = [words(text) for text in trained_on(workshop)]
    return {
        part: [any(words(text) == other for text in row for other in known) for row in rows]
        for part, rows in parts(workshop, name).items()
    }


def rows_of(markdown: str, heading: str) -> Iterator[list[str]]:
    """The cells of the table below a heading, by rows, the titles first."""
    lines = markdown.partition(heading)[2].lstrip().splitlines()
    for line in lines[: lines.index("")] if "" in lines else lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not set(cells[0]) <= set(":-"):
            yield cells


# Counts


def test_a_pair_is_seen_if_one_of_its_texts_is() -> None:
    rows = [("a warm day", "a cold day"), ("a cold day", "A warm day!"), ("a cold day", "cold")]
    found = seen_rows(rows, TrainingTexts.of(["a warm day", "the cold"]))
    assert {way: each.tolist() for way, each in found.items()} == {
        "exactly": [True, False, False],
        "normalised": [True, True, False],
        "inside": [False, False, True],
        "containing": [False, False, False],
    }


def test_rows_of_every_kind_are_counted_by_part(bench: Bench, workshop: Workshop) -> None:
    found = results_of(bench(*asked("--json")))
    known = trained_on(workshop)
    for name in TASKS:
        counted = {
            part: {
                "exactly": sum(any(text in known for text in row) for row in rows),
                "normalised": sum(by_hand(workshop, name)[part]),
            }
            for part, rows in parts(workshop, name).items()
        }
        seen = found[name]["seen"]
        assert {part: {way: seen[part][way] for way in counted[part]} for part in seen} == counted
        tested = counted.get("test") or counted["all"]
        n = len(parts(workshop, name)["test" if "test" in counted else "all"])
        assert 0 < tested["exactly"] <= tested["normalised"] < n


def test_without_values_per_query_the_score_over_unseen_rows_is_not_known(
    bench: Bench, workshop: Workshop
) -> None:
    bench(*asked("--json", tasks=["little-mr", "little-sts"]))
    found = [replace(result, seen=None) for result in read_results(Path("results"))]
    kept = {result.task: result.unseen for result in found}
    tasks = [workshop.load(workshop.specs[result.task]) for result in found]
    (removed,) = Path("results").rglob("LittleSts.queries.safetensors")
    removed.unlink()
    contamination = Contamination(TrainFile.of(Path("own")), tasks, Path("results"))
    found = [contamination.count_again(*each) for each in zip(tasks, found, strict=True)]
    assert {r.task: r.unseen for r in found} == kept | {"little-sts": None}
    assert all(result.seen for result in found)
    assert list(read_results(Path("results"))) == found


def test_rows_are_counted_before_a_result_is_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, and in others; no provenance is written twice."""

    def twice(*_: object) -> None:
        raise AssertionError("the provenance was replaced")

    monkeypatch.setattr("polarity_bench.evaluation.contamination.write_seen", twice)
    tasks = ["little-mr", "little-sick-r", "little-sts"]
    alone = results_of(bench(*asked("--json", tasks=tasks)))
    assert all(result["seen"] and result["unseen"] for result in alone.values())
    output = str(Path("others").absolute())
    others = bench(*asked("--json", tasks=tasks)[:-2], "--workers", "2", "--output", output)
    assert {n: r["seen"] for n, r in results_of(others).items()} == {
        n: r["seen"] for n, r in alone.items()
    }


# Scores over unseen rows


def score_by_hand(name: str, arrays: Mapping[str, Any], seen: Sequence[bool]) -> float:
    own = [i for i, was in enumerate(seen) if not was]
    if name not in MAIN:
        rights = [int(arrays["prediction"][i] == arrays["label"][i]) for i in own]
        return sum(rights) / len(own)
    predicted = arrays["prediction" if name == "little-sick-r" else "cosine"]
    one, other = ([column[i] for i in own] for column in (predicted, arrays["gold"]))
    if MAIN[name] == "pearson":
        return float(pearsonr(one, other).statistic)
    return float(spearmanr(one, other).statistic)


def test_unseen_rows_have_a_score_of_their_own_and_so_has_the_base_over_them(
    bench: Bench, workshop: Workshop
) -> None:
    results_of(bench(*asked("--json", model="base")))
    found = results_of(bench(*asked("--json")))
    files = {(r.task, r.key.encoder.name): r.path for r in read_results(Path("results"))}
    for name in TASKS:
        tested = by_hand(workshop, name)["test" if "train" in parts(workshop, name) else "all"]
        unseen = found[name]["unseen"]
        main = MAIN.get(name, "accuracy")
        assert list(unseen) == [f"{main}_unseen", f"{main}_unseen_base"]
        for score, encoder in zip(unseen.values(), ("own", "base"), strict=True):
            arrays = read_arrays(files[name, encoder])
            assert score["n"] == len(tested) - sum(tested)
            assert score["score"] == pytest.approx(score_by_hand(name, arrays, tested), abs=1e-12)
            assert score["low"] is None or score["low"] <= score["score"] <= score["high"]


def test_the_base_is_scored_once_it_is_there(bench: Bench) -> None:
    alone = results_of(bench(*asked("--json")))
    assert list(alone["little-mr"]["unseen"]) == ["accuracy_unseen"]
    other = ["run", "--model", "base", "--tasks", "little-mr", "--kfold", "4", *ALONE]
    assert bench(*other).code == 0
    again = results_of(bench(*asked("--json")))
    assert {n: r["unseen"] for n, r in again.items()} == {n: r["unseen"] for n, r in alone.items()}
    bench(*asked(model="base", tasks=["little-mr"]))
    later = results_of(bench(*asked("--json")))
    assert list(later["little-mr"]["unseen"]) == ["accuracy_unseen", "accuracy_unseen_base"]
    assert later["little-mr"]["reused"]
    assert list(later["little-sts"]["unseen"]) == ["spearman_unseen"]


def test_a_result_is_counted_later_and_not_made_again(bench: Bench) -> None:
    made = Path("own/train.json").read_bytes()
    Path("own/train.json").unlink()
    before = results_of(bench(*asked("--json")))
    assert {(r["seen"], r["unseen"]) for r in before.values()} == {(None, None)}
    stored = {r.path: r.path.read_bytes() for r in read_results(Path("results"))}
    Path("own/train.json").write_bytes(made)
    after = results_of(bench(*asked("--json")))
    assert {n: (r["reused"], bool(r["unseen"])) for n, r in after.items()} == dict.fromkeys(
        TASKS, (True, True)
    )
    assert {n: r["run"] for n, r in after.items()} == {n: r["run"] for n, r in before.items()}
    for result in read_results(Path("results")):
        assert result.path.read_bytes() == stored[result.path]
        content = json.loads(result.path.with_suffix(".provenance.json").read_text())
        assert content["scores_sha256"] == scores_digest(result)
        assert (result.seen, result.unseen) == tuple(after[result.task][n] for n in _COUNTED)


_COUNTED = ("seen", "unseen")


def test_where_every_row_was_seen_there_is_no_score(bench: Bench, workshop: Workshop) -> None:
    rows = parts(workshop, "little-sts")["all"]
    texts = sorted({text for row in rows for text in row})
    write_task(workshop.tasks, sources=[(t, str(i % 2)) for i, t in enumerate(texts)])
    shutil.rmtree("own")
    shutil.copytree("base", "own")
    made_run(Path("own"), workshop.tasks, Margins(held_out=0), base="base")
    (result,) = results_of(bench(*asked("--json", tasks=["little-sts"]))).values()
    assert result["seen"]["all"]["normalised"] == len(rows)
    nothing = {"score": None, "low": None, "high": None, "n": 0}
    assert result["unseen"] == {"spearman_unseen": nothing}


# Tables


def test_run_prints_what_was_seen(bench: Bench, workshop: Workshop) -> None:
    found = results_of(bench(*asked("--json")))
    done = bench(*asked())
    rows = list(rows_of(done.out, "## Transfer, senteval-exact, k = 3: rows seen in training"))
    assert rows[0] == ["task", "accuracy", "seen", "accuracy, unseen", "base, unseen"]
    tested = {"little-mr": "all", "little-mrpc": "test", "little-sst2": "test"}
    assert {row[0] for row in rows[1:]} == {*tested}
    for name, accuracy, seen, unseen, base in rows[1:]:
        n = len(parts(workshop, name)[tested[name]])
        shares = found[name]["seen"][tested[name]]["normalised"] / n
        assert (accuracy, seen, unseen, base) == (
            f"{100 * found[name]['scores']['accuracy']:.2f}",
            f"{100 * shares:.2f}",
            f"{100 * found[name]['unseen']['accuracy_unseen']['score']:.2f}",
            "-",
        )
    assert "## STS, sts-cosine: rows seen in training" in done.out
    lines = [line.split("|") for line in done.out.splitlines() if " rows" in line]
    of = [(line[1].strip(), line[2].strip()) for line in lines if len(line) > len(_COUNTED)]
    assert ("little-mr", "40 rows") in of
    assert ("little-sst2", "80 rows of train") in of
    assert ("little-sts", "48 rows") in of


def test_a_board_shows_both_scores_and_a_dash_where_training_is_not_known(bench: Bench) -> None:
    assert bench(*asked(model="base")).code == 0
    plain = render(read_board(Path("results")))
    assert "seen" not in plain, "a board of what nobody trained here is what it was"
    found = results_of(bench(*asked("--json")))
    text = render(read_board(Path("results")))
    titles, *rows = rows_of(text, "## STS, sts-cosine: rows seen in training")
    scores = ["Spearman all", "seen", "Spearman all, unseen", "base, unseen"]
    assert titles == ["task", "encoder", *scores]
    known = {(task, encoder): numbers for task, encoder, *numbers in rows}
    assert {*known} == {(t, e) for t in ("little-sts", "little-stsb") for e in ("own", "base")}
    assert [numbers[1:] for (_, e), numbers in known.items() if e == "base"] == [["-"] * 3] * 2
    unseen = found["little-sts"]["unseen"]
    assert known["little-sts", "own"][2:] == [
        f"{100 * unseen[name]['score']:.2f}" for name in ("spearman_unseen", "spearman_unseen_base")
    ]
    assert "No mean is taken over unseen rows." in text


def test_of_an_encoder_that_saw_no_row_all_rows_are_unseen(bench: Bench) -> None:
    bench(*asked(tasks=["little-sts"]))
    (result,) = read_results(Path("results"))
    none = replace(result, seen={"all": {"normalised": 0}}, unseen={})
    table = unseen_table([("task", ["a", "a"])], [none, replace(result, seen=None, unseen=None)])
    score = result.main.mean
    assert [column.values for column in table.columns] == [
        [score, score],
        [0.0, None],
        [score, None],
        [None, None],
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("accuracy, unseen", "over the rows that are not training texts"),
        ("accuracy_unseen", "over the rows that are not training texts"),
        ("spearman_unseen_base", "score of the base over the rows that are not training texts"),
        ("base, unseen", "the base that the encoder was trained from"),
    ],
)
def test_names_are_explained(name: str, said: str) -> None:
    assert said in explain(name)


@pytest.mark.real
@pytest.mark.slow
def test_how_much_of_transfer_stands_in_the_training_pool_of_sst2(data_dir: Path) -> None:
    """Counted anew by sets of words, and said so in docs/protocols.md and README.md."""
    access, known = DataAccess(data_dir, offline=True), load_tasks()
    pool = load_training_data(known["sst2"], access, held_out=None, seed=0).pool.texts
    exact, in_pool = set(pool), {" ".join(words(text)) for text in pool} - {""}
    lines = []
    for name, part in AFFECTED:
        rows = known[name].load(access, Settings()).rows_by_part[part]
        seen = seen_rows(rows, TrainingTexts.of(pool))["normalised"]
        alike = [row[0] in exact or " ".join(words(row[0])) in in_pool for row in rows]
        assert seen.tolist() == alike
        title = name.upper().removesuffix("-TRANSFER") + ("" if part == "all" else f", {part}")
        n, of = int(seen.sum()), len(seen)
        lines.append(f"| {title} | {of:,} | {n:,} ({100 * n / of:.1f} %) |")
    text = (Path(__file__).parents[2] / "docs" / "protocols.md").read_text(encoding="utf-8")
    table = text.partition("<!-- rows-seen -->")[2].partition("<!-- /rows-seen -->")[0]
    assert table.strip().splitlines()[2:] == lines
    assert lines[0] == "| MR | 10,662 | 5,131 (48.1 %) |"


@pytest.mark.real
@pytest.mark.slow
def test_which_pairs_hold_a_text_of_snli(data_dir: Path) -> None:
    """As docs/protocols.md says."""
    access, known = DataAccess(data_dir, offline=True), load_tasks()
    pairs = load_nli(["nli/snli_1.0_train_subset.jsonl.gz"], access)
    trained_on = TrainingTexts.of([*pairs.premises, *pairs.hypotheses])
    shares = {}
    for name, part in (("sts12", "all"), ("sts15", "all"), ("stsb", "all"), ("sick-r", "test")):
        rows = known[name].load(access, Settings()).rows_by_part[part]
        seen = seen_rows(rows, trained_on)["normalised"]
        shares[name] = f"{seen.mean():.1%}"
    assert shares == {"sts12": "6.7%", "sts15": "7.5%", "stsb": "11.8%", "sick-r": "10.8%"}


def test_a_board_of_polarity_and_of_seen_rows_has_tables_of_both(bench: Bench) -> None:
    """Rows of bounds and curves are of no encoder, and are in no table of seen rows."""
    for model in ("base", "own"):
        assert bench(*asked(model=model, tasks=["mini", "little-mr"])).code == 0
    board = render(read_board(Path("results")))
    (titles, *rows) = rows_of(board, ": rows seen in training")
    assert titles[:2] == ["task", "encoder"]
    assert {row[1] for row in rows} == {"base", "own"}
    assert "gold labels (oracle)" in board


def leaky(workshop: Workshop) -> list[str]:
    """Write a polarity task without an unseen copy; all its queries but two were trained on."""
    queries = [(text, str(i % 2)) for i, text in enumerate(trained_on(workshop)[:6])]
    queries += [("Never a warm day .", "1"), ("Never a dull day .", "0")]
    sources = [
        (f"A {word} walk in {month}.", str(y))
        for y, word in enumerate(("dull", "kind"))
        for month in ("March", "April", "May", "June", "July", "August")
    ]
    write_task(workshop.tasks, "leaky", queries=queries, sources=sources)
    return ["leaky"]


def test_a_board_says_that_the_queries_of_a_plain_task_were_seen(
    bench: Bench, workshop: Workshop
) -> None:
    """In the table, in the finding, in a comparison and in the model card."""
    tasks = leaky(workshop)
    for model in ("base", "own"):
        assert bench(*asked(model=model, tasks=tasks)).code == 0
    text = render(read_board(Path("results")))
    titles, *rows = rows_of(text, "## Summary: leaky")
    assert {row[0]: row[titles.index("queries seen")] for row in rows} == {
        "own": "75.00",
        "base": "-",
        "gold labels (oracle)": "-",
        "random retrieval": "-",
    }
    assert "sources seen" not in titles
    by_name = {row[0]: dict(zip(titles, row, strict=True)) for row in rows}
    (result,) = (r for r in read_results(Path("results")) if r.seen)
    assert result.unseen is not None
    assert set(result.unseen) == {"joint_of_unseen_at_4", "joint_of_unseen_base_at_4"}
    for column, score in zip(
        ("joint, unseen", "base, unseen"), result.unseen.values(), strict=True
    ):
        assert score["n"] == 2
        assert by_name["own"][column] == f"{100 * (score['score'] or 0):.2f}"
        assert by_name["base"][column] == "-"
    assert " (75.00 % of the queries seen in training) " in text.partition("## ")[0]
    assert "queries seen, sources seen: the share of the texts" in text
    compared = bench("compare", "base", "own", "--task", "leaky", "--measure", "P")
    assert "75.00 % of the queries seen in training" in compared.out
    as_json = json.loads(bench("compare", "base", "own", "--task", "leaky", "--json").out)
    assert as_json["a"]["seen"] is None
    assert as_json["b"]["seen"]["queries"]["normalised"] == 6
    gate = bench(*asked("--fail-under", "base", tasks=tasks))
    assert "75.00 % of the queries seen in training" in gate.out.partition("## Gate")[2]


def test_an_encoder_saved_again_does_not_look_unseen(bench: Bench, workshop: Workshop) -> None:
    """Its base is found, its training is not: a dash, and never 0."""
    model = SentenceTransformer("own")
    write_base(model, Base(str(Path("base").absolute()), load_encoder("base").id))
    model.save_pretrained("again")
    tasks = [*leaky(workshop), "little-mr"]
    assert bench(*asked(model="base", tasks=tasks)).code == 0
    done = bench(*asked(model="again", tasks=tasks))
    assert "warning: again was trained, but its training texts are unknown" in done.err
    lines = [line.split("|") for line in done.out.splitlines() if "8 queries" in line]
    assert [cell.strip() for cell in lines[-1][3:7]] == ["-"] * 4
    assert all(result.seen is None for result in read_results(Path("results")))
    text = render(read_board(Path("results")))
    titles, *rows = rows_of(text, "## Means" if "## Means" in text else "## Summary: leaky")
    assert {row[titles.index("queries seen")] for row in rows} == {"-"}
    assert " (training texts unknown) " in text.partition("## ")[0]
    cells = list(rows_of(text, "## Transfer, senteval-exact, k = 3: rows seen in training"))
    assert {tuple(row[3:]) for row in cells[1:]} == {("-",) * 3}


@pytest.mark.parametrize("damage", ["scores", "values"])
def test_the_base_is_left_out_where_its_result_is_damaged(bench: Bench, damage: str) -> None:
    results_of(bench(*asked("--json", model="base", tasks=["little-mr"])))
    path = next(read_results(Path("results"))).path
    if damage == "scores":
        path.write_text("{")
    else:
        arrays = read_arrays(path)
        save_file(
            {**arrays, "prediction": arrays["label"]}, path.with_suffix(".queries.safetensors")
        )
    (found,) = results_of(bench(*asked("--json", tasks=["little-mr"]))).values()
    assert found["seen"]["all"]["normalised"] > 0
    assert list(found["unseen"]) == ["accuracy_unseen"]
