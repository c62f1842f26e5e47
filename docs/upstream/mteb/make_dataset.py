"""Write the data of ContrastOpinionRetrieval in the layout of the hub, from the task `contrast`.

    python docs/upstream/mteb/make_dataset.py            # rewrite dataset/*/test.jsonl
    python docs/upstream/mteb/make_dataset.py --check    # exit with 1 if a file would change

The sources of `contrast` are the corpus, and its queries are the queries. A sentence of the corpus
is relevant (1) to a query if both have the same topic and the same label. Other sentences are not
relevant and have no judgment. The ids are the positions in `sentences.jsonl`, so that no id reveals
a topic or a label. The files are JSON lines, since the bytes of parquet depend on the version of
the library that writes them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

HERE = Path(__file__).parent
SENTENCES = HERE.parents[2] / "tasks" / "polarity" / "contrast" / "sentences.jsonl"


def render() -> dict[str, str]:
    """Return the content of each file, keyed by its path in the folder `dataset`."""
    rows = [json.loads(line) for line in SENTENCES.read_text(encoding="utf-8").splitlines()]
    corpus = {f"d{n}": row for n, row in enumerate(r for r in rows if r["split"] == "source")}
    queries = {f"q{n}": row for n, row in enumerate(r for r in rows if r["split"] == "query")}
    qrels = (
        {"query-id": query, "corpus-id": document, "score": 1}
        for query, asked in queries.items()
        for document, row in corpus.items()
        if (asked["topic"], asked["label"]) == (row["topic"], row["label"])
    )
    return {
        "corpus/test.jsonl": _json_lines({"id": i, "text": r["text"]} for i, r in corpus.items()),
        "queries/test.jsonl": _json_lines({"id": i, "text": r["text"]} for i, r in queries.items()),
        "qrels/test.jsonl": _json_lines(qrels),
    }


def _json_lines(rows: Iterable[Mapping[str, object]]) -> str:
    compact = (",", ":")
    return "".join(json.dumps(r, ensure_ascii=False, separators=compact) + "\n" for r in rows)


def main() -> int:
    """Write the files, or compare them with --check, and return the exit status."""
    parser = argparse.ArgumentParser(description="Write the data set of ContrastOpinionRetrieval.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a file would change"
    )
    check: bool = parser.parse_args().check
    status = 0
    for name, text in render().items():
        file, content = HERE / "dataset" / name, text.encode()
        if not check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        elif not file.is_file() or file.read_bytes() != content:
            print(f"{file}: differs from {SENTENCES.name}; run make_dataset.py", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
