"""The formulas in docs/protocols.md: bounds of scores, and the area that points dominate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Scores = Callable[[str], float]


def bound(score: Scores, role: str, end: str) -> dict[str, float]:
    """Return the scores of gold labels, or of random retrieval."""
    name = "chance" if role == "random" else f"oracle{end}"
    p, s = score(f"polarity_{name}"), score(f"similarity_{name}")
    lift, kept = _place(score, p, s, end)
    lift, kept_clipped = max(lift, 0.0), min(max(kept, 0.0), 1.0)
    joint = 2 * lift * kept_clipped / (lift + kept_clipped) if lift and kept_clipped else 0.0
    front = 0.0 if role == "random" else 1.0
    return {"P": p, "S": s, "retention": kept, "joint": joint, "front": front}


def joint(score: Scores, end: str) -> float:
    """Return joint as it is stored: negative if lift or retention is."""
    lift, kept = _place(score, score(f"polarity{end}"), score(f"similarity{end}"), end)
    kept = min(max(kept, -1.0), 1.0)
    size = 2 * abs(lift) * abs(kept) / (abs(lift) + abs(kept)) if lift and kept else 0.0
    return -size if min(lift, kept) < 0 else size


def area(points: Sequence[Scores], end: str) -> float:
    """Return the share of the area under the oracle's point that the points dominate together."""
    score = points[0]
    p, s = score(f"polarity_oracle{end}"), score(f"similarity_oracle{end}")
    most_lift, most_kept = _place(score, p, s, end)
    places = []
    for each in points:
        lift, kept = _place(each, each(f"polarity{end}"), each(f"similarity{end}"), end)
        places.append((min(max(lift, 0.0), most_lift), min(max(kept, 0.0), most_kept)))
    dominated = reached = 0.0
    for lift, kept in sorted(places, reverse=True):
        dominated += lift * max(kept - reached, 0.0)
        reached = max(reached, kept)
    return dominated / (most_lift * most_kept)


def _place(score: Scores, p: float, s: float, end: str) -> tuple[float, float]:
    """Return lift and retention for P and S."""
    p_chance, s_chance = score("polarity_chance"), score("similarity_chance")
    kept = (s - s_chance) / (score(f"similarity_reference{end}") - s_chance)
    return (p - p_chance) / (1 - p_chance), kept
