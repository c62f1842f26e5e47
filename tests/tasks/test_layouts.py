"""Every layout of the page on own data becomes a task with the same rows, or says why not."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import json
import lzma
import re
import shlex
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mteb
import pandas as pd
import pytest
from hub import Repo, serve
from hub import bench as call_hub
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from standins import Bench

from polarity_bench import (
    DataAccess,
    InputError,
    Job,
    Settings,
    evaluate,
    load_task,
    register,
    task_from,
)
from polarity_bench.data import readers
from polarity_bench.errors import InputWarning
from polarity_bench.tasks import scaffold
from polarity_bench.tasks.catalogue import read_task
from polarity_bench.tasks.types.polarity.task import PolarityTask
from polarity_bench.training.recipes import RECIPES

Rows = list[tuple[str, str]]
PAGE = Path(__file__).parents[2] / "docs" / "own-data.md"
COMMANDS: dict[str, str] = dict(
    re.findall(r"^\| (.+) \| `polarity-bench (tasks new .+)` \|$", PAGE.read_text("utf-8"), re.M)
)
TASTES = {"neg": ["cold", "stale", "burnt"], "pos": ["warm", "fresh", "sweet"]}


def sentences(*dishes: str) -> Rows:
    return [
        (f"The {dish} was {taste}, that's “so” • déjà vu.", label)
        for label, tastes in TASTES.items()
        for taste in tastes
        for dish in dishes
    ]


TRAIN = sentences("bread", "cake", "rice", "soup", "tea")
TEST = sentences("pie", "stew")


def frame(rows: Rows, text: str = "text", label: str = "label") -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[text, label])


def digest(source: Rows, query: Rows) -> str:
    """The digest of a task, by a loop of its own."""
    sha = hashlib.sha256()
    for rows in (source, query):
        for column in range(2):
            for row in rows:
                sha.update(row[column].encode() + b"\x00")
            sha.update(b"\x01")
    return sha.hexdigest()[:16]


def new_task(data: Sequence[Any], labels: Mapping[str, str] | None = None, **options: Any) -> Path:
    """Write a task file, and check that the rows in memory are those that the file reads."""
    pairs = [(name, v) for name, values in (labels or {}).items() for v in values.split(",")]
    task = scaffold.new_task(data, labels=pairs, **options)
    access = DataAccess(offline=True)
    splits = [task.spec.load_split(name, access) for name in ("source", "query")]
    assert splits == [task.source, task.query]
    return task.spec.file


def load(file: Path) -> PolarityTask:
    task = read_task(file).load(DataAccess(offline=True), Settings())
    assert isinstance(task, PolarityTask)
    return task


def rows_of(task: PolarityTask) -> tuple[Rows, Rows]:
    source, query = (
        list(zip(side.texts, side.labels, strict=True)) for side in (task.source, task.query)
    )
    return source, query


def pair(write: Callable[[pd.DataFrame, Path], object], suffix: str) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        for name, rows in (("train", TRAIN), ("test", TEST)):
            write(frame(rows), folder / f"{name}{suffix}")

    return build


def csv_in(encoding: str, sep: str = ",", header: bool = True) -> Callable[[pd.DataFrame], bytes]:
    return lambda rows: rows.to_csv(sep=sep, index=False, header=header).encode(encoding)


def fasttext(rows: pd.DataFrame, path: Path) -> None:
    pairs = zip(rows["label"], rows["text"], strict=True)
    path.write_text("".join(f"__label__{label} {text}\n" for label, text in pairs), "utf-8")


def jsonl(rows: pd.DataFrame) -> bytes:
    return rows.to_json(orient="records", lines=True).encode()


def single(name: str, convert: Callable[[Rows], bytes]) -> Callable[[Path], None]:
    return lambda folder: void((folder / name).write_bytes(convert(TRAIN)))


def void(_: object) -> None:
    return


def split_column(folder: Path) -> None:
    parts = [frame(TRAIN).assign(split="train"), frame(TEST).assign(split="test")]
    pd.concat(parts).to_csv(folder / "all.csv", index=False)


def sentiment140(folder: Path) -> None:
    rows = [
        (label, str(i), "Mon Apr 06 22:19:45 2009", "NO_QUERY", f"user{i}", text)
        for i, (text, label) in enumerate(TRAIN)
    ]
    content = pd.DataFrame(rows).to_csv(index=False, header=False, quoting=1)
    (folder / "tweets.csv").write_text(content, "utf-8")


def stars(folder: Path) -> None:
    rows = [
        (i, {"neg": "12", "pos": "54"}[label][i % 2], "so so", text)
        for i, (text, label) in enumerate(TRAIN)
    ]
    rows += [(99, "3", "so so", "The salad was there."), (100, "3", "so so", "A table.")]
    table = pd.DataFrame(rows, columns=["Id", "Score", "Summary", "Text"])
    table.to_csv(folder / "stars.csv", index=False)


def scale(folder: Path) -> None:
    values = {"neg": [0.0, 0.125, 0.4], "pos": [1, 0.75, 0.6]}
    rows = [(text, values[label][i % 3]) for i, (text, label) in enumerate(TRAIN)]
    rows.append(("The salad was there.", 0.5))
    pd.DataFrame(rows, columns=["text", "score"]).to_csv(folder / "scale.csv", index=False)


def folders(folder: Path) -> None:
    for part, rows in (("train", TRAIN), ("test", TEST)):
        for i, (text, label) in enumerate(rows):
            path = folder / "aclImdb" / part / label / f"{i:02d}_9.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        (folder / "aclImdb" / part / f"urls_{part}.txt").write_text("http://localhost\n")
    unlabelled = folder / "aclImdb" / "train" / "unsup"
    unlabelled.mkdir()
    (unlabelled / "0_0.txt").write_text("A salad.")


def archive(folder: Path) -> None:
    folders(folder)
    with tarfile.open(folder / "aclImdb.tar.gz", "w:gz") as packed:
        packed.add(folder / "aclImdb", "aclImdb")
    shutil.rmtree(folder / "aclImdb")


def packed(folder: Path) -> None:
    with zipfile.ZipFile(folder / "packed.zip", "w") as file:
        file.writestr("reviews/train.csv", csv_in("utf-8")(frame(TRAIN)))
        file.writestr("reviews/test.csv", csv_in("utf-8")(frame(TEST)))
        file.writestr("__MACOSX/._train.csv", b"\x00\x05")


def saved(folder: Path) -> None:
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["neg", "pos"])
    parts = {
        part: datasets.Dataset.from_dict(
            {"text": [t for t, _ in rows], "label": [names.str2int(y) for _, y in rows]},
            features=datasets.Features(text=datasets.Value("string"), label=names),
        )
        for part, rows in (("train", TRAIN), ("test", TEST))
    }
    datasets.DatasetDict(parts).save_to_disk(folder / "saved")


def excel(rows: pd.DataFrame, path: Path) -> None:
    pytest.importorskip("openpyxl")
    rows.to_excel(path, index=False)


BUILD: dict[str, Callable[[Path], None]] = {
    "CSV with a header, two files": pair(
        lambda rows, path: path.write_bytes(csv_in("utf-8")(rows)), ".csv"
    ),
    "CSV with semicolons, in a common encoding": single(
        "reviews.csv", lambda rows: csv_in("cp1252", ";")(frame(rows))
    ),
    "TSV": pair(lambda rows, path: path.write_bytes(csv_in("utf-8", "\t")(rows)), ".tsv"),
    'Excel\'s "Unicode text" (UTF-16 with tabs)': pair(
        lambda rows, path: path.write_bytes(csv_in("utf-16", "\t")(rows)), ".txt"
    ),
    "a column that names the split": split_column,
    "JSON lines, also compressed": pair(
        lambda rows, path: path.write_bytes(gzip.compress(jsonl(rows))), ".jsonl.gz"
    ),
    "JSON array of objects, or an object that contains it": pair(
        lambda rows, path: path.write_text(rows.to_json(orient="records", indent=1)), ".json"
    ),
    "Parquet": pair(lambda rows, path: rows.to_parquet(path), ".parquet"),
    "Excel": pair(excel, ".xlsx"),
    "text, tab, label; no header": single(
        "plain.txt", lambda rows: csv_in("utf-8", "\t", header=False)(frame(rows))
    ),
    "CSV without a header, such as Sentiment140": sentiment140,
    "fastText (`__label__pos text`)": pair(fasttext, ".ft.txt"),
    "stars": stars,
    "a scale": scale,
    "one file per text, a folder per label": folders,
    "tar archive of such a folder": archive,
    "zip archive of data files": packed,
    "folder of `Dataset.save_to_disk` or `DatasetDict.save_to_disk`": saved,
}
HUB = "data set on the hub"
CARD = """---
configs:
- config_name: config
  data_files:
  - split: train
    path: train.jsonl
  - split: test
    path: test.jsonl
