"""Mutated files for every reader of what comes from outside.

A reader must return a value or raise InputError, within a second or so and a gigabyte. Anything
else is a defect: another exception, a hang, a burst of memory.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from standins import QUERIES, SOURCES, Workshop, write_task

from chaos.attacks import Figures
from chaos.children import call, run
from chaos.mutations import mutate

HANG, _BYTES = 2, 4_000_000
"""Seconds of computing after which a reader hangs, and bytes for which it has one more second. One
that waits ends with `children.TIMEOUT`."""
_BURST, _PER_BYTE = 500 * 2**20, 20
"""Bytes of memory more than before, at any time of a read, that count as a burst, and more of them
for each byte of the file: mutations repeat lines until there are millions."""
_MEMORY, _LARGEST = 3 * 2**30, 64 * 2**20
"""Bytes of memory that a reader has, and of the largest file; longer ones are cut."""


REPOSITORY = Path(__file__).parents[2]
BOARDS = REPOSITORY / "leaderboards"
_RICH_TASK = """
name = "rich"
kind = "polarity"
title = "A task with every setting"
description = "x"
languages = ["eng-Latn"]
domains = ["Reviews"]
licence = "mit"
homepage = "https://example.org/x"
citation = "@misc{x}"
labels = { 0 = "bad", 1 = "good", 2 = "bad" }
[format]
type = "csv"
delimiter = ","
quoted = true
encoding = "utf-8"
text = "text"
label = "label"
columns = ["label"]
[protocol]
k = 3
sources_per_query = 2
n_queries = 6
sample_seed = 1
overlap = 0
groups = ["label"]
breakdown = "label"
[splits.source]
path = "mini-source.csv"
rows = 12
label_rows = { bad = 4, good = 8 }
cut = { seed = 1, share = 0.5, rest = true }
format = { columns = ["label"], type = "csv" }
[splits.query]
path = "mini-query.csv"
[splits.query.hub]
id = "a/b"
revision = "0000000000000000000000000000000000000000"
split = "test"
config = "x"
"""
_RICH_BOARD = """
title = "Board"
introduction = "A [link](https://example.org) and `code`."
details = "x"
weighting = "uniform"
tasks = ["mini"]
encoders = ["tiny", "random"]
protocols = ["polarity-retrieval"]
columns = ["P", "S", "retention"]
measures = { sts = "Pearson all" }
sort = "P"
unmeasured = ["mr"]
group_by = "k"
keep = 0.5
gains = true
numbers = "labels"
[[method]]
name = "both"
encoders = ["tiny", "random"]
at = 3
line = "x"
"""
_RICH_GRID = """
title = "Rich"
tasks = ["mini"]
[all]
model = "tiny"
task = "mini"
seed = [0, 1]
[all.margins]
examples = 64
[[train]]
recipe = "axis"
head = "tuned"
strength = [1.0, 2.0]
skip = [{ strength = 1.0, seed = 1 }]
[[train]]
loss = ["mnrl", "triplet"]
rate = [1e-3, 1e-4]
[[evaluate]]
model = "random"
k = [1, 3]
[[cross-validate]]
task = ["mini"]
loss = ["cce", "triplet"]
rows = 20
folds = [2, 3]
"""


@dataclass(frozen=True)
class Reader:
    """A reader, and the sample file that is mutated.

    Attributes:
        name: What it reads.
        file: The sample, below the folder that `make_samples` makes.
        read: Function of that folder.
        more: Contents of further samples, which the reader need not accept.
        seal: Function of the folder that makes the checksums right again, so that the code behind
            them is reached, too.
        suffix: Format of the file, if its own suffix does not say it.
    """

    name: str
    file: str
    read: Callable[[Path], Any]
    more: Sequence[bytes] = ()
    seal: Callable[[Path], None] | None = None
    suffix: str = ""


@dataclass(frozen=True)
class Limit:
    """When to stop: after seconds of computing or, in every run alike, after a number of files.

    `first` is the number of the first file, so that a run can continue an earlier one.
    """

    seconds: float = math.inf
    files: float = math.inf
    first: int = 0


def fuzz(reader: Reader, samples: Path, folder: Path, seed: int, limit: Limit) -> Figures:
    """Read mutated files up to a limit, in a child with limited memory."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(samples, folder)
    report = folder.with_suffix(".json")
    report.unlink(missing_ok=True)
    ended = call(lambda: _read_mutations(reader, folder, seed, limit, report), folder)
    figures = Figures("fuzz", reader.name)
    nothing: dict[str, Any] = {"outcomes": {}, "defects": [], "seconds": 0.0}
    found = json.loads(report.read_text()) if report.is_file() else nothing
    figures.outcomes.update(found["outcomes"])
    figures.n = sum(found["outcomes"].values())
    figures.defects += found["defects"]
    if ended.code:
        kept = _kept(folder / reader.file, reader, "end")
        figures.defects.append(f"the process ended with {ended.code}: {ended.err[-300:]} {kept}")
    figures.seconds = round(found["seconds"], 1)
    return figures


