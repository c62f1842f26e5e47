"""Data set card of generated training examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polarity_bench.render.markdown import escape


def examples_card(facts: Mapping[str, Any], title: str, size: int) -> str:
    """Return the data set card (README.md) of a set of examples, with front matter for `datasets`.

    Args:
        facts: Facts about the examples, by heading.
        title: Title of the card.
        size: Number of examples.
    """
    lines = "\n".join(f"- **{head}**: {escape(str(fact))}" for head, fact in facts.items())
    return (
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n"
        "    path: train.parquet\ntags:\n- polarity-bench\n---\n\n"
        f"# {escape(title)}\n\n{size:,} examples for training sentence encoders, made by "
        f"`polarity-bench examples`.\n\n{lines}\n\n"
        f"The licence of the data set applies to the texts.\n\nMethod: {PAPER}.\n"
    )


PAPER = (
    "Jørgensen and Breitung (2025), *Margins in Contrastive Learning: Evaluating Multi-task "
    "Retrieval for Sentence Embeddings*"
)
