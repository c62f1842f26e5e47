"""The numbers of a sweep's board, from its plan, its result files and `published.csv`."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy import stats

from traced.lines import Line, Number, signed
from traced.ranks import least_of
from traced.raw import Raw, one, read_cited, read_raw, shortest

_METRICS = ("polarity", "similarity")
_SIZES = re.compile(r"Numbers of examples, ([^,]+)(.*)")
_UNPAIRED = re.compile(
    r"^Minimum detectable difference of unpaired .+?: (.+) points\.", re.MULTILINE
)
_OF_TASK = re.compile(r"(?:(\S+) on )?(\S+) ([\d.]+)(?: points|$)")
_PUBLISHED = re.compile(r"(.+), as published \[(\d+)\]")
_SECTIONS = {"warm_up", "mining", "rate", "epochs", "batch_size", "dropout", "prompt", "checkpoint"}
_USUAL = 50_000  # default number of examples; all if there are fewer
Item = Mapping[str, Any]


class Sweep:
    """The numbers of a sweep's board."""

    def __init__(self, folder: Path) -> None:
        said = tomllib.loads((folder / "board.toml").read_text(encoding="utf-8"))
        self.uniform = "_uniform" if said.get("weighting") == "uniform" else ""
        items = json.loads((folder / "sweep.json").read_bytes())["items"]
        self.trainings = [item for item in items if item["kind"] == "training"]
        self.raw = read_raw(folder / "results")
        cited = read_cited(folder / "published.csv")
        self.cited = [each for each in cited if each.get("model")]
        self.cited_sizes = [each for each in cited if not each.get("model")]

    def number(self, line: Line) -> Number:
        """Return the number of a line; of two lines with the same text, the first shows P."""
        if sizes := _SIZES.fullmatch(line.table):
            return self._of_size(line, sizes[1], sizes[2])
        metric = _METRICS[line.repeat]
        model, task = re.fullmatch(r"(.*), (.*)", line.column).groups()  # type: ignore[union-attr]
        if line.role == "published":
            return self._published(line, model, task)
        if line.role == "base":
            return over([self._base(model, task)], 1, self._name(metric, self._base(model, task)))
        # Empty heads are missing or belong to other tables.
        said = {key: text for key, text in line.heads.items() if text}
        said |= _settings(line.table.split(", ")[1:])
        if line.role == "other":
            recipe, *own = next(iter(line.heads.values())).split(", ")
            said = {"recipe": recipe} | _settings(own)
        return self._over(self._shown(model, task, said), metric)

    def unknown_unpaired(self, readme: str) -> list[str]:
        """Return a message for each unpaired detectable difference that does not fit its table."""
        wrong = []
        models = {item["settings"]["model"] for item in self.trainings}
        for section in readme.split("\n## ")[1:]:
            heading, _, text = section.partition("\n")
            said = _settings(heading.split(", ")[1:])
            for metric, note in zip(_METRICS, _UNPAIRED.findall(text), strict=False):
                for named, task, least in _OF_TASK.findall(note):
                    model = named or one(list(models))
                    others = [i for i in self._of(model, task) if not _is_counted(i)]
                    items = [i for i in self._shown(model, task, said) if _is_counted(i)]
                    base = self._base(model, task)
                    raw = [base, *self._results([*items, *others])]
                    held = f"{100 * least_of([e.error(self._name(metric, base)) for e in raw]):.1f}"
                    if held != least:
                        wrong.append(f"{heading}: {metric} on {task}: {least}, not {held}")
        return wrong

    def _name(self, metric: str, raw: Raw) -> str:
        k = raw.made["main_score"].rpartition("_at_")[2]
        return f"{metric}{self.uniform}_at_{k}"

    def _results(self, items: Sequence[Item]) -> list[Raw]:
        """Return the results of training runs, each on the task trained on."""
        named = {(item["encoder"], item["task"]) for item in items}
        return [e for e in self.raw if (e.made["encoder"]["name"], e.task) in named]

    def _over(self, items: Sequence[Item], metric: str) -> Number:
        raw = self._results(items)
        return over(raw, len(items), self._name(metric, raw[0]) if raw else "")

    def _of(self, model: str, task: str) -> list[Item]:
        own = [item for item in self.trainings if item["task"] == task]
        return [i for i in own if Path(i["settings"]["model"]).name == Path(model).name]

    def _base(self, model: str, task: str) -> Raw:
        """Return the result of the untrained base, the reference of a column's training runs."""
        references = {raw.reference for raw in self._results(self._of(model, task))}
        trained = {item["encoder"] for item in self.trainings}  # some runs changed no weight
        found = [e for e in self.raw if e.task == task and e.encoder in references]
        return one([e for e in found if e.made["encoder"]["name"] not in trained])

    def _shown(self, model: str, task: str, said: Mapping[str, str]) -> list[Item]:
        """Return the training runs with these settings and the shown number of examples.

        This is the default number, or else the largest; numbers without missing runs come first.
        """
        own = [item for item in self._of(model, task) if agrees(item["settings"], said)]
        counted = [item["settings"] for item in self.trainings if _is_counted(item)]
        sizes = {settings.get("examples") for settings in counted}
        section = [
            item for item in self.trainings if _is_counted(item) and self._in_section(item, said)
        ]
        whole = {n for n in sizes if self._all_there(section, n)}
        sizes = whole or sizes
        shown = _USUAL if _USUAL in sizes else max(sizes, key=lambda n: n or _USUAL, default=None)
        return [i for i in own if not _is_counted(i) or i["settings"].get("examples") == shown]

    def _in_section(self, item: Item, said: Mapping[str, str]) -> bool:
        """Return whether a run has the settings in the heading, whatever those of the row."""
        of_heading = {key: text for key, text in said.items() if key in _SECTIONS}
        return agrees(item["settings"], of_heading)

    def _all_there(self, section: Sequence[Item], n: int | None) -> bool:
        own = [item for item in section if item["settings"].get("examples") == n]
        return len(self._results(own)) == len(own)

    def _of_size(self, line: Line, task: str, section: str) -> Number:
        """Return mean and spread, minimum, maximum or count of runs with a number of examples."""
        if line.role == "published":
            return self._published_size(line, task, section)
        said = _settings(filter(None, section.split(", ")))
        own = [i for i in self.trainings if i["task"] == task and agrees(i["settings"], said)]
        if line.role == "base":
            raw = [self._base(model, task) for model in {i["settings"]["model"] for i in own}]
        else:
            n = int(line.heads["N"].replace(",", "").partition(" ")[0])
            own = [i for i in own if (i["settings"].get("examples") or _USUAL) == n]
            raw = self._results(own)
        if line.column == "n":
            return Number(len(raw))
        short, what = line.column.split(" ")
        name = self._name(dict(zip("PS", _METRICS, strict=True))[short], raw[0])
        values = [each.score(name) for each in raw]
        if what != "mean":
            return Number({"min": min, "max": max}[what](values))
        return Number(fmean(values), std=stdev(values) if len(values) > 1 else math.nan)

    def _published_size(self, line: Line, task: str, section: str) -> Number:
        """Return a published mean for a number of examples, in the table that `twin` names."""
        name, footnote = _PUBLISHED.fullmatch(line.heads["N"]).groups()  # type: ignore[union-attr]
        short, what = line.column.split(" ")
        metric = dict(zip("PS", _METRICS, strict=True))[short]
        place = {"task": task} | _settings(filter(None, section.split(", ")))
        own = [
            each
            for each in self.cited_sizes
            if (each["name"], each["footnote"], each["score"]) == (name, footnote, metric)
            and place.items() <= {"task": each["task"], **_twin(each)}.items()
        ]
        cell = one(own)
        value = float(cell["value" if what == "mean" else what]) / 100
        return Number(value, std=float(cell["std"]) / 100 if what == "mean" else math.nan)

    def _published(self, line: Line, model: str, task: str) -> Number:
        said = _PUBLISHED.fullmatch(next(iter(line.heads.values())))
        wanted = {"name": said[1], "footnote": said[2], "task": task} if said else {}
        own = [each for each in self.cited if wanted.items() <= each.items()]
        own = [each for each in own if Path(each["model"]).name == Path(model).name]
        by_metric = {_METRICS.index(each["score"]): each for each in own}
        cited = by_metric[line.repeat]
        metric = cited["score"]
        value, twin = float(cited["value"]) / 100, cited["twin"]
        std = float(cited["std"]) / 100 if cited["std"] else math.nan
        measured = math.nan
        heading = _settings(line.table.split(", ")[1:])
        in_section = [i for i in self._of(model, task) if self._in_section(i, heading)]
        if twin == "reference" and in_section:
            base = self._base(model, task)
            measured = base.score(self._name(metric, base))
        elif twin and twin != "reference":
            own_items = self._shown(model, task, _twin(cited))
            own_items = [item for item in own_items if self._in_section(item, heading)]
            measured = self._over(own_items, metric).value if self._results(own_items) else math.nan
        mark = "" if math.isnan(measured) else signed(measured - value, 1)
        return Number(value, std=std, mark=mark)