def content_of(reader: Reader, whole: bytes, seed: int, number: int) -> bytes:
    """Return a mutated file, which the seed and its number determine."""
    draw = random.Random(f"{seed} {reader.name} {number}")
    sample = draw.choice([whole, *reader.more])
    return mutate(sample, draw, reader.suffix or Path(reader.file).suffix)[:_LARGEST]


def _read_mutations(reader: Reader, folder: Path, seed: int, limit: Limit, report: Path) -> None:
    def hang(*_: object) -> None:
        raise _Hung(f"not read within {HANG} s of computing, and 1 s more for {_BYTES:,} bytes")

    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, hang)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))
    from polarity_bench.errors import InputError

    file = folder / reader.file
    whole = file.read_bytes()
    kept_files = [path for path in folder.rglob("*") if path.is_file() and reader.seal]
    contents = {path: path.read_bytes() for path in kept_files}
    outcomes: Counter[str] = Counter()
    defects: dict[str, str] = {}
    reader.read(folder)  # the sample itself is read
    begun, number = time.process_time(), limit.first
    seconds = 0.0  # of computing, so that other work on the machine takes none of a reader's time
    while seconds < limit.seconds and number < limit.first + limit.files:
        n_bytes = file.write_bytes(content_of(reader, whole, seed, number))
        if reader.seal and number % 8:
            with suppress(Exception):  # what cannot be sealed is read as it is
                reader.seal(folder)
        before, key = _memory(), ""
        signal.setitimer(signal.ITIMER_PROF, HANG + n_bytes / _BYTES)
        try:
            reader.read(folder)
            outcomes["read"] += 1
        except InputError as error:
            outcomes["refused" if str(error).strip() else "refused without a word"] += 1
        except BaseException as error:  # noqa: BLE001  The unexpected is what is looked for.
            outcomes["neither"] += 1
            frames = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in frames if "polarity_bench" in frame.filename]
            last = (ours or frames)[-1]
            key = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
            key += f": {str(error)[:160]}" if key not in " ".join(defects) else ""
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        burst = _memory() - before
        if burst > _BURST + _PER_BYTE * n_bytes:
            key = key or f"a burst of {burst >> 20} MiB"
        short = key.partition(": ")[0]
        if key and short not in defects:
            kept = _kept(file, reader, str(number))
            defects[short] = f"{key}; file {number}, {kept}"
        for path, content in contents.items():
            if path.read_bytes() != content:
                path.write_bytes(content)
        number += 1
        seconds = time.process_time() - begun
        found = {"outcomes": outcomes, "defects": [*defects.values()], "seconds": seconds}
        report.write_text(json.dumps(found))
    file.write_bytes(whole)


