"""Quality gate of `run --fail-under`: checks before the run, and the outcome as text and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from polarity_bench.boards.unseen_columns import seen_parts, seen_words
from polarity_bench.cli.compare import comparison_columns, comparison_json
from polarity_bench.cli.output import remark
from polarity_bench.compare.gate import Gate, judge
from polarity_bench.compare.gate_baseline import NoCommonReferenceError, baselines
from polarity_bench.errors import InputError
from polarity_bench.evaluation.one_task import other_reference
from polarity_bench.metrics.pairwise import LEVEL
from polarity_bench.render.format import MISSING, percent
from polarity_bench.render.markdown import escape, table
from polarity_bench.values import printable

if TYPE_CHECKING:
    from polarity_bench.cli.output import OutputFlags
    from polarity_bench.compare.alignment import Alignment
    from polarity_bench.encoders.base import Encoder
    from polarity_bench.evaluation.many_encoders import EncoderReport
    from polarity_bench.results.result_files import Result
    from polarity_bench.tasks.types.base import Task


@dataclass
class RunGate:
    """Quality gate of one run.

    Attributes:
        named: Name of the baseline, as the user typed it.
        results: Results of the baseline on the tasks of the run.
        p_alone: Whether only P is compared.
        found: Baseline result of each task, keyed by task; empty until `expect` is called.
    """

    named: str
    results: Sequence[Result]
    p_alone: bool
    found: Mapping[str, Alignment] = field(default_factory=dict)

    def expect(
        self,
        tasks: Sequence[Task],
        weighting: str,
        out: OutputFlags,
        encoder: Encoder,
        reference: Encoder | None,
    ) -> None:
        """Check before the run that the baseline is comparable, and report tasks that it lacks.

        Raises:
            InputError: If the baseline cannot be compared with the run; see `baselines`.
        """
        other = other_reference(encoder, reference)
        ids = encoder.id, other.id if other else None
        try:
            self.found = baselines(self.results, tasks, *ids, weighting, p_alone=self.p_alone)
        except NoCommonReferenceError:
            if not out.as_json:
                print("gate: S not compared")  # CI job summaries contain only stdout
            raise
        if not self.found:
            raise InputError(
                f"`fail_under` {self.named}: the data of all tasks of the baseline is missing; run "
                "`polarity-bench data fetch` first"
            )
        if lacking := [task.spec.name for task in tasks if task.spec.name not in self.found]:
            remark(f"gate: the baseline has no results of these tasks: {', '.join(lacking)}")
        baseline = self.results[0].key.encoder
        if baseline.digest == encoder.id.digest:
            remark(f"gate: {encoder.id.label} is the baseline itself")

    def judge(self, reports: Sequence[EncoderReport]) -> Gate:
        """Compare the results of the run with the baseline. A skipped task fails the gate."""
        results = [result for report in reports for result in report.results]
        skipped = {result.task for result in self.results} - set(self.found)
        return judge(self.found, results, self.named, skipped)


def gate_text(judged: Gate, width: int | None) -> str:
    """Return the outcome of a gate as markdown, with tables of at most `width` characters."""
    compared = judged.comparisons
    if not compared:
        return f"\n{escape(judged.verdict)}\n"
    pairs = [each.aligned for each in compared]
    ids = [result.key.encoder for result in pairs[0].results]
    columns = [
        *comparison_columns(compared, ("baseline", "new")),
        ("verdict", ["falls" if each.falls else "holds" for each in compared]),
    ]
    n = len(compared)
    many = f", corrected for {n} tasks by Holm's method" if n > 1 else ""
    legend = (
        f"p: p-value of a one-sided test for a decrease{many}. If p is below {LEVEL:g}, the score "
        "counts as fallen. Without a true decrease, this happens by chance in at most 5 % of runs. "
        "detectable: minimum detectable decrease (80 % power). Scores times 100."
    )
    parts_of_joint = [_parts(pair) for pair in pairs]
    if any(parts_of_joint):
        columns += [
            (title, [_arrow(parts.get(metric)) for parts in parts_of_joint])
            for title, metric in (("P", "polarity"), ("retention", "retention"))
        ]
        legend += (
            " If P rises, joint can stay the same although the encoder loses meaning. Therefore P "
            "and retention are also shown, for the baseline and for the new encoder."
        )
    if any(seen := [seen_words(seen_parts(pair.results[1])) for pair in pairs]):
        columns.append(("contamination", seen))
    old, new = (escape(f"{encoder.label} {encoder.digest}") for encoder in ids)
    files = dict.fromkeys(str(pair.results[0].path.parent) for pair in pairs)
    parts = [
        f"\n## Gate: {new} against {old}",
        f"**{escape(judged.verdict)}**",
        table(columns, width=width),
        f"The baseline is in {', '.join(map(_code, files))}.",
        f"{legend}\n",
    ]
    return "\n\n".join(parts)


def _code(path: str) -> str:
    """Return a path as a code span, in which nothing is escaped, so that it can be copied."""
    return escape(path) if "`" in path else f"`{printable(path)}`"


def gate_json(judged: Gate) -> dict[str, Any]:
    """Return the outcome of a gate as a JSON object."""
    return {
        "baseline": judged.named,
        "passed": judged.is_open,
        "verdict": judged.verdict,
        "s_not_compared": judged.lacks_s,
        "not_compared": judged.not_compared,
        "level": LEVEL,
        "comparisons": [
            comparison_json(each, ("baseline", "new"))
            | {"p": p, "p_corrected": each.test.p, "falls": each.falls}
            | _parts(each.aligned)
            for each, p in zip(judged.comparisons, judged.uncorrected, strict=True)
        ],
        "failed": judged.failed,
    }


def _parts(pair: Alignment) -> dict[str, tuple[float, float]]:
    """Return P and retention of the baseline and of the new result; {} if joint is not compared."""
    if pair.key.metric != "joint":
        return {}
    old, new = (result.scores for result in pair.results)
    keys = {metric: replace(pair.key, metric=metric) for metric in ("polarity", "retention")}
    return {metric: (old[key].mean, new[key].mean) for metric, key in keys.items()}


def _arrow(both: tuple[float, float] | None) -> str:
    return MISSING if both is None else " to ".join(map(percent, both))