- config_name: other
  data_files: other.jsonl
dataset_info:
- config_name: config
  features:
  - name: text
    dtype: string
  - name: label
    dtype:
      class_label:
        names:
          '0': neg
          '1': pos
---
"""


def test_every_layout_of_the_page_is_built() -> None:
    assert {*COMMANDS} == {*BUILD, HUB}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, Rows]:
    """Sources and queries that are drawn from one file: all rows, with both classes."""
    folder = tmp_path_factory.mktemp("drawn")
    frame(TRAIN).to_csv(folder / "plain.csv", index=False)
    source, query = rows_of(load(new_task([folder / "plain.csv"])))
    assert sorted(source + query) == sorted(TRAIN)
    assert (len(query), {label for _, label in query}) == (6, {"neg", "pos"})
    return source, query


@pytest.mark.parametrize("layout", BUILD)
def test_a_layout_becomes_a_task_with_the_same_rows(
    layout: str, bench: Bench, tmp_path: Path, drawn: tuple[Rows, Rows]
) -> None:
    BUILD[layout](tmp_path)
    done = bench(*shlex.split(COMMANDS[layout]))
    assert (done.code, "warning" in done.err) == (0, False), done.err
    (file,) = tmp_path.glob("*.toml")
    task = load(file)
    has_two_parts = len(drawn[0]) + len(drawn[1]) != len(task.source) + len(task.query)
    source, query = (TRAIN, TEST) if has_two_parts else drawn
    assert rows_of(task) == (source, query)
    assert task.digest == digest(source, query)
    for text, label in query[:: len(query) // 3]:
        assert f"{text!r} has the label {label!r}" in done.err


def test_a_data_set_on_the_hub_becomes_a_task_with_the_same_rows(tmp_path: Path) -> None:
    files = {"README.md": CARD.encode(), "other.jsonl": b'{"text": "a", "label": 0}'}
    for part, rows in (("train", TRAIN), ("test", TEST)):
        files[f"{part}.jsonl"] = jsonl(frame(renamed(rows, neg="0", pos="1")))
    commands = {
        "made": COMMANDS[HUB],
        "refused": "tasks new hf:owner/name[gone] --name x",
        "missing": "tasks new hf:owner/gone --name x",
    }
    with serve() as hub:
        hub.repos["datasets", "owner/name"] = Repo("d" * 40, files)
        done, refused, missing = call_hub(hub, tmp_path, commands).values()
    assert done.code == 0, done.err
    assert not [each for each in (done, refused, missing) if "Traceback" in each.err]
    (file,) = tmp_path.glob("*.toml")
    assert f"# made from hf:owner/name[config]@{'d' * 40}" in file.read_text("utf-8")
    task = load(file)
    assert rows_of(task) == (TRAIN, TEST)
    assert task.digest == digest(TRAIN, TEST)
    assert refused.code == missing.code == 2
    assert "hf:owner/name[gone]: cannot be read as hub data set: BuilderConfig" in refused.err
    assert "Available: ['config', 'other']" in refused.err
    assert "hf:owner/gone: cannot be read as hub data set" in missing.err


# Encodings


@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize("sep", [",", "\t", ";"])
@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252", "latin-1"],
)
def test_any_encoding_is_detected_and_recorded(
    tmp_path: Path, encoding: str, sep: str, end: str
) -> None:
    rows = [(text.replace("“so” •", "très"), label) for text, label in TRAIN]
    content = frame(rows).to_csv(index=False, sep=sep).removesuffix("\n") + end
    for name in ("train", "test"):
        (tmp_path / f"{name}{'.tsv' if sep == '	' else '.csv'}").write_bytes(
            content.encode(encoding)
        )
    with pytest.raises(InputError, match="queries also occur among the sources"):
        new_task(sorted(tmp_path.iterdir()), task_name="coded")
    task = load_overlap(tmp_path / "coded.toml")
    assert rows_of(task) == (rows, rows)
    recorded = task.spec.format.encoding
    assert "é".encode(recorded) in {"é".encode(encoding), "é".encode(), "é".encode("utf-16")}


def load_overlap(file: Path) -> PolarityTask:
    text = re.sub("# (overlap = [0-9]+)", r"\1", file.read_text("utf-8"))
    file.write_text(text, "utf-8")
    return load(file)


@pytest.mark.parametrize(
    ("texts", "encoding"),
    [
        (["Суп был отличный и горячий", "Очень плохо и холодно"], "cp1251"),
        (["スープはとても美味しかったです", "とても悪かった、寒い"], "shift_jis"),
        (["Très déçu par « l'été » à Nîmes", "C'était très bien, ça m'a plu"], "cp1252"),
        (["Schöne Grüße aus München", "Das war übel für die Straße"], "latin-1"),
    ],
)
def test_other_alphabets(tmp_path: Path, texts: Sequence[str], encoding: str) -> None:
    rows = [(f"{texts[i % 2]} {i}.", "ab"[i % 2]) for i in range(40)]
    (tmp_path / "r.csv").write_bytes(csv_in(encoding)(frame(rows)))
    source, query = rows_of(load(new_task([tmp_path / "r.csv"])))
    assert sorted(source + query) == sorted(rows)


def test_nul_is_never_text(tmp_path: Path) -> None:
    content = frame(TRAIN).to_csv(index=False).replace("was cold", "was \x00 cold", 1)
    (tmp_path / "r.csv").write_text(content, "utf-8")
    with pytest.raises(InputError, match=r"r\.csv, line 2: the column 'text' contains a NUL"):
        new_task([tmp_path / "r.csv"])
    lines = [json.dumps({"text": t + "\ud800", "label": y}) for t, y in TRAIN]
    (tmp_path / "r.jsonl").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"r\.jsonl, line 1: the column 'text' contains a NUL"):
        new_task([tmp_path / "r.jsonl"])


# Labels


def two_files(folder: Path, source: Rows, query: Rows) -> list[Path]:
    frame(source).to_csv(folder / "train.csv", index=False)
    frame(query).to_csv(folder / "test.csv", index=False)
    return [folder / "train.csv", folder / "test.csv"]


def renamed(rows: Rows, **names: str) -> Rows:
    return [(text, names.get(label, label)) for text, label in rows]


def test_queries_with_labels_that_no_source_has_are_refused(tmp_path: Path) -> None:
    files = two_files(tmp_path, renamed(TRAIN, neg="0", pos="1"), TEST)
    message = (
        r"reviews: no source has the label 'neg' of the queries; the sources have '0', '1', the "
        r"queries 'neg', 'pos'; give equal labels one name in \[labels\] of the task file"
    )
    with pytest.raises(InputError, match=message):
        new_task(files, task_name="reviews")
    assert not (tmp_path / "reviews.toml").exists()
    file = new_task(files, task_name="reviews", labels={"neg": "0,neg", "pos": "1,pos"})
    assert rows_of(load(file)) == (TRAIN, TEST)


def test_a_task_whose_splits_have_other_labels_is_refused_by_run_and_mteb(
    tmp_path: Path, bench: Bench
) -> None:
    two_files(tmp_path, renamed(TRAIN, neg="0", pos="1"), TEST)
    file = tmp_path / "reviews.toml"
    file.write_text(
        'name = "reviews"\nkind = "polarity"\ntitle = "T"\n[labels]\n0 = "bad"\n1 = "good"\n'
        'neg = "negative"\npos = "positive"\n[splits.source]\npath = "train.csv"\n'
        '[splits.query]\npath = "test.csv"\n[protocol]\nk = 4\n'
    )
    message = "reviews: no source has the label 'negative' of the queries"
    done = bench("run", "--model", "random", "--tasks", "reviews", "--task-dir", file)
    assert done.code != 0
    assert message in done.out + done.err
    with pytest.raises(InputError, match=message):
        load_task("reviews", task_dir=file, access=DataAccess(offline=True))
    register(file)
    with pytest.raises(InputError, match=message):
        mteb.get_task("ReviewsPolarityRetrieval").load_data()
    file.write_text(file.read_text().replace("negative", "bad").replace("positive", "good"))
    assert {*load(file).query.labels} == {"bad", "good"}


def test_a_label_that_no_query_has_is_a_warning(tmp_path: Path) -> None:
    mixed = [*TRAIN, ("The salad was there.", "mixed"), ("A table.", "mixed")]
    said = "no query has the label 'mixed' of the sources; the queries have 'neg'"
    with pytest.warns(InputWarning, match=said):
        file = new_task(two_files(tmp_path, mixed, TEST), task_name="reviews")
    with pytest.warns(InputWarning, match=said):
        load(file)


@pytest.mark.parametrize(
    "variant", ["Pos", " pos", "POS ", "\u00a0pos", "\uff50\uff4f\uff53", "pos"]
)
def test_labels_that_a_person_reads_as_equal_get_one_name(tmp_path: Path, variant: str) -> None:
    rows = [*TRAIN[:-2], *renamed(TRAIN[-2:], pos=variant)]
    files = two_files(tmp_path, rows, TEST)
    if variant == "pos":
        file = new_task(files, task_name="reviews")
    else:
        with pytest.warns(InputWarning, match="differ from others only in case, white space or"):
            file = new_task(files, task_name="reviews")
    assert rows_of(load(file)) == (TRAIN, TEST)
    assert len(load(file).spec.labels) == 2 + (variant != "pos")


def test_numbers_that_are_equal_get_one_name(tmp_path: Path) -> None:
    rows = [*renamed(TRAIN[:-2], neg="0", pos="1"), *renamed(TRAIN[-2:], pos="1.0")]
    with pytest.warns(InputWarning, match=r"the labels '1\.0' differ"):
        file = new_task(two_files(tmp_path, rows, renamed(TEST, neg="0", pos="1")), task_name="n")
    assert {*load(file).source.labels} == {"0", "1"}


def test_names_of_classes_that_differ_in_case_alone_are_refused(task_dir: Path) -> None:
    file = task_dir / "mini.toml"
    file.write_text(file.read_text().replace('0 = "bad"', '0 = "bad"\n2 = "Bad "'))
    with pytest.raises(InputError, match=r"'labels': the name 'bad' differs from another only in"):
        read_task(file)


REVIEWS = "Id,ProductId,UserId,Score,Summary,Text\n"


@pytest.mark.parametrize("name", ["Score", "stars", "Rating", "sentiment", "gold", "y", "class"])
def test_the_label_column_of_a_review_file(tmp_path: Path, name: str) -> None:
    rows = [
        f'{i},P{i % 3},U{i},{1 + 4 * (i % 2)},ok,"The {i}th soup, a long way from here."'
        for i in range(40)
    ]
    (tmp_path / "r.csv").write_text(REVIEWS.replace("Score", name) + "\n".join(rows))
    task = load(new_task([tmp_path / "r.csv"]))
    assert (task.spec.format.text, task.spec.format.label) == ("Text", name)


def test_an_unknown_label_column_has_few_values_but_not_one(tmp_path: Path) -> None:
    rows = [(f"u{i}", "ok", "ab"[i % 2], f"The {i}th soup was long.") for i in range(40)]
    table = pd.DataFrame(rows, columns=["user", "note", "verdict", "said"])
    table.to_csv(tmp_path / "r.csv", index=False)
    task = load(new_task([tmp_path / "r.csv"]))
    assert (task.spec.format.text, task.spec.format.label) == ("said", "verdict")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"neg": "1,2", "pos": "4,6"}, r"`labels`: no row has the label '6' of 'pos'; known: 1"),
        ({"neg": "1..3", "pos": "3..5"}, r"`labels`: the label '3' belongs to 'neg' and 'pos'"),
        ({"neg": "1..2", "pos": "..1"}, r"`labels`: the label '1' belongs to 'neg' and 'pos'"),
        ({"neg": "1,2"}, r"every source has the label 'neg'; a polarity task"),
    ],
)
def test_classes_that_do_not_fit_the_labels(
    tmp_path: Path, labels: dict[str, str], message: str
) -> None:
    stars(tmp_path)
    with pytest.raises(InputError, match=message):
        new_task([tmp_path / "stars.csv"], labels=labels, task_name="stars")
    assert not list(tmp_path.glob("*.toml"))


def test_what_is_left_out_is_counted_in_the_task_file(tmp_path: Path, bench: Bench) -> None:
    stars(tmp_path)
    command = ["tasks", "new", "stars.csv", "--labels", "neg=..2.5", "--labels", "pos=4,5"]
    assert bench(*command).code == 0
    text = (tmp_path / "stars.toml").read_text("utf-8")
    assert '# class "neg" = "..2.5"\n# class "pos" = "4"\n# class "pos" = "5"\n' in text
    assert '# stars.csv: rows left out: 2 ("3": 2)\n' in text
    assert '# the column "class" has the class of "Score"\n' in text
    assert '[format] # guessed from the columns "Id", "Score", "Summary", "Text"\n' in text
    assert "[labels] # label in the file = its meaning\n" in text  # --labels gave the meanings
    assert bench("tasks", "new", "stars.csv", "--name", "scale").code == 0
    scale = (tmp_path / "scale.toml").read_text("utf-8")
    assert "meanings, or group the labels of a scale (docs/own-data.md)\n" in scale
    done = bench("tasks", "new", "stars.csv", "--name", "x", "--labels", "neg")
    assert (done.code, "--labels needs NAME=VALUES" in done.err) == (2, True)


# Columns and headers


def test_columns_are_named_by_the_user(tmp_path: Path) -> None:
    sentiment140(tmp_path)
    columns = ["label", "id", "date", "query", "user", "text"]
    file = new_task([tmp_path / "tweets.csv"], columns=columns, task_name="named")
    guessed = new_task([tmp_path / "tweets.csv"], task_name="guessed")
    assert load(file).digest == load(guessed).digest
    with pytest.raises(InputError, match=r"tweets\.csv, line 1: expected 2 columns, .* got 6"):
        new_task([tmp_path / "tweets.csv"], columns=["label", "text"], task_name="few")


def test_a_header_that_is_guessed_is_recorded(tmp_path: Path) -> None:
    for name, rows in (("train", TRAIN), ("test", TEST)):
        frame(rows).to_csv(tmp_path / f"{name}.tsv", sep="\t", header=False, index=False)
    file = new_task([tmp_path / "train.tsv", tmp_path / "test.tsv"], task_name="bare")
    assert 'header = ["column1", "column2"]' in file.read_text("utf-8")
    assert rows_of(load(file)) == (TRAIN, TEST)


def test_quotation_marks_between_tabs_are_text(tmp_path: Path) -> None:
    rows = [(f'"{text}" they said', label) for text, label in TRAIN]
    content = "".join(f"{text}\t{label}\n" for text, label in rows)
    (tmp_path / "r.tsv").write_text("text\tlabel\n" + content, "utf-8")
    source, query = rows_of(load(new_task([tmp_path / "r.tsv"])))
    assert sorted(source + query) == sorted(rows)


# Empty rows


def test_empty_rows_are_counted_and_left_out_on_request(tmp_path: Path, bench: Bench) -> None:
    rows = [*TRAIN, *[("", "neg")] * 40, *[("A salad.", " ")] * 3]
    frame(rows).to_csv(tmp_path / "r.csv", index=False)
    done = bench("tasks", "new", "r.csv")
    assert done.code == 2
    assert (
        "r.csv, line 32; r.csv, line 33; r.csv, line 34: the text or label is empty in 43 of 73 "
        "rows; fill them in, or use --drop-empty to leave these rows out"
    ) in done.err
    assert bench("tasks", "new", "r.csv", "--drop-empty").code == 0
    assert "# r.csv: rows left out, with an empty text or label: 43\n" in (
        tmp_path / "r.toml"
    ).read_text("utf-8")
    source, query = rows_of(load(tmp_path / "r.toml"))
    assert sorted(source + query) == sorted(TRAIN)


def test_empty_texts_of_a_task_are_counted(task_dir: Path) -> None:
    path = task_dir / "mini-source.csv"
    path.write_text(path.read_text() + '"",1\n' * 5)
    with pytest.raises(
        InputError, match=r"mini-source\.csv, line 26: the text is empty, as in 5 of 29 rows"
    ):
        load(task_dir / "mini.toml")


# Messages


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.json", b"[1, 2]", r"r\.json: .*"),
        ("r.json", b'[{"text": "a"', r"r\.json: cannot be read as JSON array of objects"),
        ("r.zip", b"PK", r"r\.zip: cannot be read as archive"),
        ("r.xlsx", b"PK", r"r\.xlsx: cannot be read as Excel file"),
        ("r.parquet", b"PAR1", r"r\.parquet: cannot be read: .*; is the file damaged\?"),
        (
            "r.ft.txt",
            b"__label__a b\n__label__b\n",
            r"r\.ft\.txt, line 2: expected one __label",
        ),
        (
            "r.ft.txt",
            b"__label__a __label__b text\n",
            r"r\.ft\.txt, line 1: expected one __label__NAME and a text",
        ),
        ("r.csv", b"", r"r\.csv: expected at least two columns"),
        ("r.bin", bytes(range(256)), r"r\.bin"),
    ],
)
def test_a_file_that_is_no_task_says_why(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        new_task([tmp_path / name])


def test_an_archive_or_folder_without_data_says_what_it_needs(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "r.zip", "w") as file:
        file.writestr("a.csv", "text,label\n")
        file.writestr("b.csv", "text,label\n")
    message = r"r\.zip: expected one data file, files named train and test, .* got a\.csv, b\.csv"
    with pytest.raises(InputError, match=message):
        new_task([tmp_path / "r.zip"])
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as file:
        file.writestr("a.csv", "text,label\na,b,c\n")
    with pytest.raises(InputError, match=r"s\.zip/a\.csv, line 2: expected 2 columns"):
        new_task([tmp_path / "s.zip"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: expected one data file, .* got nothing"):
        new_task([tmp_path / "empty"])


def test_files_of_an_archive_that_are_not_used_are_named(tmp_path: Path) -> None:
    rows = csv_in("utf-8")
    with zipfile.ZipFile(tmp_path / "r.zip", "w") as file:
        file.writestr("train.csv", rows(frame(TRAIN[:6])))
        file.writestr("train2.csv", rows(frame(TRAIN[6:])))
        file.writestr("test.csv", rows(frame(TEST)))
        file.writestr("notes.csv", rows(frame(TEST)))
    with pytest.warns(InputWarning, match=r"not used: notes\.csv; the names do not begin with tr"):
        task = load(new_task([tmp_path / "r.zip"]))
    assert sorted(task.source.texts) == sorted(text for text, _ in TRAIN)


def test_an_excel_file_needs_openpyxl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polarity_bench.errors.find_spec", lambda _: None)
    (tmp_path / "r.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"an Excel file needs openpyxl; .* '\.\[excel\]'"):
        new_task([tmp_path / "r.xlsx"])


# From Python


def test_a_task_from_a_data_frame(tmp_path: Path) -> None:
    task = task_from(frame(TRAIN, "said", "mood"), frame(TEST, "said", "mood"), name="dishes")
    assert rows_of(task) == (TRAIN, TEST)
    again = task_from(frame(TRAIN, "said", "mood"), frame(TEST, "said", "mood"), name="dishes")
    assert again.spec.file == task.spec.file
    result = evaluate("random", task)
    assert result.task == "dishes"
    job = Job(
        RECIPES["margins"](),
        "minilm",
        task.spec.name,
        tmp_path / "run",
        task_dir=task.spec.file,
    )
    loaded = load_task(job.task, access=job.access(), task_dir=job.task_dir)
    assert loaded.digest == task.digest


def test_a_task_from_a_data_set(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    saved(tmp_path)
    whole = datasets.load_from_disk(tmp_path / "saved")
    assert rows_of(task_from(whole)) == (TRAIN, TEST)
    assert rows_of(task_from(whole["train"], whole["test"])) == (TRAIN, TEST)
    table = frame(renamed(TRAIN, neg="0", pos="1")).astype({"label": float})
    table.loc[len(table)] = ["A salad.", None]
    with pytest.raises(InputError, match=r"the data, row 31: the text or label is empty in 1 of"):
        task_from(table)
    task = task_from(table, drop_empty=True, labels={"bad": "0", "good": "1"}, folder=tmp_path)
    assert ({*task.source.labels}, task.spec.file) == ({"bad", "good"}, tmp_path / "own-data.toml")
    files = two_files(tmp_path, TRAIN, TEST)
    assert rows_of(task_from(*files, name="files")) == (TRAIN, TEST)
    with pytest.raises(InputError, match=r"expected a path, a DataFrame, .* got list"):
        task_from([1, 2])


# Damaged files

ORIGINALS: dict[str, Callable[[pd.DataFrame], bytes]] = {
    "r.csv": csv_in("utf-8"),
    "r.tsv": csv_in("utf-8", "\t"),
    "r.txt": csv_in("utf-16", "\t"),
    "r.jsonl": jsonl,
    "r.json": lambda rows: rows.to_json(orient="records").encode(),
    "r.csv.gz": lambda rows: gzip.compress(csv_in("utf-8")(rows), mtime=0),
    "r.ft.txt": lambda rows: "".join(
        f"__label__{y} {t}\n" for t, y in zip(rows["text"], rows["label"], strict=True)
    ).encode(),
}


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    """A file with flipped or cut bytes, in another encoding, or with swapped columns."""
    name = draw(st.sampled_from(sorted(ORIGINALS)))
    table = frame(TRAIN)
    if draw(st.booleans()):
        table = table[["label", "text"]]
    content = ORIGINALS[name](table)
    if not name.endswith(".gz") and draw(st.booleans()):
        encoding = draw(st.sampled_from(["utf-16", "utf-16-le", "utf-32", "cp1252", "cp500"]))
        content = content.decode("utf-8", "replace").encode(encoding, "replace")
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(content) - 1))
        byte = draw(st.sampled_from([b"\x00", b'"', b"\n", b"\t", b",", b"\xff", b"", b"{", b"\r"]))
        content = content[:at] + byte + content[at + 1 :]
    cut = draw(st.integers(0, len(content)))
    return name, content[cut:] if draw(st.integers(0, 5)) == 0 else content


@pytest.fixture
def no_other_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read no shipped task files, which takes longer than everything else."""
    monkeypatch.setattr(scaffold, "load_tasks", dict)