def _twin(cited: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a published number is compared with."""
    return dict(part.split("=") for part in cited["twin"].split(","))


def _settings(parts: Iterable[str]) -> dict[str, str]:
    """Read settings as in headings and rows, such as `margin 0.1`."""
    return {key: text for key, _, text in (part.partition(" ") for part in parts)}


def _is_counted(item: Item) -> bool:
    return bool(item["settings"]["recipe"] == "margins")


def over(raw: Sequence[Raw], n_planned: int, name: str) -> Number:
    """Return the mean of training runs; a single planned run has its spread over queries."""
    values = [each.score(name) for each in raw]
    if n_planned == 1 and len(values) == 1:
        return replace(raw[0].number(name), std=raw[0].score(f"{name}_std"))
    if not values:
        raise LookupError("there is no result of it")
    n = f"({len(values)} of {n_planned} seeds)" if len(values) < n_planned else ""
    if len(values) == 1:
        return Number(values[0], mark=n)
    low, high = (over_seeds([each.number(name) for each in raw], end) for end in (-1, 1))
    low = max(low, 0.0 if name.startswith("polarity") else -1.0)  # P is a share, S is a mean cosine
    return Number(fmean(values), low, min(high, 1.0), stdev(values), n)


def over_seeds(numbers: Sequence[Number], end: int) -> float:
    """Return an end of a mean's interval, from the sum of the variances over seeds and queries."""
    n, mean = len(numbers), fmean(each.value for each in numbers)
    squares = [((each.low if end < 0 else each.high) - each.value) ** 2 for each in numbers]
    over_queries, over_seeds = fmean(squares), stdev(each.value for each in numbers) ** 2 / n
    return mean + end * math.sqrt(stats.t.isf(0.025, n - 1) ** 2 * over_seeds + over_queries)


def agrees(settings: Mapping[str, Any], said: Mapping[str, str]) -> bool:
    """Return whether a run has the settings shown in a row."""
    return all(_as_said(settings.get(key), text) for key, text in said.items())


def _as_said(value: Any, text: str) -> bool:
    if value is None:
        return text == "none"
    if isinstance(value, bool | str):
        return str(value).lower() == text.lower()
    return shortest(value) == text.replace(",", "") or f"{value:,}" == text
