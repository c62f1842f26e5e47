"""Stand-in for `polarity_bench.kinds.KINDS`, until it is there."""

from __future__ import annotations

from dataclasses import dataclass

from polarity_bench.types import ScoreKey


@dataclass(frozen=True)
class _Kind:
    heading: str
    measure: str
    columns: tuple[tuple[str, ScoreKey], ...] = ()
    ranks: bool = False


def _keys(**columns: str) -> tuple[tuple[str, ScoreKey], ...]:
    return tuple((title.replace("_", " "), ScoreKey.parse(n)) for title, n in columns.items())


KINDS = {
    "polarity": _Kind("Polarity", "joint", ranks=True),
    "transfer": _Kind(
        "Transfer",
        "accuracy",
        (
            ("accuracy", ScoreKey("accuracy")),
            ("dev accuracy", ScoreKey("dev_accuracy")),
            ("macro-F1", ScoreKey("macro_f1")),
            ("F1", ScoreKey("f1")),
        ),
    ),
    "relatedness": _Kind(
        "Supervised relatedness", "Pearson", _keys(Pearson="pearson", Spearman="spearman")
    ),
    "sts": _Kind(
        "STS",
        "Spearman all",
        _keys(
            Spearman_all="spearman_all",
            Spearman_mean="spearman_mean",
            Spearman_wmean="spearman_wmean",
            Pearson_all="pearson_all",
        ),
    ),
}
