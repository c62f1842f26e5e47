"""Mutated files for every reader of what comes from outside.

A reader must return a value or raise InputError, within a second or so and a gigabyte. Anything
else is a defect: another exception, a hang, a burst of memory.
"""

from __future__ import annotations

import json
import math
import random
import resource
import shutil
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from standins import QUERIES, SOURCES, Workshop, write_task

from chaos.attacks import Figures
from chaos.children import call, run

HANG = 20
"""Seconds of computing after which a reader hangs; a waiting one ends with `children.TIMEOUT`."""
_MEMORY = 3 * 2**30
_WORDS = '\0 \r \\ , \t [[ ]] { } [] {} NaN Infinity -1 1e999 0x10 1_000 null true =1+1 \' " ""\n\n'
_WORDS += " 99999999999999999999 __class__ 1970-01-01 ../../etc/passwd /dev/zero <script> \x1b[31m"
_NOT_TEXT = [b"\xff\xfe", b"\xef\xbb\xbf", b"\xe2\x80\xae", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80"]
_TOKENS = [word.encode() for word in _WORDS.split(" ")] + _NOT_TEXT
"""Marks of formats, odd numbers, paths, markup, controls, and bytes that are not UTF-8."""


@dataclass(frozen=True)
class Reader:
    """A reader, and the sample file that is mutated.

    Attributes:
        name: What it reads.
        file: The sample, below the folder that `make_samples` makes.
        read: Function of that folder.
    """

    name: str
    file: str
    read: Callable[[Path], Any]


def mutate(content: bytes, draw: random.Random) -> bytes:
    """Return the content with one to four random changes."""
    data = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(data) + 1)
        end = min(len(data), at + draw.choice((1, 2, 4, 16, 64)))
        kind = draw.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            data[at:at] = draw.choice(_TOKENS)
        elif kind == 2:
            data[at:end] = draw.choice(_TOKENS)
        elif kind == 3:
            del data[at:end]
        elif kind == 4:
            data[at:at] = data[at:end] * draw.choice((1, 2, 50))
        elif draw.random() < 0.3:
            del data[at:]
    return bytes(data)


@dataclass(frozen=True)
class Limit:
    """When to stop: after some seconds or, in every run alike, after a number of files."""

    seconds: float = math.inf
    files: float = math.inf


