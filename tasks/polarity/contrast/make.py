"""Generate sentences.jsonl, minimal pairs of opposite polarity, from the hand-written lexicon.

    python tasks/polarity/contrast/make.py            # rewrite sentences.jsonl
    python tasks/polarity/contrast/make.py --check    # exit with 1 if the file would change

Each file lexicon/<topic>.toml contains one table per aspect, with one list per phenomenon. Each
entry of a list defines a pair. From `The soup was {hot|cold}.`, the positive twin gets "hot", which
is always the first choice, and the negative twin gets "cold". An entry may contain several choices,
and a side of a choice may be empty.

The order of sentences reveals nothing about labels. Pairs are shuffled, and the twins of a pair are
adjacent. Within each split, pairs start with a positive and a negative twin in turn. Any even
number of sentences from the start of a split is therefore balanced, and a constant encoder scores
exactly chance. The suffix of an id, a or b, follows the order of the twins, not the label.
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
    """A minimal pair: two sentences that differ only in polarity, as far as the phenomenon allows.

    Attributes:
        id: Name of the pair.
        topic: Topic of the sentences, such as `books`.
        aspect: Aspect of the topic, such as `story`.
        phenomenon: Linguistic phenomenon that reverses the polarity, such as `negation`.
        texts: Text of each twin, keyed by label.
    """

    id: str
    topic: str
    aspect: str
    phenomenon: str
    texts: dict[str, str]


def expand(entry: str) -> dict[str, str]:
    """Return the texts of both twins of a lexicon entry.

    Returns:
        The text of each twin, keyed by label, positive first.

    Raises:
        ValueError: If the entry contains no choice, or a brace or bar outside a choice.

    Example:
        >>> expand("It {works|does not work}.")
        {'positive': 'It works.', 'negative': 'It does not work.'}
    """
    if not _CHOICE.search(entry) or re.search(r"[{}|]", _CHOICE.sub("", entry)):
        raise ValueError(f"an entry needs choices of the form {{positive|negative}}, got {entry!r}")
    return {label: _CHOICE.sub(rf"\{side}", entry) for side, label in enumerate(LABELS, start=1)}


def read_lexicon() -> dict[str, list[Pair]]:
    """Read the pairs of each topic, sorted by phenomenon, aspect and position in the file."""
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
    """Divide the pairs of a topic into sources and queries.

    Of every three consecutive pairs, one is drawn as a query. Consecutive pairs have the same
    phenomenon and mostly the same aspect, so about a third of each becomes queries.
    """
    splits: dict[str, list[Pair]] = {"source": [], "query": []}
    for start in range(0, len(pairs), QUERY_EVERY):
        block = pairs[start : start + QUERY_EVERY]
        drawn = rng.randrange(QUERY_EVERY)
        for place, pair in enumerate(block):
            splits["query" if place == drawn else "source"].append(pair)
    return splits


def rows() -> Iterator[dict[str, str]]:
    """Yield the sentences in file order: sources, then queries."""
    rng = random.Random(SEED)  # noqa: S311 - the draw must be reproducible, not secure
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
    """Return the content of sentences.jsonl, one JSON object per line."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())


def main() -> int:
    """Write sentences.jsonl, or compare the file with --check, and return the exit status."""
    parser = argparse.ArgumentParser(description="Write sentences.jsonl from the lexicon.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if the file would change"
    )
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
