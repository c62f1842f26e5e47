"""Write sentences of IMDb's training reviews, one per line, for `train axis --unlabelled`.

    python benchmarks/sentences.py DATA --output sentences.txt [--n 40000]

DATA is a folder with `imdb/train.jsonl.gz`. A review is split after each `.`, `!` or `?` that is
followed by a space. Sentences of 4 to 30 words are shuffled, with seed 0, and the first n are kept.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from pathlib import Path

_N_WORDS = range(4, 31)


def sentences_of(reviews: Path) -> list[str]:
    """Return the distinct sentences of a file with one review per line, sorted."""
    found = set()
    with gzip.open(reviews, "rt", encoding="utf-8") as lines:
        for line in lines:
            review = re.sub(r"<br\s*/?>", " ", json.loads(line)["text"])
            words = (part.split() for part in re.split(r"(?<=[.!?])\s+", review))
            found |= {" ".join(each) for each in words if len(each) in _N_WORDS}
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--n", type=int, default=40_000)
    options = parser.parse_args()
    sentences = sentences_of(options.data / "imdb" / "train.jsonl.gz")
    random.Random(0).shuffle(sentences)  # noqa: S311  a sample, not a secret
    options.output.write_text("\n".join(sentences[: options.n]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
