"""Small versions of SentEval's and SemEval's folders: our own sentences in the toolkit's layout.

`Workshop` writes data files and the task files with their checksums, and loads the tasks.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from polarity_bench.data.sources import DataAccess
from polarity_bench.tasks.catalogue import read_task
from polarity_bench.tasks.senteval.presets import choose_preset
from polarity_bench.tasks.types.base import Settings, Task, TaskSpec

SENTEVAL = "downstream"
QUICK = Settings(of_types=(choose_preset(kfold=3),))
_TIMES = ("date", "evaluation_time", "seconds", "sha256")  # the last one hashes the others
Files = Mapping[str, tuple[str, str, int]]
"""Path below the data folder, content and number of rows of each file of a task."""

_NOUNS = [
    "bench",
    "kettle",
    "ferry",
    "lamp",
    "orchard",
    "drum",
    "stairs",
    "pillow",
    "harbour",
    "bakery",
    "tunnel",
    "quilt",
]
_WORDS = (
    ["grim", "leaky", "stale", "noisy", "crooked", "rusty"],
    ["plain", "usual", "middling", "common", "average", "ordinary"],
    ["cosy", "bright", "sturdy", "fresh", "tidy", "cheerful"],
)
_TREC = ("ABBR:exp", "DESC:manner", "ENTY:animal", "HUM:ind", "LOC:city", "NUM:count")
_ASKED = ("stands for", "explains", "animal near", "person at", "town of", "number of")
_SICK = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")


def sentences(n: int, mood: int, seed: int) -> list[str]:
    """Return n sentences of 7 to 11 tokens, mostly of one mood: 0 bad, 1 neutral, 2 good."""
    draw = random.Random(f"{seed} {mood}")
    found = []
    for _ in range(n):
        words = [draw.choice(_WORDS[mood]), draw.choice(draw.choice(_WORDS))]
        more = ["and"] * draw.randrange(3) + ["quite"] * draw.randrange(3)
        found.append(f"The {draw.choice(_NOUNS)} is {' '.join(more)} {' , '.join(words)} .")
    return found


def lines(texts: Sequence[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


@dataclass
class Workshop:
    """Writer of task files in `root/tasks` and of data below `root/data`, in SentEval's layout."""

    root: Path
    layout: str = ""
    specs: dict[str, TaskSpec] = field(default_factory=dict)

    @property
    def tasks(self) -> Path:
        return self.root / "tasks"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def access(self) -> DataAccess:
        return DataAccess(self.data, offline=True)

    def load(self, spec: TaskSpec, settings: Settings = QUICK) -> Task:
        return spec.load(self.access, settings)

    def add(self, name: str, files: Files, *, archive: str = "", **values: object) -> TaskSpec:
        """Write a task's data and its task file."""
        entries = [f'name = "{name}"', f'title = "Task {name}"']
        entries += [f"{key} = {_toml(value)}" for key, value in values.items()]
        entries += ["[archive]", archive] if archive else []
        for key, (place, content, rows) in files.items():
            encoded = content.encode()
            path = self.data / self.layout / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded)
            sha256 = hashlib.sha256(encoded).hexdigest()
            entries += [f'[files."{key}"]', f'path = "{place}"', f'sha256 = "{sha256}"']
            entries += [f"rows = {rows}"]
        self.tasks.mkdir(parents=True, exist_ok=True)
        file = self.tasks / f"{name}.toml"
        file.write_text("\n".join(entries) + "\n", encoding="utf-8")
        self.specs[name] = read_task(file)
        return self.specs[name]

    def labelled_lines(self, name: str = "little-mr", n: int = 20) -> TaskSpec:
        return self.add(
            name,
            {
                "positive": (f"{SENTEVAL}/MR/rt.pos", lines(sentences(n, 2, 1)), n),
                "negative": (f"{SENTEVAL}/MR/rt.neg", lines(sentences(n, 0, 1)), n),
            },
            kind="transfer",
            reader="labelled-lines",
            scheme="nested-kfold",
            labels=["negative", "positive"],
        )

    def sst_binary(self, name: str = "little-sst2") -> TaskSpec:
        files = {}
        for seed, (split, n) in enumerate({"train": 40, "dev": 16, "test": 30}.items()):
            pairs = [f"{t}\t{label}" for label in (0, 1) for t in sentences(n, 2 * label, seed)]
            files[split] = (f"{SENTEVAL}/SST/binary/sentiment-{split}", lines(pairs), 2 * n)
        return self.add(
            name,
            files,
            kind="transfer",
            reader="sst-binary",
            scheme="dev-split",
            labels=["negative", "positive"],
        )

    def sst_fine(self, name: str = "little-sst5") -> TaskSpec:
        files = {}
        for seed, (split, n) in enumerate({"train": 12, "dev": 4, "test": 6}.items()):
            rows = [
                f"{label} {text}"
                for label in range(5)
                for text in sentences(n, label // 2, 10 * seed + label)
            ]
            files[split] = (f"{SENTEVAL}/SST/fine/sentiment-{split}", lines(rows), 5 * n)
        return self.add(
            name,
            files,
            kind="transfer",
            reader="sst-fine",
            scheme="dev-split",
            labels=["very negative", "negative", "neutral", "positive", "very positive"],
        )

    def trec(self, name: str = "little-trec") -> TaskSpec:
        files = {}
        for seed, (split, n) in enumerate({"train": 8, "test": 4}.items()):
            draw = random.Random(seed)
            rows = [
                f"{label} What {asked} the {draw.choice(_NOUNS)} {draw.choice(_NOUNS)} ?"
                for label, asked in zip(_TREC, _ASKED, strict=True)
                for _ in range(n)
            ]
            files[split] = (f"{SENTEVAL}/TREC/{split}.label", lines(rows), 6 * n)
        return self.add(
            name,
            files,
            kind="transfer",
            reader="trec",
            scheme="kfold",
            labels=["abbreviation", "description", "entity", "human", "location", "number"],
        )

    def mrpc(self, name: str = "little-mrpc") -> TaskSpec:
        files = {}
        for seed, (split, n) in enumerate({"train": 15, "test": 10}.items()):
            rows = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
            for label in (0, 1):
                ones, others = sentences(n, 2, seed), sentences(n, 2 * label, seed + 5)
                rows += [f"{label}\t1\t2\t{a}\t{b}" for a, b in zip(ones, others, strict=True)]
            files[split] = (f"{SENTEVAL}/MRPC/msr_{split}.txt", lines(rows), 2 * n)
        return self.add(
            name,
            files,
            kind="transfer",
            reader="mrpc",
            scheme="kfold",
            labels=["different", "paraphrase"],
        )

    def sick(self, *, relatedness: bool, name: str = "") -> TaskSpec:
        """Write SICK-E or SICK-R: two tasks on the same three files."""
        files = {}
        for seed, (split, n) in enumerate({"train": 15, "dev": 6, "test": 9}.items()):
            rows = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"]
            numbers = itertools.count(1)
            for label, mood in enumerate((0, 1, 2)):
                ones, others = sentences(n, 2, seed), sentences(n, mood, seed + 3)
                for one, other in zip(ones, others, strict=True):
                    number = next(numbers)
                    score = 1 + label + number % 7 / 7
                    rows.append(f"{number}\t{one}\t{other}\t{score:.2f}\t{_SICK[label]}")
            files[split] = (f"{SENTEVAL}/SICK/SICK_{split}.txt", lines(rows), 3 * n)
        if relatedness:
            kind = {"kind": "relatedness", "reader": "sick-relatedness"}
            return self.add(name or "little-sick-r", files, **kind)
        return self.add(
            name or "little-sick-e",
            files,
            kind="transfer",
            reader="sick-entailment",
            scheme="dev-split",
            labels=["contradiction", "neutral", "entailment"],
        )

    def probing(self, name: str = "little-tense", *, linear: bool = False) -> TaskSpec:
        """Write a probing task with three classes, whose sorted order is not that of the moods."""
        rows = [
            f"{part}\t{label}\t{text}"
            for seed, (part, n) in enumerate({"tr": 20, "va": 8, "te": 12}.items())
            for mood, label in enumerate(("5", "12", "10"))
            for text in sentences(n, mood, seed)
        ]
        files = {"all": (f"probing/{name}.txt", lines(rows), len(rows))}
        return self.add(name, files, kind="probing", reader="probing", linear=linear)

    def stsb(self, *, relatedness: bool, name: str = "") -> TaskSpec:
        files = {}
        for seed, (split, n) in enumerate({"train": 30, "dev": 12, "test": 20}.items()):
            rows = [
                f"main\tmade\t2012\t{i:04}\t{score:.3f}\t{one}\t{other}"
                for i, (one, other, score) in enumerate(scored_pairs(n, seed))
            ]
            files[split] = (f"{SENTEVAL}/STS/STSBenchmark/sts-{split}.csv", lines(rows), n)
        if relatedness:
            return self.add(
                name or "little-stsb-relatedness", files, kind="relatedness", reader="stsb"
            )
        test = {"test": files["test"]}
        return self.add(name or "little-stsb", test, kind="sts", reader="stsb", subsets=["test"])

    def sts(self, name: str = "little-sts", subsets: Mapping[str, int] | None = None) -> TaskSpec:
        files = {}
        subsets = subsets or {"belief": 14, "surprise.OnWN": 25, "images": 9}
        for seed, (subset, n) in enumerate(subsets.items(), start=11):
            pairs = scored_pairs(n, seed)
            texts = lines([f"{one}\t{other}" for one, other, _ in pairs])
            scores = lines([f"{score:.2f}" for *_, score in pairs])
            files[subset] = (f"sts-raw/little/STS.input.{subset}.txt", texts, n)
            files[f"{subset}-scores"] = (f"sts-raw/little/STS.gs.{subset}.txt", scores, n)
        return self.add(name, files, kind="sts", reader="sts", subsets=list(subsets))


def scored_pairs(n: int, seed: int) -> list[tuple[str, str, float]]:
    """Return n pairs of sentences, scored by their closeness in mood with added noise."""
    draw = random.Random(seed)
    found = []
    for i in range(n):
        (one,), (other,) = sentences(1, 2, seed + i), sentences(1, i % 3, seed + i + 1)
        found.append((one, other, round(min(5, i % 3 + 3 * draw.random()), 2)))
    return found


def _toml(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def without_times(output: Path) -> dict[str, bytes]:
    """Return the contents of the files below an output folder, by path, without times and dates."""
    found = {}
    for path in sorted(output.rglob("*.*")):
        if path.is_dir():
            continue
        content = path.read_bytes()
        if path.suffix == ".json":
            kept = {k: v for k, v in json.loads(content).items() if k not in _TIMES}
            kept.get("environment", {}).pop("command", None)
            content = json.dumps(kept).encode()
        found[path.relative_to(output).as_posix()] = content
    assert found
    return found
