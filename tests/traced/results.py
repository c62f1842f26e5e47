"""The numbers of a board of results, from its result files, curves and `published.csv`.

The files are read as plain JSON and CSV. Encoder, reference and k of a row identify the result, and
the column names the score. The formulas are in docs/protocols.md.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy.stats import t

from polarity_bench.values import digest_of
from traced.formulas import area, bound, joint
from traced.lines import Line, Number, signed
from traced.raw import Raw, identity, label, one, read_cited, read_raw, shortest

SCORES = {
    "P": "polarity{}",
    "S": "similarity{}",
    "retention": "retention{}",
    "joint": "joint{}",
    "front": "front{}",
    "kNN accuracy": "knn_accuracy{}",
    "SgTS": "sgts",
    "minimal pairs": "pairwise_accuracy",
}
KINDS = {"Transfer": "transfer", "Supervised relatedness": "relatedness", "STS": "sts"}
KINDS |= {"Opposites": "opposite"}
OF_ANSWERS = {"nDCG@10": "ndcg_at_10", "recall@1": "recall_at_1", "MRR@10": "mrr_at_10"}
OF_ANSWERS |= {"pairs": "paired_accuracy"}
UNMEASURED = "Not measured here"
_MEANS = re.compile(r"Means(?: over (.+?) polarity tasks)?|Summary: (.+)")
_PAIR = re.compile(r"(.+): from the sources of the training file to unseen ones \((.+)\)")
SINGLE = ": single runs"
_PART = re.compile("(queries|sources) seen")
_OVER_SEEDS = " std over seeds"
_SEEN = re.compile(r"(.+?), (.+): rows seen in training")
_GROUP = re.compile(r"(.+?) \((.+)\)")
_CURVE = re.compile(r"(.+) \(best (\w+) (\S+)\)")
_GAIN = re.compile("([PS]): gain over the reference")
_PUBLISHED = re.compile(r"(.+), as published \[(\d+)\]")


class Results:
    """The numbers of a board of results."""

    def __init__(self, folder: Path) -> None:
        said = tomllib.loads((folder / "board.toml").read_text(encoding="utf-8"))
        self.uniform = "_uniform" if said.get("weighting") == "uniform" else ""
        tasks, encoders = set(said.get("tasks", ())), set(said.get("encoders", ()))
        self.raw = [
            each
            for each in read_raw(folder)
            if (not tasks or each.task in tasks) and (not encoders or encoders & names_of(each))
        ]
        self.ranked = [each for each in self.raw if each.made["task"]["kind"] == "polarity"]
        self.cited = read_cited(folder / "published.csv")
        curves = sorted(folder.rglob("curves/*.json"))
        self.curves = [json.loads(path.read_bytes()) for path in curves]
        self.labels: dict[str, set[str]] = {}
        self.bare_labels: dict[tuple[str, str], set[str]] = {}
        for each in self.raw:
            for encoder in filter(None, (each.made["encoder"], each.made["reference"])):
                key, prompt = identity(encoder), encoder["prompt"] or ""
                self.labels.setdefault(key, set()).add(label(encoder))
                own = self.bare_labels.setdefault((key, prompt), set())
                own.add(label({**encoder, "prompt": None}))
        self.digests = {each.encoder: each.digest for each in self.raw}
        self.sort = said.get("sort", "")
        self.group_by = said.get("group_by", "")
        self.keep = said.get("keep")
        file = folder / "statistics.json"
        self.gains = json.loads(file.read_bytes()).get("gains", {}) if file.is_file() else {}
        methods = said.get("method", ())
        self.methods = {each["name"]: each["encoders"] for each in methods}
        self.numbered = {
            (shortest(m["at"]), m.get("line", "mean over seeds")): m["encoders"]
            for m in methods
            if "at" in m
        }

    def number(self, line: Line) -> Number:
        """Return the number of a line; joint and front are stored unclipped, and shown clipped."""
        number = self._unclipped(line)
        return number.clipped if line.column in {"joint", "front"} else number

    def _unclipped(self, line: Line) -> Number:
        """Return the number of a line, which may be the mean over the seeds of a method."""
        line = replace(line, table=line.table.removesuffix(SINGLE))
        if line.role != "method":
            return self._of_one(line)
        seeds = [self._of_one(each) for each in self._seeds(line)]
        if line.column.endswith(_OVER_SEEDS):
            return Number(stdev(each.value for each in seeds))
        if len(seeds) == 1:
            return seeds[0]
        middle = fmean(each.value for each in seeds)
        if "change" in line.column or "seen" in line.column:
            return Number(middle)
        ends = [over_seeds([e.value for e in seeds], [e.low for e in seeds])]
        ends += [over_seeds([e.value for e in seeds], [e.high for e in seeds])]
        return Number(middle, middle - ends[0], min(middle + ends[1], 1.0))

    def _seeds(self, line: Line) -> list[Line]:
        """Return the line of each seed of a method: an encoder's, or a curve's at a strength."""
        name, heads = line.heads["encoder"], dict(line.heads)
        at, column = heads["strength"].partition(" ")[0], line.column.removesuffix(_OVER_SEEDS)
        known = {each.made["encoder"]["name"] for each in self.raw}
        seeds = [
            next(each for each in known if seed in {each, each.rpartition("/")[2]})
            for seed in self.methods.get(name, [name])
        ]
        if len(seeds) != int(heads["seeds"]):
            raise LookupError(f"it has {len(seeds)} seeds")
        if not at:
            labels = {
                label(each.made["encoder"])
                for each in self.raw
                if each.made["encoder"]["name"] in seeds
            }
            if len(labels) != len(seeds):
                raise LookupError(f"its encoders are {sorted(labels)}")
            named = dict.fromkeys(sorted(labels), "encoder")
        elif column == "front":
            named = {f"{seed} (best strength {at})": "curve" for seed in seeds}
        else:
            named = {f"{seed} (strength {at})": "encoder" for seed in seeds}
        self._check_chosen(line, seeds, at)
        return [
            replace(line, heads=heads | {"encoder": text, "prompt": ""}, role=role, column=column)
            for text, role in named.items()
        ]

    def _check_chosen(self, line: Line, seeds: Sequence[str], at: str) -> None:
        """Raise LookupError if another strength is better on the mean over the seeds."""
        if not at or not line.heads.get("k", ""):
            return
        pair = _PAIR.fullmatch(line.table)
        tasks = [pair[1]] if pair else self.tasks_of(line.table)
        reference, k = self._entry(line)
        by_seed = [
            self._points(_CURVE.fullmatch(f"{seed} (best strength {at})"), reference)[0]
            for seed in seeds
        ]
        shared = set.intersection(*(set(points[task]) for points in by_seed for task in tasks))
        end = f"{self.uniform}_at_{k}"

        def worth(strength: float) -> tuple[bool, float, float]:
            raws = [points[task][strength] for points in by_seed for task in tasks]
            p = [raw.score(self.name("P", k)) for raw in raws]
            both = fmean(joint(raw.score, end) for raw in raws)
            if self.keep is None:
                return True, both, fmean(p)
            kept = fmean(raw.score(self.name("retention", k)) for raw in raws)
            return kept >= self.keep, fmean(p), both

        best = max(sorted(shared), key=worth)
        if shortest(best) != at:
            raise LookupError(f"it is best at {shortest(best)}, not {at}")

    def _of_one(self, line: Line) -> Number:
        """Return the number of a line of a single encoder, curve, bound or published row."""
        if part := _PART.fullmatch(line.column):
            return self._of_parts(line, part[1])
        if means := _MEANS.fullmatch(line.table):
            if line.column not in SCORES:
                return self._group_mean(line, line.column)
            tasks = self.summed(means)
            if len(tasks) == 1:
                return self._ranked(line, tasks[0], line.column, tasks)
            return mean([self._ranked(line, task, line.column, tasks) for task in tasks])
        if pair := _PAIR.fullmatch(line.table):
            title, _, what = line.column.partition(", ")
            if what == "change":
                seen, unseen = (
                    self._ranked(line, task, title, [pair[1]]).value for task in pair.groups()
                )
                return Number(unseen - seen)
            return self._of_pair(line, pair[2] if what else pair[1])
        if gained := _GAIN.fullmatch(line.table):
            return self._gain(line, gained[1])
        if said := _SEEN.fullmatch(line.table):
            return self._of_seen(line, KINDS[said[1]], {*said[2].split(", ")})
        if line.table in {each.task for each in self.ranked}:
            return self._ranked(line, line.table, line.column, [line.table])
        if line.column.partition(" ")[0] == "mean":
            return self._group_mean(line, line.table)
        if line.table == UNMEASURED:
            return self._of_unmeasured(line)
        name, own = self._group(line.table)
        if line.role == "published":
            return self._published(line, line.column, "")
        encoder = self.encoder_of(line)
        return one([e for e in own if e.task == line.column and e.encoder == encoder]).number(name)

    # Scores that rank rows

    def tasks_of(self, table: str) -> list[str]:
        """Return the tasks whose mean ranks the rows of a table."""
        table = table.removesuffix(SINGLE)
        if means := _MEANS.fullmatch(table):
            return self.summed(means)
        if table in {each.task for each in self.ranked}:
            return [table]
        return self._averaged_of_group(table)

    def rank_score(self, line: Line) -> str:
        """Return the name in files of the score that ranks a row."""
        k = line.heads.get("k", "")
        if not k:
            return self._group(line.table)[0]
        return self.name(self.sorted_by(self.tasks_of(line.table)), int(k))

    def sorted_by(self, tasks: Sequence[str]) -> str:
        """Return the score that sorts rows: P if all encoders are their own reference, else joint.

        A board may name another score.
        """
        has: dict[tuple[str, str, int], set[str]] = {}
        for each in self.ranked:
            for k in each.made["protocol"]["k"]:
                has.setdefault((each.encoder, each.reference, k), set()).add(each.task)
        references = {reference for (_, reference, _), own in has.items() if own >= {*tasks}}
        return self.sort or ("P" if self.keep or references <= {""} else "joint")

    def result_of(self, line: Line, task: str) -> Raw:
        """Return the result of a row on a task."""
        encoder = self.encoder_of(line)
        if line.heads.get("k", ""):
            return self._at(task, encoder, *self._entry(line))
        _, own = self._group(line.table)
        return one([each for each in own if (each.task, each.encoder) == (task, encoder)])

    # Encoders of rows

    def encoder_of(self, line: Line) -> str:
        """Return the encoder of a row, whose prompt may have a column of its own."""
        shown = line.heads.get("prompt")
        if not shown:
            return self.called(line.heads["encoder"])
        of_prompt = {
            encoder: labels
            for (encoder, prompt), labels in self.bare_labels.items()
            if repr(prompt) == shown
        }
        return self.called(line.heads["encoder"], of_prompt)

    def called(self, text: str, known: Mapping[str, set[str]] | None = None) -> str:
        """Return the encoder with a name, which may end in the first digits of its digest."""
        name, digits = _name_of(text)
        found = [
            encoder
            for encoder, labels in (self.labels if known is None else known).items()
            if ", ".join(sorted(labels)) == name
            and self.digests.get(encoder, "").startswith(digits)
        ]
        if len(found) != 1:
            raise LookupError(f"{len(found)} encoders are called {text!r}")
        return found[0]

    def _entry(self, line: Line) -> tuple[str, int]:
        text = line.heads["reference"]
        return "" if text == "itself" else self.called(text), int(line.heads.get("k", ""))

    def _at(self, task: str, encoder: str, reference: str, k: int) -> Raw:
        wanted = (task, encoder, reference)
        own = [e for e in self.ranked if (e.task, e.encoder, e.reference) == wanted]
        return one([each for each in own if k in each.made["protocol"]["k"]])

    # Numbers of retrieval tasks

    def name(self, title: str, k: int) -> str:
        """Return the name in files of a column's score."""
        pattern = SCORES[title]
        return pattern.format(f"{self.uniform}_at_{k}") if "{}" in pattern else pattern

    def _ranked(self, line: Line, task: str, title: str, tasks: Sequence[str]) -> Number:
        """Return a score on one task, for a row that may cover several tasks."""
        if line.role == "published":
            return self._published(line, task, SCORES[title].format(""))
        reference, k = self._entry(line)
        if line.role in {"oracle", "random"}:
            return self._bound(line.role, reference, k, task, title)
        if line.role == "curve":
            return self._of_curve(line, task, title, tasks)
        raw = self._at(task, self.encoder_of(line), reference, k)
        return raw.number(self.name(title, k))

    def _gain(self, line: Line, title: str) -> Number:
        """Return a score minus that of the reference, with the interval in `statistics.json`."""
        reference, k = self._entry(line)
        name, encoder = self.name(title, k), self.encoder_of(line)
        before = self._at(line.column, reference, "", k)
        after = self._at(line.column, encoder, reference, k)
        answer = [name, [[each.made["run"], each.score(name)] for each in (before, after)]]
        ends = self.gains.get(digest_of([answer]))
        if ends is None:
            raise LookupError(f"statistics.json has no interval of {answer}")
        value = after.score(name) - before.score(name)
        if not ends[0] <= value <= ends[1]:
            raise LookupError(f"the gain {value} is not in its interval {ends}")
        return Number(value, *ends)

    def _of_pair(self, line: Line, task: str, part: str = "sources") -> Number:
        # The best point of a curve has seen what each of its points has.
        point = line.heads["encoder"].replace("(best ", "(")
        raw = self.result_of(replace(line, heads={**line.heads, "encoder": point}), task)
        return Number(raw.made["seen"][part]["normalised"] / raw.made["counts"][part])

    def _of_parts(self, line: Line, part: str) -> Number:
        shares = (self._of_pair(line, task, part) for task in self.tasks_of(line.table))
        return Number(fmean(share.value for share in shares))

    def _of_seen(self, line: Line, kind: str, protocol: set[str]) -> Number:
        """Return a main score, the share of tested rows that were seen, or an unseen score."""
        wanted = kind, line.heads["task"], self.encoder_of(line), protocol
        own = [
            e for e in self.raw if (e.made["task"]["kind"], e.task, e.encoder, e.protocol) == wanted
        ]
        raw = one(own)
        seen, counts = raw.made.get("seen") or {}, raw.made["counts"]
        n_seen = seen.get("test", seen.get("all", {})).get("normalised")
        if line.column == "seen":
            return Number(n_seen / (counts["test"] if "test" in seen else sum(counts.values())))
        title, _, unseen = line.column.partition(", ")
        if not unseen or (title != "base" and n_seen == 0):
            return raw.number(raw.made["main_score"])
        name = raw.made["main_score"].partition("_")[0] + "_unseen"
        return Number(raw.made["unseen"][name + "_base" * (title == "base")]["score"])

    def _bound(self, role: str, reference: str, k: int, task: str, title: str) -> Number:
        """Return a bound, computed from every result that it bounds; all must agree."""
        named = {each.reference for each in self.ranked}
        own = [e for e in self.ranked if e.task == task and k in e.made["protocol"]["k"]]
        if reference:
            own = [e for e in own if (e.reference or e.encoder) == reference]
        else:
            own = [e for e in own if not e.reference and e.encoder not in named]
        own.sort(key=lambda each: each.digest)
        found = [bound(each.score, role, f"{self.uniform}_at_{k}")[title] for each in own]
        if not found or max(found) - min(found) > 1e-6:
            raise LookupError(f"{title} of {task} is {sorted(set(found))}, by its results")
        return Number(found[0])

    def _of_curve(self, line: Line, task: str, title: str, tasks: Sequence[str]) -> Number:
        """Return a score at a curve's best point, by joint over the tasks of its row.

        The front is over all points, so it is the same for a method, at any chosen strength.
        """
        reference, k = self._entry(line)
        said = _CURVE.fullmatch(line.heads["encoder"])
        if said is None:
            raise LookupError("it names no point of a curve")
        points, own = self._points(said, reference)
        best = self._best(points, tasks, k)
        if shortest(best) != said[3] and not line.heads.get("strength"):
            raise LookupError(f"it is best at {said[2]} {shortest(best)}")
        if title != "front":
            return points[task][best].number(self.name(title, k))
        front = own[task]["fronts"][self.name(title, k)]
        dominated = area([each.score for each in points[task].values()], f"{self.uniform}_at_{k}")
        if not math.isclose(front["mean"], dominated, rel_tol=1e-9):
            raise LookupError(f"its points dominate {dominated}, its curve says {front['mean']}")
        return Number(front["mean"], *front["ci95"])

    def _points(
        self, said: re.Match[str] | None, reference: str
    ) -> tuple[dict[str, dict[float, Raw]], dict[str, Any]]:
        """Return the results of a curve's points, and the curve, by task."""
        if said is None:
            raise LookupError("it names no point of a curve")
        name, digits = _name_of(said[1])
        points: dict[str, dict[float, Raw]] = {}
        own = {}
        for curve in self.curves:
            whose = curve["name"], identity(curve["reference"]), curve["dial"]
            if whose != (name, reference, said[2]) or not curve["encoder"].startswith(digits):
                continue
            own[curve["task"]] = curve
            points[curve["task"]] = {
                point[said[2]]: self._at_point(curve, point, reference) for point in curve["points"]
            }
        return points, own

    def _best(
        self, points: Mapping[str, Mapping[float, Raw]], tasks: Sequence[str], k: int
    ) -> float:
        """Return the dial position with a curve's greatest mean joint; mean P breaks ties."""
        end = f"{self.uniform}_at_{k}"

        def means(at: float) -> tuple[float, float]:
            own = [points[task][at] for task in tasks]
            p = [each.score(self.name("P", k)) for each in own]
            return sum(joint(each.score, end) for each in own), sum(p)

        return max(set.intersection(*(set(points[each]) for each in tasks)), key=means)

    def _at_point(self, curve: Mapping[str, Any], point: Mapping[str, Any], reference: str) -> Raw:
        found = [
            each
            for each in self.ranked
            if (each.digest, each.task) == (point["encoder"], curve["task"])
            and (each.reference or each.encoder) == reference
        ]
        raw = one(found)
        stored = json.loads(raw.file.read_bytes())["scores"]
        text = json.dumps(stored, indent=2, ensure_ascii=False).encode() + b"\n"
        if hashlib.sha256(text).hexdigest() != point["scores_sha256"]:
            raise LookupError(f"the curve was not made from {raw.file.name} as it is")
        return raw

    # Means and published numbers

    def summed(self, heading: re.Match[str]) -> list[str]:
        """Return the tasks of the first table; its heading gives their number, or the only task."""
        tasks = self.averaged(self.ranked, heading[1])
        if heading[2] not in (tasks if len(tasks) == 1 else [None]):
            raise LookupError(f"{heading[0]!r} is of {tasks}")
        return tasks

    def averaged(self, own: Iterable[Raw], n_said: str | None) -> list[str]:
        """Return the tasks that all rows have, else all tasks, without twins of unseen sources."""
        has: dict[str, set[tuple[str, str, int]]] = {}
        for each in own:
            for k in each.made["protocol"].get("k", [0]):
                has.setdefault(each.task, set()).add((each.encoder, each.reference, k))
        unseen = {e.task for e in own if e.made["task"].get("unseen_of") in has}
        tasks = sorted(has.keys() - unseen)
        everyone = set().union(*has.values())
        averaged = [task for task in tasks if has[task] == everyone] or tasks
        n = str(len(tasks)) if averaged == tasks else f"{len(averaged)} of {len(tasks)}"
        if n_said is not None and n_said != n:
            raise LookupError(f"the mean is over {n} tasks, not {n_said}")
        return averaged

    def _group(self, heading: str) -> tuple[str, list[Raw]]:
        """Return the name in files of a heading's score, and the results below the heading."""
        said = _GROUP.fullmatch(heading.removesuffix(SINGLE))
        if said is None or said[1] not in KINDS:
            raise LookupError(f"{heading!r} is no task and no kind of them")
        measure, *protocol, _ = said[2].split(", ")
        kind = KINDS[said[1]]
        own = [e for e in self.raw if e.made["task"]["kind"] == kind]
        name = OF_ANSWERS.get(measure, re.sub("[ -]", "_", measure.lower()))
        return name, [e for e in own if e.protocol == {*protocol}]

    def _averaged_of_group(self, heading: str) -> list[str]:
        n_said = heading.rpartition(", ")[2].removesuffix(")").partition(" task")[0]
        _, own = self._group(heading)
        n_there = str(len({each.task for each in own}))
        tasks = self.averaged(own, None)
        ns = {n_there, f"{len(tasks)} of {n_there}"} if len(tasks) < int(n_there) else {n_there}
        if n_said not in ns:
            raise LookupError(f"its tasks are {' or '.join(sorted(ns))}, not {n_said}")
        return tasks

    def _group_mean(self, line: Line, heading: str) -> Number:
        name, own = self._group(heading)
        tasks = self._averaged_of_group(heading)
        said = line.column.removeprefix("mean of ").split(", ")
        if line.column.startswith("mean of ") and said != tasks:
            raise LookupError(f"the mean is of {tasks}")
        encoder = self.encoder_of(line)
        found = [one([e for e in own if (e.task, e.encoder) == (t, encoder)]) for t in tasks]
        return mean([each.number(name) for each in found])

    def _of_unmeasured(self, line: Line) -> Number:
        """Return a published number of a task that has no result on this board."""
        task, title = line.column.removesuffix(")").split(" (")
        if task in {each.task for each in self.raw}:
            raise LookupError(f"{task} has results")
        said = _PUBLISHED.fullmatch(line.heads["encoder"])
        wanted = (*said.groups(), task, OF_ANSWERS[title]) if said else ()
        names = ("name", "footnote", "task", "score")
        cited = one([e for e in self.cited if tuple(e[name] for name in names) == wanted])
        return Number(float(cited["value"]) / 100)

    def _published(self, line: Line, task: str, metric: str) -> Number:
        """Return a published number, marked with the difference to its twin."""
        said = _PUBLISHED.fullmatch(line.heads["encoder"])
        wanted = (said[1], said[2], task) if said else ()
        k = line.heads.get("k", "")
        own = [e for e in self.cited if (e["name"], e["footnote"], e["task"]) == wanted]
        scores = (f"{metric}_at_{k}", f"{metric}_uniform_at_{k}") if metric else ()
        cited = one([each for each in own if not metric or each["score"] in scores])
        value, twin = float(cited["value"]) / 100, cited.get("twin")
        measured = [
            each.score(cited["score"])
            for each in self.raw
            if twin
            and each.task == task
            and cited["score"] in each.scores
            and twin in names_of(each)
        ]
        std = float(cited["std"]) / 100 if cited.get("std") else math.nan
        own_weights = ("_uniform_at_" in cited["score"]) == bool(self.uniform)
        weights = "uniform" if "_uniform_at_" in cited["score"] else "linear"
        marks = [] if not metric or own_weights else [weights]
        marks += [signed(measured[0] - value, 2)] if measured else []
        return Number(value, std=std, mark=" ".join(marks))