@pytest.mark.usefixtures("no_other_tasks")
@pytest.mark.filterwarnings("ignore::polarity_bench.errors.InputWarning")
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutated())
def test_a_damaged_file_becomes_a_task_or_an_error(
    tmp_path: Path, bench: Bench, made: tuple[str, bytes]
) -> None:
    name, content = made
    for path in tmp_path.iterdir():
        path.unlink()
    (tmp_path / name).write_bytes(content)
    done = bench("tasks", "new", name, "--name", "damaged")
    file = tmp_path / "damaged.toml"
    assert done.code in {0, 2}
    assert (done.code == 0) <= file.exists()
    if done.code == 2:
        assert done.err.splitlines()[-1].startswith("error: ")
    if file.exists():
        with contextlib.suppress(InputError):
            assert not any("\x00" in text for text in load(file).texts)


# What a first version read wrong without a word


def all_rows(task: PolarityTask) -> Rows:
    source, query = rows_of(task)
    return sorted(source + query)


def test_a_label_belongs_to_one_class_and_a_class_may_be_given_twice(
    bench: Bench, tmp_path: Path
) -> None:
    rows = [(f"{text} {i}", str(i % 4 + 1)) for i, (text, _) in enumerate(TRAIN + TEST)]
    frame(rows, label="stars").to_csv("s.csv", index=False)
    refused = bench("tasks", "new", "s.csv", "--labels", "neg=1,2", "pos=2,3")
    assert refused.code == 2
    assert "--labels: the label '2' belongs to 'neg' and 'pos'" in refused.err
    done = bench("tasks", "new", "s.csv", "--labels", "neg=1", "neg=2", "pos=3,4")
    assert done.code == 0, done.err
    assert len(all_rows(load(tmp_path / "s.toml"))) == len(rows)


