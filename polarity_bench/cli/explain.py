"""`polarity-bench explain`: the sources that two encoders retrieve for each query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from polarity_bench.cli.inputs import check_file
from polarity_bench.cli.options import (
    DataFlags,
    EmbeddingFlags,
    LoadingFlags,
    StoreFlags,
    Weight,
    usable_options,
)
from polarity_bench.cli.output import (
    OutputFlags,
    print_json,
    print_tables,
    progress_bar,
    remark,
    remark_draws,
    write_file,
)
from polarity_bench.errors import InputError, check_at_least, check_installed, reworded

if TYPE_CHECKING:
    from polarity_bench.encoders.load import EncoderOptions
    from polarity_bench.evaluation.many_tasks import EvaluationPlan, SuiteReport
    from polarity_bench.explain.dial_page import Dial
    from polarity_bench.explain.explanation import Answer, Explanation
    from polarity_bench.results.result_files import Result
    from polarity_bench.tasks.types.polarity.task import PolarityTask


def explain(
    *,
    model: Annotated[
        str,
        "Encoder A: any name that `run` accepts, or the name or digest of an encoder with results.",
        "-m",
    ],
    against: Annotated[
        str | None,
        "Encoder B, which is compared with A. Without it, --html writes a page on which readers "
        "turn the strength of A's axis.",
    ] = None,
    task: Annotated[str, "Polarity task whose queries are compared.", "-t"] = "contrast",
    html: Annotated[
        Path | None, "Write an interactive page to this .html file instead of printing tables."
    ] = None,
    k: Annotated[
        int | None, "Number of sources to retrieve for each query [default: the task's own].", "-k"
    ] = None,
    weighting: Weight = "linear",
    limit: Annotated[int | None, "Use only this many queries, for a quick test."] = None,
    n_changed: Annotated[
        int, "Number of queries to print, those with the largest changes first.", "--changed"
    ] = 10,
    strength: Annotated[
        float | None,
        "Weight of the polarity axis in queries, if A has an axis; without B, the strength at "
        "which the page opens.",
    ] = None,
    against_strength: Annotated[
        float | None, "Weight of the polarity axis in queries, if B has an axis."
    ] = None,
    prompt: Annotated[str | None, "Prompt to put before each text for A."] = None,
    against_prompt: Annotated[str | None, "Prompt to put before each text for B."] = None,
    results: Annotated[
        Path, "Folder with results; those of two encoders are stored there.", "-o"
    ] = Path("results"),
    encoder: LoadingFlags,
    data: DataFlags,
    embedding: StoreFlags,
    out: OutputFlags,
) -> None:
    """Show which queries encoder B fixes or breaks.

    A query is right if the weighted vote of its k nearest sources gives its label. Compared with
    encoder A, B fixes the queries that are right only for B, and breaks the queries that are right
    only for A. The command prints the queries that changed most, with their nearest sources, or
    writes a page. It reuses stored results that are current, and computes the others.

    Without encoder B, the page shows what A retrieves at strengths from -1 to 1. A needs a polarity
    axis, see `polarity-bench train axis`.
    """
    from polarity_bench.explain.dial_page import dial_page
    from polarity_bench.explain.explanation import as_json as laid_out
    from polarity_bench.explain.explanation import explain as explain_two
    from polarity_bench.explain.explorer_page import page
    from polarity_bench.tasks.types.base import Settings

    check_at_least(0, n_changed=n_changed)
    check_at_least(1, k=k)
    check_file("html", html, [".html"])
    if html is not None:
        check_installed("`html`", "jinja2")
    for field, given in {"strength": strength, "against_strength": against_strength}.items():
        if given is not None and not isfinite(given):  # refused before data is loaded
            raise InputError(f"`{field}` must be a finite number, got {given}")
    sides = [Side(model, prompt, strength)]
    if against is not None:
        sides.append(Side(against, against_prompt, against_strength))
    elif html is None or out.as_json or against_prompt is not None or against_strength is not None:
        raise InputError(
            "`against` is missing: name encoder B; without it, only a page of A's strengths can be "
            "written, with `html` and without `as_json`, `against_prompt` and `against_strength`"
        )
    if sides[0] in sides[1:]:
        raise InputError(f"`model` and `against` are both {model!r}; name two different encoders")
    spec = data.polarity_task(task)
    access = data.access()
    options = usable_options(encoder, offline=access.offline)
    loaded = spec.load(access, Settings(ks=() if k is None else (k,), limit=limit))
    if html is not None and loaded.spec.restriction:
        raise InputError(
            f"`html`: the texts of {loaded.spec.name} must not be published: its licence is "
            f"{loaded.spec.licence or 'not specified'} ({loaded.spec.restriction}); leave out "
            "`html` to print the queries"
        )
    remark_draws([loaded])
    if against is None and html is not None:
        dial = _turned(sides[0], loaded, options, embedding, weighting)
        write_file(html, dial_page(dial, sides[0].strength or 0.0))
        return
    one, other = _results(sides, loaded, options, results, embedding)
    found = explain_two(loaded, one, other, loaded.ks[-1], weighting)
    if html is not None:
        write_file(html, page(found))
    if out.as_json:
        print_json(laid_out(found, n_changed))
    elif html is None:
        print_tables(_text(found, n_changed, out.width))


@dataclass(frozen=True)
class Side:
    """One of the two encoders, with the name and options that the user gave."""

    name: str
    prompt: str | None
    strength: float | None


def _turned(
    side: Side,
    task: PolarityTask,
    options: EncoderOptions,
    embedding: EmbeddingFlags,
    weighting: str,
) -> Dial:
    """Return the results of an encoder at all strengths of the page.

    They are not stored, because each strength would be a row on the boards of the folder.

    Raises:
        InputError: If the encoder or its base cannot be loaded, if it has no axis or cannot be
            evaluated, or if the page does not show the strength to open at.
    """
    from polarity_bench.encoders.base import AbsentEncoder
    from polarity_bench.encoders.steered import at_strength
    from polarity_bench.encoders.train_file import training_of
    from polarity_bench.evaluation.contamination import Contamination
    from polarity_bench.evaluation.many_encoders import load_with_reference, with_memory
    from polarity_bench.evaluation.many_tasks import EvaluationPlan
    from polarity_bench.explain.dial_page import STRENGTHS, Dial
    from polarity_bench.results.result_files import read_arrays
    from polarity_bench.tasks.types.polarity.scoring import rank

    if not STRENGTHS[0] <= (side.strength or 0.0) <= STRENGTHS[-1]:
        raise InputError(
            f"`strength`: the page shows strengths from {STRENGTHS[0]:g} to {STRENGTHS[-1]:g}, got "
            f"{side.strength:g}; the page opens at this strength, 0 by default"
        )
    own = replace(options, prompt=side.prompt)
    encoder, reference = load_with_reference(side.name, own, None, remark)
    steered = {strength: at_strength(encoder, strength) for strength in STRENGTHS}
    if reference is None or isinstance(reference, AbsentEncoder):
        raise InputError(
            f"`model` {side.name}: the base, which measures S, is not available; train the axis "
            "with `polarity-bench train axis`, and keep its base where it was"
        )
    results = []
    with embedding.embedder(encoder) as opened, TemporaryDirectory() as temporary:
        folder, embedder = Path(temporary), with_memory(opened, [task])
        seen = Contamination(training_of(encoder), [task], folder)
        plan = EvaluationPlan(encoder, reference, embedder, bar=progress_bar, contamination=seen)
        for each in steered.values():
            (result,) = _evaluated(replace(plan, encoder=each), task, folder).results
            results.append(replace(result, arrays=read_arrays(result.path)))
        by_reference = rank(task, plan.embed(reference, [task]))
    return Dial(task, dict(zip(steered, results, strict=True)), by_reference, weighting)


def _results(
    sides: Sequence[Side],
    task: PolarityTask,
    options: EncoderOptions,
    folder: Path,
    embedding: EmbeddingFlags,
) -> list[Result]:
    """Return the result of each encoder, either stored or newly computed.

    Raises:
        InputError: If an encoder cannot be loaded or evaluated, or if both are the same encoder.
    """
    from polarity_bench.encoders.load import EncoderOptions
    from polarity_bench.encoders.steered import at_strength
    from polarity_bench.evaluation.many_encoders import load_with_reference
    from polarity_bench.evaluation.many_tasks import EvaluationPlan
    from polarity_bench.explain.explanation import check_distinct, find_stored

    def find(s: Side, by_name: bool = False) -> Result | None:
        return find_stored(folder, s.name, task, task.ks[-1], s.prompt, s.strength, by_name)

    stored = list(map(find, sides))
    plans: dict[int, EvaluationPlan] = {}
    for i, side in enumerate(sides):
        if stored[i] is None:
            own = replace(options, prompt=side.prompt)
            fields = ("prompt", "strength") if i else ()
            try:
                with reworded(words={f"`{name}`": f"`against_{name}`" for name in fields}):
                    encoder, reference = load_with_reference(side.name, own, None, remark)
                    if side.strength is not None:
                        encoder = at_strength(encoder, side.strength)
            except InputError as error:
                # Other options change vectors or allow code, so that a name does not suffice.
                usual = EncoderOptions(prompt=side.prompt, device=own.device, offline=own.offline)
                with reworded(f"{error}\nerror: "):
                    stored[i] = find(side, by_name=own == usual)
                if stored[i] is None:
                    raise
                continue
            plans[i] = EvaluationPlan(encoder, reference, bar=progress_bar)
    names = [each.key.encoder if each else plans[i].encoder.id for i, each in enumerate(stored)]
    check_distinct(*names)
    found = []
    for i, each in enumerate(stored):
        reused = each is not None
        if each is None:
            with embedding.embedder(plans[i].encoder) as embedder:
                report = _evaluated(replace(plans[i], embedder=embedder), task, folder)
            (each,), reused = report.results, bool(report.reused)
            if report.uncounted:
                remark(f"warning: texts seen in training are not counted: {report.uncounted}")
        if reused:
            remark(f"{names[i].label}: from {each.path}")
        found.append(each)
    return found


def _evaluated(plan: EvaluationPlan, task: PolarityTask, folder: Path) -> SuiteReport:
    """Return the report of an encoder on the task.

    Raises:
        InputError: If the task failed; the message names the encoder.
    """
    from polarity_bench.evaluation.many_tasks import run_suite

    report = run_suite(plan, [task], folder)
    for message in report.failures.values():
        raise InputError(f"{plan.encoder.id.label}: {message}")
    return report


def _text(found: Explanation, n_changed: int, width: int | None) -> str:
    from polarity_bench.render.format import percent
    from polarity_bench.render.markdown import escape, table

    changed, counts = found.most_changed(n_changed), found.counts
    heads = [
        ("", ["A", "B"]),
        ("encoder", [encoder.label for encoder in found.encoders]),
        ("digest", [encoder.digest for encoder in found.encoders]),
        ("P", list(map(percent, found.p.aligned.scores))),
        ("right", list(map(percent, found.vote.aligned.scores))),
    ]
    outcomes = ", ".join(f"{n:,} {outcome}" for outcome, n in counts.items())
    parts = [
        f"## {escape(found.task.spec.name)}, k = {found.k}, {found.weighting} weights",
        table(heads, width=width),
        (
            f"Of {len(found.answers):,} queries, by the vote of their {found.k} nearest sources: "
            f"{outcomes}."
        ),
    ]
    if changed:
        parts += ["Most changed queries:", table(_rows(found, changed), width=width)]
    elif n_changed:
        parts.append("P is the same for every query.")
    return "\n\n".join([*parts, "Scores times 100."])


def _rows(found: Explanation, changed: Sequence[Answer]) -> list[tuple[str, list[str]]]:
    """Return table columns of queries: number, text, label, P, outcome and nearest sources."""
    from polarity_bench.render.format import percent

    query, source = found.task.query, found.task.source
    return [
        ("query", [str(each.query + 1) for each in changed]),
        ("text", [query.texts[each.query] for each in changed]),
        ("label", [query.labels[each.query] for each in changed]),
        *((f"P of {n}", [percent(each.p[i]) for each in changed]) for i, n in enumerate("AB")),
        ("became", [each.outcome for each in changed]),
        *(
            (f"nearest of {n}", [source.texts[each.found[i][0].source] for each in changed])
            for i, n in enumerate("AB")
        ),
    ]