def fuzz(reader: Reader, samples: Path, folder: Path, seed: int, limit: Limit) -> Figures:
    """Read mutated files up to a limit, in a child with limited memory."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(samples, folder)
    report = folder.with_suffix(".json")
    report.unlink(missing_ok=True)
    ended = call(lambda: _read_mutations(reader, folder, seed, limit, report), folder)
    figures = Figures("fuzz", reader.name)
    if not report.is_file():
        figures.defects.append(f"the process ended with {ended.code}: {ended.err[-300:]}")
        return figures
    found = json.loads(report.read_text())
    figures.outcomes.update(found["outcomes"])
    figures.n = sum(found["outcomes"].values()) + len(found["defects"])
    figures.defects += found["defects"]
    return figures


def _read_mutations(reader: Reader, folder: Path, seed: int, limit: Limit, report: Path) -> None:
    def hang(*_: object) -> None:
        raise _Hung(f"not read within {HANG} s of computing")

    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, hang)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))
    from polarity_bench.errors import InputError

    file = folder / reader.file
    whole, draw = file.read_bytes(), random.Random(f"{seed} {reader.name}")
    outcomes: Counter[str] = Counter()
    defects: dict[str, str] = {}
    reader.read(folder)  # the sample itself is read
    deadline, n_read = time.monotonic() + limit.seconds, 0
    while time.monotonic() < deadline and n_read < limit.files:
        n_read += 1
        content = mutate(whole, draw)
        file.write_bytes(content)
        signal.setitimer(signal.ITIMER_PROF, HANG)
        try:
            reader.read(folder)
            outcomes["read"] += 1
        except InputError as error:
            outcomes["refused" if str(error).strip() else "refused without a word"] += 1
        except BaseException as error:  # noqa: BLE001  The unexpected is what is looked for.
            frames = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in frames if "polarity_bench" in frame.filename]
            last = (ours or frames)[-1]
            key = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
            if key not in defects:
                kept = _kept(file, reader, len(defects))
                defects[key] = f"{key}: {str(error)[:160]}; file {kept}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        report.write_text(json.dumps({"outcomes": outcomes, "defects": [*defects.values()]}))
    file.write_bytes(whole)


class _Hung(BaseException):
    """Not an Exception, so that no reader takes it for a damaged file."""


def _kept(file: Path, reader: Reader, number: int) -> Path:
    kept = file.parents[len(Path(reader.file).parts) - 1].with_name("found")
    kept.mkdir(exist_ok=True)
    name = f"{reader.name.replace(' ', '-').replace('/', '-')}-{number}{file.suffix}"
    return Path(shutil.copy(file, kept / name))


# Samples


def make_samples(folder: Path, template: Path) -> Path:
    """Make a folder with a valid file for each reader."""
    import numpy as np
    import pandas as pd

    from polarity_bench.results.packed_results import pack
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
    line = "train axis --model tiny --task mini --task-dir tasks -o dial"
    ended = run(line.split(), folder)
    assert ended.code == 0, ended.err
    return folder


def readers(samples: Path) -> list[Reader]:
    """Return every reader with its sample."""
    from polarity_bench.boards.config import BoardFile, board_file
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
    from polarity_bench.integrations.mteb_results import read_mteb
    from polarity_bench.results.published import read_published
    from polarity_bench.results.result_files import read_results
    from polarity_bench.sweeps.grid import read_grid
    from polarity_bench.sweeps.items import Setup
    from polarity_bench.tasks.catalogue import read_task
    from polarity_bench.tasks.types.base import Settings
    from polarity_bench.training.job import Job

    def load(name: str) -> Callable[[Path], Any]:
        def read(folder: Path) -> Any:
            access = DataAccess(folder / "data", offline=True)
            return read_task(folder / name / "mini.toml").load(access, Settings())

        return read

    def encoder(name: str) -> Callable[[Path], Any]:
        options = EncoderOptions(offline=True, device="cpu")
        return lambda folder: load_encoder(str(folder / name), options).encode(["a", "b"])

    def grid(folder: Path) -> Any:
        options = EncoderOptions(offline=True)
        return read_grid(
            folder / "small.toml", Setup(folder / "out", options, task_dir=folder / "tasks")
        )

    def below(folder: str, pattern: str) -> str:
        return str(next(iter(sorted((samples / folder).rglob(pattern)))).relative_to(samples))

    found = [
        Reader("task file", "csv/mini.toml", load("csv")),
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
    stored = "leaderboards/mini/results"
    config = "leaderboards/mini/board.toml"
    access = DataAccess(None, offline=True)
    found += [
        Reader("SentEval, probing", probing, lambda f: read_probing(f / probing)),
        Reader("STS, texts", texts, lambda f: read_sts(f / texts, f / gold)),
        Reader("STS, scores", gold, lambda f: read_sts(f / texts, f / gold)),
        Reader("labelled lines", lines, lambda f: read_labelled_lines(f / lines, f / lines)),
        Reader("NLI pairs", "nli.jsonl", lambda f: load_nli([str(f / "nli.jsonl")], access)),
        Reader("result", result, lambda f: list(read_results(f / stored))),
        Reader("provenance", provenance, lambda f: list(read_results(f / stored))),
        Reader(
            "packed results", "packed/results.jsonl", lambda f: list(read_results(f / "packed"))
        ),
        Reader("mteb's results", result, lambda f: read_mteb(f / "leaderboards")),
        Reader("board.toml", config, lambda f: board_file(f / config, BoardFile)),
        Reader("published numbers", "published.csv", lambda f: read_published(f / "published.csv")),
        Reader("grid", "small.toml", grid),
        Reader("job", "job.toml", lambda f: Job.read(f / "job.toml")),
        Reader("saved vectors, npy", "npy/v.npy", lambda f: SavedVectorsEncoder(f / "npy")),
        Reader("saved vectors, texts", "npy/v.texts.txt", lambda f: SavedVectorsEncoder(f / "npy")),
        Reader("saved parquet", "vectors/v.parquet", lambda f: SavedVectorsEncoder(f / "vectors")),
        Reader("word vectors", "words.txt", lambda f: WordVectorsEncoder(f / "words.txt")),
        Reader("weights", "tiny/model.safetensors", encoder("tiny")),
        Reader("modules.json", "tiny/modules.json", encoder("tiny")),
        Reader("tokenizer", "tiny/tokenizer.json", encoder("tiny")),
        Reader("axis", below("dial", "*Axis/*.json"), encoder("dial")),
        Reader("train.json", "dial/train.json", encoder("dial")),
    ]
    return found


def _senteval(layout: str, name: str) -> Reader:
    from polarity_bench.data.senteval import read_split

    return Reader(f"SentEval, {layout}", name, lambda folder: read_split(folder / name, layout))
