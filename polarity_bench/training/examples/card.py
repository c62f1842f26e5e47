"""The card of a set of generated examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polarity_bench.render.markdown import escape


def examples_card(facts: Mapping[str, Any], title: str, size: int) -> str:
    """Return the README.md of a set of examples: facts, and front matter that `datasets` reads."""
    lines = "\n".join(f"- **{head}**: {escape(str(fact))}" for head, fact in facts.items())
    return (
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n"
        "    path: train.parquet\ntags:\n- polarity-bench\n---\n\n"
        f"# {escape(title)}\n\n{size:,} examples for training sentence encoders, made by "
        f"`polarity-bench examples`.\n\n{lines}\n\nThe texts keep their data set's licence.\n\n"
        f"After {PAPER}.\n"
    )


PAPER = (
    "Jørgensen and Breitung (2025), *Margins in Contrastive Learning: Evaluating Multi-task "
    "Retrieval for Sentence Embeddings*"
)