@pytest.mark.parametrize(
    ("label", "others"),
    [
        ("star_rating", {"vine": ["Y", "N"], "product_id": range(100)}),
        ("airline_sentiment", {"airline": ["United", "Delta"]}),
        ("Overall Rating", {"verified": ["true", "false"]}),
    ],
)
def test_a_word_of_the_name_finds_the_labels(
    tmp_path: Path, label: str, others: dict[str, Sequence[Any]]
) -> None:
    rows = frame(TRAIN + TEST, label=label)
    for name, values in others.items():
        rows.insert(0, name, [values[i % len(values)] for i in range(len(rows))])
    task = load(new_task([rows], task_name="words", folder=tmp_path))
    assert task.spec.format.label == label


def test_each_sheet_of_a_workbook_is_a_part_and_cells_stay_as_they_are(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    parts = [renamed(rows, neg="01", pos="02") for rows in (TRAIN, TEST)]
    with pd.ExcelWriter(tmp_path / "book.xlsx") as writer:
        for name, rows in zip(("train", "test", "empty"), (*parts, []), strict=True):
            frame(rows).to_excel(writer, sheet_name=name, index=False)
    assert rows_of(load(new_task([tmp_path / "book.xlsx"]))) == tuple(parts)


def test_a_quotation_mark_in_a_tsv_joins_no_lines(tmp_path: Path) -> None:
    rows = [(f'"{text}' if i in {3, 9} else text, y) for i, (text, y) in enumerate(TRAIN)]
    rows[9] = (f'{rows[9][0][1:]}"', rows[9][1])
    lines = [f"{text}\t{label}" for text, label in rows]
    (tmp_path / "t.tsv").write_text("text\tlabel\n" + "\n".join(lines), "utf-8")
    assert all_rows(load(new_task([tmp_path / "t.tsv"]))) == sorted(rows)


def test_parts_that_are_neither_sources_nor_queries_are_named(tmp_path: Path) -> None:
    whole = pd.concat(
        [frame(TRAIN).assign(split="train"), frame(TEST).assign(split="val")]
        + [frame(sentences("fish")).assign(split=name, label="") for name in ("Train", "extra")]
    )
    whole.to_csv(tmp_path / "all.csv", index=False)
    said = r"all\.csv: 12 rows are not used, because their 'split' is 'Train', 'extra'"
    with pytest.warns(InputWarning, match=said):
        file = new_task([tmp_path / "all.csv"])
    assert rows_of(load(file)) == (TRAIN, TEST)


def test_texts_below_a_label_may_lie_in_folders(tmp_path: Path) -> None:
    for i, (text, label) in enumerate(TRAIN):
        folder = tmp_path / "r" / label / ("", "amazon/2001", "yelp")[i % 3]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}{('.txt', '.TXT')[i % 2]}").write_text(text, "utf-8")
    (tmp_path / "r" / ".checkpoints").mkdir()
    (tmp_path / "r" / ".checkpoints" / "0.txt").write_text("Not a review.")
    assert all_rows(load(new_task([tmp_path / "r"]))) == sorted(TRAIN)


