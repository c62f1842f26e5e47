"""What `run --fail-under` holds a run against, and what it says of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarity_bench.cli.output import remark
from polarity_bench.compare import gate
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import other_reference
from polarity_bench.metrics.pairwise import LEVEL
from polarity_bench.render.markdown import MISSING, escape, percent, probability, table
from polarity_bench.scores import Weighting

if TYPE_CHECKING:
    from polarity_bench.encoders.base import Encoder, EncoderId
    from polarity_bench.evaluation.many_tasks import SuiteReport
    from polarity_bench.results.result_files import Stored
    from polarity_bench.tasks.types.base import Task, TaskSpec


@dataclass
class RunGate:
    """The gate of one run: what it is held against is known before it begins.

    Attributes:
        named: What the baseline is called on the command line.
        stored: Its results on the tasks of the run.
        found: What each task is held against; empty until `expect`.
    """

    named: str
    stored: Sequence[Stored]
    found: Mapping[str, gate.Baseline] = field(default_factory=dict)

    def expect(
        self,
        tasks: Sequence[Task],
        encoder: Encoder,
        reference: Encoder | None,
        weighting: Weighting,
        p_alone: bool,
    ) -> None:
        """Check the baseline against what is to be run; say which tasks it lacks.

        Raises:
            InputError: If it cannot be held against that, see `gate.baselines`.
        """
        other = other_reference(encoder, reference)
        ids = encoder.id, other.id if other else None
        self.found = gate.baselines(self.stored, tasks, *ids, weighting, p_alone=p_alone)
        if not self.found:
            raise InputError(
                f"`fail_under` {self.named}: no task in common with those whose data is there"
            )
        if lacking := [task.spec.name for task in tasks if task.spec.name not in self.found]:
            remark(f"gate: the baseline lacks {', '.join(lacking)}, which nothing holds")
        baseline = self.stored[0][1].key.encoder
        if baseline.digest == encoder.id.digest:
            remark(f"gate: {encoder.id.label} is the baseline itself")

    def judge(self, reports: Sequence[SuiteReport]) -> GateReport:
        """Hold what the run gave against the baseline; tasks that were skipped do not pass."""
        results = [(path, result) for report in reports for result, path in report.results]
        judged = gate.judge(self.found, results)
        skipped = {result.task for _, result in self.stored} - set(self.found)
        lacks_s = [each.task for each in judged.held if self.found[each.task].lacks_s]
        judged = replace(judged, failed=(*judged.failed, *sorted(skipped)))
        return GateReport(self.named, judged, lacks_s)


def gate_of(
    named: str,
    output: Path,
    tasks: Sequence[TaskSpec],
    models: Sequence[str],
    strengths: Sequence[float],
) -> RunGate:
    """Find the baseline of a run.

    Raises:
        InputError: If there is none, it has no task of the run, or the run is of several encoders.
    """
    if len(models) > 1 or len(strengths) > 1:
        raise InputError(
            "`fail_under` holds one encoder against a baseline: name one `model`, and one "
            "`strength` at most"
        )
    return RunGate(named, gate.find_baseline(named, output, [spec.name for spec in tasks]))


@dataclass(frozen=True)
class GateReport:
    """What is said of a gate.

    Attributes:
        named: What the baseline is called on the command line.
        gate: What came of it.
        lacks_s: Tasks whose P was compared alone.
    """

    named: str
    gate: gate.Gate
    lacks_s: Sequence[str] = ()

    @property
    def is_open(self) -> bool:
        """Whether the run passes."""
        return self.gate.is_open

    @property
    def verdict(self) -> str:
        """Say in a line what came of it."""
        fallen, failed = (", ".join(tasks) for tasks in (self.gate.fallen, self.gate.failed))
        said = [f"no fall below {self.named} beyond chance"] if self.is_open else []
        said += [f"fell below {self.named}: {fallen}"] if fallen else []
        said += [f"gave no result: {failed}"] if failed else []
        said += [f"S not compared: {', '.join(self.lacks_s)}"] if self.lacks_s else []
        return f"gate: {'; '.join(said)}"

    def text(self, width: int | None) -> str:
        """Lay it out for a person."""
        held = self.gate.held
        if not held:
            return f"\n{escape(self.verdict)}\n"
        old, new = (f"{_encoder(held[0], i).label} {_encoder(held[0], i).digest}" for i in (0, 1))
        scores = [each.aligned.scores for each in held]
        heads = [
            ("task", [each.task for each in held]),
            ("measure", [str(each.aligned.key) for each in held]),
            ("baseline", [percent(float(one)) for one, _ in scores]),
            ("new", [percent(float(other)) for _, other in scores]),
            ("difference", [percent(each.difference, sign="+") for each in held]),
            (f"{100 * gate.INTERVAL:g} %", [_interval(each.interval) for each in held]),
            ("p", [probability(each.corrected) for each in held]),
            ("shows", [percent(each.detectable, 1) for each in held]),
            ("verdict", ["falls" if each.falls else "holds" for each in held]),
        ]
        parts_of_joint = [_parts(each) for each in held]
        if any(parts_of_joint):
            heads += [
                (title, [_arrow(parts.get(metric)) for parts in parts_of_joint])
                for title, metric in (("P", "polarity"), ("retention", "retention"))
            ]
        many = f", corrected for {len(held)} tasks by Holm's method" if len(held) > 1 else ""
        said = (
            f"p: of no true fall, one-sided{many}; below {LEVEL:g} it falls, as by chance 5 % of "
            "runs do without a true fall. shows: the true fall that these queries show "
            "four times in five. Scores times 100."
        )
        if any(parts_of_joint):
            said += (
                " Joint may hold while an encoder forgets meaning, if P rises as much: look at "
                "retention, from the baseline's to the new one."
            )
        title = f"## Gate: {escape(new)} against {escape(old)}"
        files = dict.fromkeys(str(each.aligned.stored[0][0].parent) for each in held)
        below = f"The baseline is in {escape(', '.join(files))}."
        parts = [title, f"**{escape(self.verdict)}**", table(heads, width=width), below, said]
        return "\n" + "\n\n".join(parts) + "\n"

    def as_json(self) -> dict[str, Any]:
        """Lay it out for a program."""
        return {
            "baseline": self.named,
            "passed": self.is_open,
            "verdict": self.verdict,
            "s_not_compared": list(self.lacks_s),
            "level": LEVEL,
            "comparisons": [_as_json(each) for each in self.gate.held],
            "failed": list(self.gate.failed),
        }


def _as_json(held: gate.Held) -> dict[str, Any]:
    sides = {
        name: {
            "encoder": _encoder(held, i).name,
            "encoder_digest": _encoder(held, i).digest,
            "file": str(held.aligned.stored[i][0]),
            "score": _or_null(float(held.aligned.scores[i])),
        }
        for i, name in enumerate(("baseline", "new"))
    }
    return {
        "task": held.task,
        "measure": str(held.aligned.key),
        **sides,
        "difference": _or_null(held.difference),
        "interval": [_or_null(end) for end in held.interval],
        "interval_level": gate.INTERVAL,
        "p": _or_null(held.p),
        "p_corrected": _or_null(held.corrected),
        "method": held.method,
        "n": held.aligned.n_queries,
        "units": held.aligned.n_units,
        "detectable": _or_null(held.detectable),
        "falls": held.falls,
        **{metric: [_or_null(value) for value in both] for metric, both in _parts(held).items()},
    }


def _parts(held: gate.Held) -> dict[str, tuple[float, float]]:
    """Return P and retention, which make joint, of the baseline and the new result."""
    key = held.aligned.key
    if key.metric != "joint":
        return {}
    scores = [result.scores for _, result in held.aligned.stored]
    keys = {metric: replace(key, metric=metric) for metric in ("polarity", "retention")}
    return {m: (scores[0][part].mean, scores[1][part].mean) for m, part in keys.items()}


def _arrow(both: tuple[float, float] | None) -> str:
    """Show a score of the baseline and the new one."""
    return MISSING if both is None else " to ".join(map(percent, both))


def _encoder(held: gate.Held, i: int) -> EncoderId:
    return held.aligned.stored[i][1].key.encoder


def _interval(ends: tuple[float, float]) -> str:
    if math.isnan(ends[0]):
        return MISSING
    return " to ".join(percent(end, sign="+") for end in ends)


def _or_null(value: float) -> float | None:
    return value if math.isfinite(value) else None