def mean(numbers: Sequence[Number]) -> Number:
    """Return the mean of numbers, with their intervals combined in quadrature."""
    n = len(numbers)
    middle = sum(each.value for each in numbers) / n
    above = [each.high - each.value for each in numbers]
    below = [each.value - each.low for each in numbers]
    return Number(middle, middle - math.hypot(*below) / n, middle + math.hypot(*above) / n)


def over_seeds(values: Sequence[float], ends: Sequence[float]) -> float:
    """Return a half-width for other seeds and queries: Student's t over the seeds, and queries'."""
    n = len(values)
    seeds = t.ppf(0.975, n - 1) * stdev(values) / math.sqrt(n)
    queries = sum((end - value) ** 2 for value, end in zip(values, ends, strict=True)) / n
    return math.sqrt(seeds**2 + queries)


def names_of(raw: Raw) -> set[str]:
    """Return the names that select the encoder of a result."""
    name = raw.made["encoder"]["name"]
    also = {"minilm"} if name == "sentence-transformers/all-MiniLM-L6-v2" else set()
    return {name, name.rpartition("/")[2], label(raw.made["encoder"]), raw.digest[:8]} | also


def _name_of(text: str) -> tuple[str, str]:
    """Split a name in a table from the first digits of a digest, '' if it has none."""
    name, at, digits = text.rpartition(" @")
    return (name, digits) if re.fullmatch("[0-9a-f]{8}", digits) and at else (text, "")