def test_data_files_come_before_notes_beside_them(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    for place, text in (("docs/a.txt", "How to read."), ("logs/b.txt", "Done.")):
        (folder / place).parent.mkdir(parents=True)
        (folder / place).write_text(text)
    two_files(folder, TRAIN, TEST)
    assert rows_of(load(new_task([folder]))) == (TRAIN, TEST)


def test_no_member_of_a_zip_is_left_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "r.zip", "w") as archive:
        for i, (text, label) in enumerate(TRAIN):
            archive.writestr(f"r/{label}/{i}{'...' if i % 3 else '.'}txt", text)
    assert all_rows(load(new_task([tmp_path / "r.zip"]))) == sorted(TRAIN)


def test_one_byte_that_is_not_utf8_does_not_change_the_encoding(tmp_path: Path) -> None:
    lines = frame(TRAIN).to_csv(index=False).encode().splitlines()
    lines[4] = lines[4].replace(b"The", b"Th\xe9")
    (tmp_path / "r.csv").write_bytes(b"\n".join(lines))
    said = r"r\.csv, line 5: expected UTF-8, as in the rest of the file, got the byte 0xe9"
    with pytest.raises(InputError, match=said):
        new_task([tmp_path / "r.csv"])


def test_a_usual_name_makes_a_long_first_line_a_header(tmp_path: Path) -> None:
    question = "In a few words of your own, what did you like or dislike about your last stay?"
    frame(TRAIN, text=question, label="rating").to_csv(tmp_path / "r.csv", index=False)
    task = load(new_task([tmp_path / "r.csv"]))
    assert (task.spec.format.text, task.spec.format.label) == (question, "rating")
    assert all_rows(task) == sorted(TRAIN)


