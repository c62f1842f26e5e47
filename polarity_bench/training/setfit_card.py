"""The model card of an encoder that SetFit trained."""

from __future__ import annotations

from collections.abc import Sequence

from polarity_bench.boards.markdown import escape
from polarity_bench.spec import PolaritySpec
from polarity_bench.training.card import PAPER, front_matter, scores_and_use
from polarity_bench.training.history import Row
from polarity_bench.types import EncoderId

_METHOD = (
    "Tunstall et al. (2022), *Efficient few-shot learning without prompts* "
    "(https://arxiv.org/abs/2209.11055)"
)


def setfit_card(
    name: str,
    base: EncoderId,
    task: PolaritySpec,
    training: str,
    run: str,
    rows: Sequence[Row],
) -> str:
    """Write the README.md of an encoder that SetFit trained.

    Args:
        name: What to call it.
        base: The encoder before.
        task: The task that it was trained and scored on.
        training: How it was trained, in words.
        run: The run's digest.
        rows: The history.
    """
    facts = {
        "Base": f"{escape(base.label)} (digest `{base.digest}`)",
        "Training": training,
        "Head": "in `head.safetensors`: `weight` and `bias` over the encoder's vectors as they "
        "are, a row for each class or, of a logistic regression over two classes, one for the "
        "second; the file's metadata names the classes",
        "Run": f"`{run}`; the whole spec is in `train.json`",
    }
    labels = " from ".join(map(escape, sorted(set(task.labels.values()))))
    what = (
        f"A sentence encoder trained by SetFit with polarity-bench on {escape(task.title)}, to "
        f"tell {labels}: a baseline."
    )
    parts = [
        front_matter(name, base, task, rows[-1], tags=["setfit"]),
        f"# {escape(name)}",
        what,
        "\n".join(f"- **{head}**: {fact}" for head, fact in facts.items()),
        *scores_and_use(base, task, rows, "The last row is what lies here."),
        f"## Sources\n\nMethod: {_METHOD}. Metrics and the recipe `papers`: {PAPER}.\n",
    ]
    return "\n\n".join(parts)
