"""`run --compare-prompts`: encoders with and without their prompts, compared query by query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from polarity_bench.cli.compare import comparison_columns, comparison_json
from polarity_bench.cli.output import remark
from polarity_bench.compare.paired_comparison import Comparison, compare, corrected, pair_up
from polarity_bench.encoders.base import Encoder
from polarity_bench.errors import InputError
from polarity_bench.evaluation.many_encoders import (
    EncoderReport,
    EvaluationRequest,
    evaluate_models,
)
from polarity_bench.metrics.pairwise import LEVEL
from polarity_bench.render.markdown import escape, table


def with_and_without(request: EvaluationRequest) -> Iterator[EncoderReport]:
    """Evaluate encoders with and without their prompts, and yield both reports of each encoder.

    An encoder that fails with its prompt, for example because it has none, has only that report.
    """
    plain = replace(request.options, prompt="", prompt_name=None)
    for model in request.models:
        for report in evaluate_models(replace(request, models=[model], check=check_prompt)):
            yield report
            if report.error is None:
                yield from evaluate_models(replace(request, models=[model], options=plain))


def check_prompt(encoder: Encoder, _reference: Encoder | None = None) -> None:
    """Raise InputError if an encoder encodes texts without a prompt."""
    if encoder.id.prompt:
        return
    names: Sequence[str] | None = getattr(encoder, "prompt_names", None)
    if names is None:
        why = "takes no prompt; name an encoder of sentence-transformers or transformers"
    elif names:
        why = f"uses no prompt by default; choose one with `prompt_name` ({', '.join(names)})"
    else:
        why = "has no prompt in its configuration; give one with `prompt`"
    raise InputError(f"`compare_prompts`: the encoder {encoder.id.name!r} {why}")


def compare_prompts(reports: Sequence[EncoderReport], weighting: str) -> list[list[Comparison]]:
    """Compare the main scores of each encoder with its prompt to those without, by task.

    P-values are corrected by Holm's method for the tasks of the encoder. Results that cannot be
    paired are reported and left out.

    Args:
        reports: Reports of `with_and_without`, in their order.
        weighting: Weighting of the ranks.
    """
    found, notes = [], []
    remaining = iter(reports)
    for prompted in remaining:
        if prompted.error is not None:
            continue
        plain = next(remaining)
        without, compared = {result.task: result for result in plain.results}, []
        for result in prompted.results:
            if result.task not in without:
                continue
            try:
                aligned, note = pair_up([without[result.task]], [result], None, weighting)
            except InputError as error:
                remark(f"warning: {result.task} is not compared: {error}")
                continue
            compared.append(compare(aligned, 0))
            notes.append(note)
        found.append(corrected(compared))
    for note in filter(None, dict.fromkeys(notes)):
        remark(f"{note}; to compare the main score, name a `reference`")
    return [comparisons for comparisons in found if comparisons]


def prompts_text(compared: Sequence[Comparison], width: int | None) -> str:
    """Return the comparison of an encoder with and without its prompt as markdown."""
    plain, prompted = (result.key.encoder for result in compared[0].aligned.results)
    columns = comparison_columns(compared, ("without", "with"))
    many = f", corrected for {len(compared)} tasks by Holm's method" if len(compared) > 1 else ""
    heading = escape(f"{plain.label}, with and without the prompt {prompted.prompt!r}")
    legend = (
        "difference: with the prompt minus without it, over the same queries. p: p-value of a "
        f"two-sided test{many}; below {LEVEL:g}, the prompt changes the score. detectable: minimum "
        "detectable difference (80 % power). Scores times 100.\n"
    )
    return "\n\n".join([f"\n## {heading}", table(columns, width=width), legend])


def prompts_json(compared: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Return the comparisons of an encoder with and without its prompt as JSON objects."""
    names = ("without", "with")
    prompt = compared[0].aligned.results[1].key.encoder.prompt
    return [comparison_json(each, names) | {"prompt": prompt} for each in compared]