def test_labels_may_be_lists_in_python() -> None:
    rows = [(f"{text} {i}", str(i % 5 + 1)) for i, (text, _) in enumerate(TRAIN + TEST)]
    data = frame(rows, label="stars").astype({"stars": int})
    task = task_from(data, name="stars", labels={"neg": [1, 2], "pos": 5})
    assert {label for _, label in all_rows(task)} == {"neg", "pos"}
    assert len(all_rows(task)) == sum(label in "125" for _, label in rows)
    named = frame(renamed(rows, **{"1": "bad, very"}), label="stars")
    again = task_from(named, name="stars", labels={"neg": ["bad, very", 2], "pos": "5"})
    assert all_rows(again) == all_rows(task)


# What a review found


def test_odd_texts_are_written_so_that_they_read_back(tmp_path: Path) -> None:
    odd = ["a\rb", "a\r\nb", "a\nb\n", '"', 'a "b" c', " a ", "a,b;c\td", "\u2028", "#", "'", "\\"]
    rows = [(f"{odd[i % len(odd)]}{i}{odd[-i % len(odd)]}.", "ab"[i % 2]) for i in range(66)]
    assert all_rows(load(new_task([frame(rows)], task_name="odd", folder=tmp_path))) == sorted(rows)


@pytest.mark.parametrize("name", ["r.zip", "r.tar.gz", "r.csv.gz"])
def test_data_that_unpacks_to_far_more_than_texts_do_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(readers, "_MOST_UNPACKED", 10_000)
    (tmp_path / "r.csv").write_text("text,label\n" + "a" * 500_000)
    if name == "r.zip":
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.write(tmp_path / "r.csv", "r.csv")
    elif name == "r.tar.gz":
        with tarfile.open(tmp_path / name, "w:gz") as tar:
            tar.add(tmp_path / "r.csv", "r.csv")
    else:
        (tmp_path / name).write_bytes(gzip.compress((tmp_path / "r.csv").read_bytes(), mtime=0))
    message = rf"{name}: unpacks to more than [\d,]+ bytes, 100 times its size; .* unpack it yours"
    with pytest.raises(InputError, match=message):
        new_task([tmp_path / name])