def _memory() -> int:
    """Return the most memory used since the last call, and begin to measure again."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")
    return peak


class _Hung(BaseException):
    """Not an Exception, so that no reader takes it for a damaged file."""


def _kept(file: Path, reader: Reader, number: str) -> Path:
    kept = Path(tempfile.gettempdir()) / "chaos-found"
    kept.mkdir(exist_ok=True)
    name = f"{reader.name.replace(' ', '-').replace('/', '-')}-{number}{file.suffix}"
    return Path(shutil.copy(file, kept / name))


# Samples


def make_samples(folder: Path, template: Path) -> Path:
    """Make a folder with a valid file for each reader."""
    import numpy as np
    import pandas as pd

    from polarity_bench.results.packed_results import pack
    from polarity_bench.sweeps.state_files import ItemOutcome, SweepState
    from polarity_bench.training.job import Job
    from polarity_bench.training.recipes import RECIPES

    shutil.copytree(template, folder)
    for suffix in ("csv", "tsv", "jsonl", "parquet"):
        (place := folder / suffix).mkdir()
        write_task(place)
        rows = pd.DataFrame(SOURCES, columns=["text", "label"])
        if suffix == "tsv":
            rows.to_csv(place / "mini-source.tsv", sep="\t", index=False)
        elif suffix == "jsonl":
            rows.to_json(place / "mini-source.jsonl", orient="records", lines=True)
        elif suffix == "parquet":
            rows.to_parquet(place / "mini-source.parquet")
        task = place / "mini.toml"
        task.write_text(task.read_text().replace("mini-source.csv", f"mini-source.{suffix}"))
    workshop = Workshop(folder / "senteval")
    workshop.sst_binary()
    workshop.sst_fine()
    workshop.trec()
    workshop.mrpc()
    workshop.sick(relatedness=False)
    workshop.stsb(relatedness=False)
    workshop.probing()
    workshop.sts(subsets={"a": 9})
    texts = [text for text, _ in (*SOURCES, *QUERIES)]
    vectors = np.random.default_rng(0).normal(size=(len(texts), 4)).astype("float32")
    (folder / "npy").mkdir()
    np.save(folder / "npy" / "v.npy", vectors)
    (folder / "npy" / "v.texts.txt").write_text("\n".join(texts) + "\n")
    (folder / "vectors").mkdir()
    pd.DataFrame({"text": texts, "vector": list(vectors)}).to_parquet(
        folder / "vectors" / "v.parquet"
    )
    lines = [
        f"{word} {' '.join(map(str, row))}" for word, row in zip("abcdefgh", vectors, strict=False)
    ]
    (folder / "words.txt").write_text("\n".join(lines) + "\n")
    pairs = [
        {"gold_label": c, "sentence1": "A dog.", "sentence2": "An animal."}
        for c in ("entailment", "neutral", "contradiction", "-")
    ]
    (folder / "nli.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    (folder / "published.csv").write_text(
        'name,task,score,value,source\nA,sst2,polarity_at_16,61.2,"Doe (2025), table 1"\n'
        'B,sst2,similarity_at_16,44.0,"Doe (2025), table 2"\n'
    )
    job = Job(RECIPES["margins"](), str(folder / "tiny"), "mini", folder / "out")
    (folder / "job.toml").write_text(job.to_toml())
    shutil.copytree(folder / "leaderboards" / "mini" / "results", folder / "packed")
    pack(folder / "packed")
    published = (folder / "published.csv").read_text().replace("sst2", "mini")
    (folder / "leaderboards" / "mini" / "published.csv").write_text(published)
    line = "train axis --model tiny --task mini --task-dir tasks -o dial"
    ended = run(line.split(), folder)
    assert ended.code == 0, ended.err
    curve = next(iter(sorted((BOARDS / "axis" / "results" / "curves").glob("*.json"))))
    shutil.copy(curve, folder / "curve.json")
    shutil.copy(BOARDS / "margins" / "sweep.json", folder)
    SweepState(folder).record("a", ItemOutcome("done", "a", files=("results/b.json",)))
    (folder / "new").mkdir()
    for suffix in ("csv", "jsonl", "parquet"):
        shutil.copy(folder / suffix / f"mini-source.{suffix}", folder / "new" / f"new.{suffix}")
    rows.to_json(folder / "new" / "new.json", orient="records")
    rows.to_excel(folder / "new" / "new.xlsx", index=False)
    labelled = [f"__label__{label} {text}\n" for text, label in SOURCES]
    (folder / "new" / "new.txt").write_text("".join(labelled))
    with zipfile.ZipFile(folder / "new" / "new.zip", "w") as packed:
        for text, label in SOURCES:
            packed.writestr(f"reviews/{label}/{text[4]}.txt", text)
    return folder


def readers(samples: Path) -> list[Reader]:
    """Return every reader with its sample."""
    from polarity_bench.boards.board_folder import open_board
    from polarity_bench.boards.build import rendered
    from polarity_bench.data.nli import load_nli
    from polarity_bench.data.senteval import (
        read_labelled_lines,
        read_probing,
        read_sts,
    )
    from polarity_bench.data.sources import DataAccess
    from polarity_bench.encoders.baselines import WordVectorsEncoder
    from polarity_bench.encoders.load import EncoderOptions, load_encoder
    from polarity_bench.encoders.saved_vectors import SavedVectorsEncoder
    from polarity_bench.evaluation.contamination import TrainingTexts
    from polarity_bench.integrations.mteb_results import read_mteb
    from polarity_bench.results.curve_files import read_curve
    from polarity_bench.results.published import read_published
    from polarity_bench.results.result_files import read_results
    from polarity_bench.sweeps.grid import read_grid
    from polarity_bench.sweeps.items import Setup
    from polarity_bench.sweeps.plan import read_plan
    from polarity_bench.sweeps.state_files import SweepState
    from polarity_bench.tasks.catalogue import read_task
    from polarity_bench.tasks.scaffold import task_from
    from polarity_bench.tasks.types.base import Settings
    from polarity_bench.training.job import Job
    from polarity_bench.training.recipes import RECIPES

    def load(name: str) -> Callable[[Path], Any]:
        def read(folder: Path) -> Any:
            access = DataAccess(folder / "data", offline=True)
            return read_task(folder / name / "mini.toml").load(access, Settings()).digest

        return read

    def encoder(name: str) -> Callable[[Path], Any]:
        options = EncoderOptions(offline=True, device="cpu")
        return lambda folder: load_encoder(str(folder / name), options).encode(["a", "b"])

    def grid(folder: Path) -> Any:
        options = EncoderOptions(offline=True)
        return read_grid(
            folder / "small.toml", Setup(folder / "out", options, task_dir=folder / "tasks")
        )

    def board(folder: Path) -> Any:
        return rendered(open_board(folder / "leaderboards" / "mini"), with_report=False)

    def new(suffix: str) -> Callable[[Path], Any]:
        def read(folder: Path) -> Any:
            shutil.rmtree(folder / "out", ignore_errors=True)
            return task_from(folder / "new" / f"new.{suffix}", folder=folder / "out")

        return read

    def contents(pattern: str) -> list[bytes]:
        return [path.read_bytes() for path in sorted(REPOSITORY.glob(pattern))]

    def below(folder: str, pattern: str) -> str:
        return str(next(iter(sorted((samples / folder).rglob(pattern)))).relative_to(samples))

    found = [
        Reader(
            "task file",
            "csv/mini.toml",
            load("csv"),
            [_RICH_TASK.encode()] * 9 + contents("tasks/*/*.toml"),
        ),
        *(
            Reader(f"task data, {suffix}", f"{suffix}/mini-source.{suffix}", load(suffix))
            for suffix in ("csv", "tsv", "jsonl", "parquet")
        ),
    ]
    senteval = {
        "sst-binary": "binary/sentiment-train",
        "sst-fine": "fine/sentiment-train",
        "trec": "train.label",
        "mrpc": "msr_train.txt",
        "sick-entailment": "SICK_train.txt",
        "stsb": "sts-test.csv",
    }
    for layout, end in senteval.items():
        found.append(_senteval(layout, below("senteval/data", end)))
    probing = below("senteval/data/probing", "*.txt")
    texts = below("senteval/data", "STS.input.a.txt")
    gold, lines = texts.replace("input", "gs"), below("data", "rt.pos")
    result = below("leaderboards/mini/results", "*Retrieval.json")
    provenance = below("leaderboards/mini/results", "*.provenance.json")
    values = below("leaderboards/mini/results", "*.safetensors")
    jobs = [
        Job(recipe(), "tiny", "mini", Path("out")).to_toml().encode() for recipe in RECIPES.values()
    ]
    config = "leaderboards/mini/board.toml"
    access = DataAccess(None, offline=True)
    found += [
        Reader("SentEval, probing", probing, lambda f: read_probing(f / probing)),
        Reader("STS, texts", texts, lambda f: read_sts(f / texts, f / gold)),
        Reader("STS, scores", gold, lambda f: read_sts(f / texts, f / gold)),
        Reader("labelled lines", lines, lambda f: read_labelled_lines(f / lines, f / lines)),
        Reader("NLI pairs", "nli.jsonl", lambda f: load_nli([str(f / "nli.jsonl")], access)),
        Reader("result", result, board, seal=lambda f: _seal_result(f / result)),
        Reader("provenance", provenance, board, seal=lambda f: _seal_result(f / result)),
        Reader("values per query", values, board, seal=lambda f: _seal_result(f / result)),
        Reader(
            "packed results",
            "packed/results.jsonl",
            lambda f: list(read_results(f / "packed")),
            seal=lambda f: _seal_packed(f / "packed" / "results.jsonl"),
        ),
        Reader(
            "curve",
            "curve.json",
            lambda f: read_curve(f / "curve.json"),
            seal=lambda f: _seal(f / "curve.json"),
        ),
        Reader("plan", "sweep.json", read_plan),
        Reader("state", "state/a.json", lambda f: SweepState(f).outcomes(["a"])),
        *(
            Reader(f"new task, {suffix}", f"new/new.{suffix}", new(suffix))
            for suffix in ("csv", "txt", "json", "jsonl", "parquet", "xlsx", "zip")
        ),
        Reader("mteb's results", result, lambda f: read_mteb(f / "leaderboards")),
        Reader(
            "board.toml", config, board, [_RICH_BOARD.encode()] * 4 + contents("l*/*/board.toml")
        ),
        Reader(
            "published numbers",
            "published.csv",
            lambda f: read_published(f / "published.csv"),
            contents("leaderboards/[ao]*/published.csv"),
        ),
        Reader("board with published numbers", "leaderboards/mini/published.csv", board),
        Reader("grid", "small.toml", grid, [_RICH_GRID.encode()] * 3 + contents("*/*/grid*.toml")),
        Reader("job", "job.toml", lambda f: Job.read(f / "job.toml"), jobs),
        Reader("saved vectors, npy", "npy/v.npy", lambda f: SavedVectorsEncoder(f / "npy")),
        Reader("saved vectors, texts", "npy/v.texts.txt", lambda f: SavedVectorsEncoder(f / "npy")),
        Reader("saved parquet", "vectors/v.parquet", lambda f: SavedVectorsEncoder(f / "vectors")),
        Reader("word vectors", "words.txt", lambda f: WordVectorsEncoder(f / "words.txt")),
        Reader("weights", "tiny/model.safetensors", encoder("tiny")),
        Reader("modules.json", "tiny/modules.json", encoder("tiny")),
        Reader("tokenizer", "tiny/tokenizer.json", encoder("tiny")),
        Reader(
            "training texts",
            "dial/training_texts.json.gz",
            lambda f: TrainingTexts.read(f / "dial"),
        ),
        Reader("axis", below("dial", "*Axis/*.json"), encoder("dial")),
        Reader(
            "train.json",
            "dial/train.json",
            encoder("dial"),
            seal=lambda f: _seal(f / "dial/train.json"),
        ),
    ]
    return found


def _senteval(layout: str, name: str) -> Reader:
    from polarity_bench.data.senteval import read_split

    return Reader(f"SentEval, {layout}", name, lambda folder: read_split(folder / name, layout))


# Right checksums of what was changed, as the one who made a wrong file would write them


def _seal(file: Path) -> None:
    from polarity_bench.files import json_bytes, with_checksum

    file.write_bytes(json_bytes(with_checksum(json.loads(file.read_text()))))


def _seal_result(file: Path) -> None:
    from polarity_bench.files import json_bytes, with_checksum
    from polarity_bench.results.result_files import files_of

    scores, values, _, provenance = files_of(file)
    made = json.loads(provenance.read_text())
    made["scores_sha256"] = _digest(json_bytes(json.loads(scores.read_text())["scores"]))
    made["queries_sha256"] = _digest(values.read_bytes())
    provenance.write_bytes(json_bytes(with_checksum(made)))


def _seal_packed(file: Path) -> None:
    from polarity_bench.files import json_bytes, with_checksum

    lines = []
    for text in file.read_text().splitlines():
        line = json.loads(text)
        line["provenance"]["scores_sha256"] = _digest(json_bytes(line["scores"]["scores"]))
        line["provenance"] = with_checksum(line["provenance"])
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    file.write_text("".join(lines))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
