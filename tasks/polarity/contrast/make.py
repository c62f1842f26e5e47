"""Write sentences.jsonl, minimal pairs of opposite polarity, from the hand-written lexicon.

    python tasks/polarity/contrast/make.py            # rewrite sentences.jsonl
    python tasks/polarity/contrast/make.py --check    # exit 1 if it would change

lexicon/<topic>.toml holds one table per aspect and one list per phenomenon. An entry is a pair:
`The soup was {hot|cold}.` reads "hot" in the positive twin, which always stands first, and
"cold" in the negative one. It may hold several such braces, and a side may be empty.

Order is neutral. Pairs are shuffled, twins stay adjacent, and within each split the label that
comes first alternates pair by pair, so that every even prefix of a split holds as many positive
as negative sentences and a constant encoder scores exactly chance. The suffix of an id, a or b,
follows that order and tells nothing about the label.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
LEXICON = HERE / "lexicon"
SENTENCES = HERE / "sentences.jsonl"

PHENOMENA = ("plain", "negation", "antonym", "intensifier", "concession", "sarcasm")
LABELS = ("positive", "negative")
QUERY_EVERY = 3
SEED = 20

_CHOICE = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}")


@dataclass(frozen=True)
class Pair:
    """Two sentences that differ in polarity and, as far as their phenomenon allows, only in it."""

    id: str
    topic: str
    aspect: str
    phenomenon: str
    texts: dict[str, str]


def expand(entry: str) -> dict[str, str]:
    """Read both twins out of one entry of the lexicon.

    Returns:
        The text of each label, positive first.

    Raises:
        ValueError: If the entry holds no choice, or a brace or bar outside of one.

    Example:
        >>> expand("It {works|does not work}.")
        {'positive': 'It works.', 'negative': 'It does not work.'}
    """
    if not _CHOICE.search(entry) or re.search(r"[{}|]", _CHOICE.sub("", entry)):
        raise ValueError(f"an entry needs choices of the form {{positive|negative}}, got {entry!r}")
    return {label: _CHOICE.sub(rf"\{side}", entry) for side, label in enumerate(LABELS, start=1)}


def read_lexicon() -> dict[str, list[Pair]]:
    """Read the pairs of each topic, ordered by phenomenon, then aspect, then place in the file."""
    pairs: dict[str, list[Pair]] = {}
    for path in sorted(LEXICON.glob("*.toml")):
        aspects = tomllib.loads(path.read_text(encoding="utf-8"))
        pairs[path.stem] = [
            Pair(f"{path.stem}-{aspect}-{phenomenon}-{n}", path.stem, aspect, phenomenon, texts)
            for phenomenon in PHENOMENA
            for aspect, entries in aspects.items()
            for n, texts in enumerate(map(expand, entries[phenomenon]), start=1)
        ]
    return pairs


def assign_splits(pairs: list[Pair], rng: random.Random) -> dict[str, list[Pair]]:
    """Draw one query from every three consecutive pairs of a topic; the others are sources.

    Consecutive pairs share phenomenon and mostly aspect, so both splits get their third of each.
    """
    splits: dict[str, list[Pair]] = {"source": [], "query": []}
    for start in range(0, len(pairs), QUERY_EVERY):
        block = pairs[start : start + QUERY_EVERY]
        drawn = rng.randrange(QUERY_EVERY)
        for place, pair in enumerate(block):
            splits["query" if place == drawn else "source"].append(pair)
    return splits


def rows() -> Iterator[dict[str, str]]:
    """Yield the sentences in file order, the sources before the queries."""
    rng = random.Random(SEED)  # noqa: S311 - has to repeat, not to surprise
    splits: dict[str, list[Pair]] = {"source": [], "query": []}
    for pairs in read_lexicon().values():
        for split, assigned in assign_splits(pairs, rng).items():
            splits[split] += assigned
    for split, assigned in splits.items():
        rng.shuffle(assigned)
        for place, pair in enumerate(assigned):
            order = LABELS if place % 2 == 0 else LABELS[::-1]
            for suffix, label in zip("ab", order, strict=True):
                yield {
                    "id": f"{pair.id}-{suffix}",
                    "text": pair.texts[label],
                    "label": label,
                    "topic": pair.topic,
                    "aspect": pair.aspect,
                    "phenomenon": pair.phenomenon,
                    "pair": pair.id,
                    "split": split,
                }


def render() -> str:
    """Return the whole of sentences.jsonl, one JSON object a line."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())


def main() -> int:
    """Write sentences.jsonl, or with --check compare it; return the exit status."""
    parser = argparse.ArgumentParser(description="Write sentences.jsonl from the lexicon.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on a change")
    check: bool = parser.parse_args().check
    made = render().encode()
    if not check:
        SENTENCES.write_bytes(made)
    elif not SENTENCES.is_file() or SENTENCES.read_bytes() != made:
        print(f"{SENTENCES}: differs from the lexicon; run {Path(__file__).name}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