def test_a_long_text_is_read(tmp_path: Path) -> None:
    rows = [*TRAIN[:-1], ("long " * 40_000 + ".", "pos")]
    frame(rows).to_csv(tmp_path / "r.csv", index=False)
    assert all_rows(load(new_task([tmp_path / "r.csv"]))) == sorted(rows)


@pytest.mark.parametrize("compress", [bz2.compress, lzma.compress])
def test_other_compressions(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    suffix = {bz2.compress: "bz2", lzma.compress: "xz"}[compress]
    path = tmp_path / f"r.csv.{suffix}"
    path.write_bytes(compress(csv_in("utf-8")(frame(TRAIN))))
    assert all_rows(load(new_task([path], task_name="packed"))) == sorted(TRAIN)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"r\.csv\..*: the compressed file is damaged"):
        new_task([path], task_name="cut")


@pytest.mark.parametrize("suffix", [".xls", ".db", ".sqlite3", ".XLS", ".pkl"])
def test_a_file_of_another_program_names_the_formats_to_export(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"r{suffix}").write_bytes(b"SQLite format 3\x00")
    with pytest.raises(
        InputError, match=rf"r{suffix}: {suffix} files .*; export the data as \.csv"
    ):
        new_task([tmp_path / f"r{suffix}"])


def test_grouped_labels_stay_in_the_files_for_a_breakdown(tmp_path: Path, bench: Bench) -> None:
    stars(tmp_path)
    file = new_task([tmp_path / "stars.csv"], labels={"neg": "1,2", "pos": "4,5"})
    task = load(file)
    assert {*task.query.labels} == {"neg", "pos"}
    edited = file.read_text("utf-8").replace("[protocol]", '[protocol]\nbreakdown = "Score"')
    edited = edited.replace('label = "class"', 'label = "class"\ncolumns = ["Score"]')
    file.write_text(edited, "utf-8")
    done = bench("run", "-m", "tfidf", "-t", "stars", "--task-dir", file, "--columns", "all")
    assert done.code == 0, done.err
    parts = set(re.findall(r"P, (\w+)", done.out))
    assert parts == set(load(file).query.columns["Score"])
    assert all(parts & each for each in ({"1", "2"}, {"4", "5"}))


def test_an_existing_file_of_a_task_is_refused_with_the_names_of_all(tmp_path: Path) -> None:
    stars(tmp_path)
    path = tmp_path / "stars.csv"
    file = new_task([path], labels={"neg": "1,2", "pos": "4,5"})
    source, query = (tmp_path / f"stars-{name}.csv" for name in ("source", "query"))
    files = re.escape(f"remove {file}, {source}, {query}")
    with pytest.raises(InputError, match=rf"source\.csv already exists; .* or {files}"):
        new_task([path], labels={"neg": "1", "pos": "5"})


def test_a_folder_may_hold_the_task_of_the_same_data(tmp_path: Path) -> None:
    task = task_from(frame(TRAIN), folder=tmp_path)
    again = task_from(frame(TRAIN), folder=tmp_path)
    assert (again.spec.file, again.digest) == (task.spec.file, task.digest)
    with pytest.raises(InputError, match=r"own-data-source\.csv already exists; choose another"):
        task_from(frame(TRAIN + TEST), folder=tmp_path)


@pytest.mark.parametrize(
    "convert",
    [
        lambda rows: json.dumps({"version": 1, "data": rows.to_dict("records")}),
        lambda rows: rows.to_json(),
        lambda rows: json.dumps(rows.to_dict("list"), indent=1),
    ],
)
def test_json_objects_that_contain_the_rows(
    tmp_path: Path, convert: Callable[[pd.DataFrame], str]
) -> None:
    (tmp_path / "r.json").write_text(convert(frame(TRAIN)))
    assert all_rows(load(new_task([tmp_path / "r.json"]))) == sorted(TRAIN)


def test_json_lines_may_lack_keys(tmp_path: Path) -> None:
    lines = [
        {"text": t, "label": y} | ({} if i % 3 else {"vote": i}) for i, (t, y) in enumerate(TRAIN)
    ]
    for name, order in (("a", lines), ("b", lines[1:] + lines[:1])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, order)))
        assert all_rows(load(new_task([tmp_path / f"{name}.jsonl"]))) == sorted(TRAIN)
    lines[4].pop("label")
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(InputError, match=r"c\.jsonl, row 5: the text or label is empty in 1 of 30"):
        new_task([tmp_path / "c.jsonl"])


@pytest.mark.parametrize("header", [["label", "text"], ["stars", "said"], ["Sentiment", "Tweet"]])
def test_columns_for_a_file_with_a_header_are_refused(tmp_path: Path, header: list[str]) -> None:
    table = frame(TRAIN)[["label", "text"]].set_axis(header, axis=1)
    table.to_csv(tmp_path / "r.csv", index=False)
    message = rf"r\.csv, line 1: expected a row, got the column names {', '.join(header)}; remove"
    with pytest.raises(InputError, match=message):
        new_task([tmp_path / "r.csv"], columns=["label", "text"])


def test_a_text_that_is_the_name_of_a_column_is_text(tmp_path: Path) -> None:
    rows = [("review", "neg"), *TRAIN]
    (tmp_path / "r.csv").write_bytes(csv_in("utf-8", header=False)(frame(rows)))
    task = load(new_task([tmp_path / "r.csv"], columns=["text", "label"]))
    assert all_rows(task) == sorted(rows)


BIG = ["9007199254740992", "9007199254740993", "10000000000000000001", "10000000000000000002"]


@pytest.mark.parametrize("labels", [BIG, ["x2", "x²", "½", "1/2"], ["1", "-1", "nan", "inf"]])
def test_labels_that_a_person_reads_as_different_stay_apart(
    tmp_path: Path, labels: list[str]
) -> None:
    rows = [(f"{text} {i}", labels[i % 4]) for i, (text, _) in enumerate(TRAIN + TEST)]
    (tmp_path / "r.jsonl").write_bytes(jsonl(frame(rows)))
    assert all_rows(load(new_task([tmp_path / "r.jsonl"]))) == sorted(rows)


def test_large_integers_beside_missing_values_stay_exact(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = [(f"{text} {i}", BIG[i % 2]) for i, (text, _) in enumerate(TRAIN + TEST)]
    columns = {
        "text": [*(t for t, _ in rows), "A salad."],
        "label": [*(int(y) for _, y in rows), None],
    }
    task = task_from(datasets.Dataset.from_dict(columns), drop_empty=True, folder=tmp_path)
    assert all_rows(task) == sorted(rows)
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    (tmp_path / "r.json").write_text(json.dumps(records))
    assert all_rows(load(new_task([tmp_path / "r.json"], drop_empty=True))) == sorted(rows)


def test_every_column_must_be_text(tmp_path: Path) -> None:
    lines = [json.dumps({"text": t, "label": y, "user": "\ud800"}) for t, y in TRAIN]
    (tmp_path / "r.jsonl").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"r\.jsonl, line 1: the column 'user' contains a NUL"):
        new_task([tmp_path / "r.jsonl"])
