"""`polarity-bench predict`: classification of the texts of a file."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated

from polarity_bench.cli.options import TRUST_OPTIONS, usable_options
from polarity_bench.cli.output import AsJson, print_json, progress_bar
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError, check_known


def predict(
    *,
    file: Annotated[
        Path,
        "File of texts: one per line (.txt), or in a column (.csv, .tsv, .jsonl or .parquet). Text "
        "files may be compressed (.gz).",
        "FILE",
    ],
    model: Annotated[Path, "Folder of a classifier or an axis, see `polarity-bench train`.", "-m"],
    column: Annotated[str, "Column with the texts."] = "text",
    pair: Annotated[str | None, "Column with the second texts, for a classifier of pairs."] = None,
    proxies: Annotated[
        bool, "Also use the proxies for the scores; fails if the classifier has none."
    ] = False,
    encoder: Annotated[EncoderOptions, ("max_tokens", "device", *TRUST_OPTIONS)],
    as_json: AsJson = False,
) -> None:
    """Classify the texts of a file, and print a CSV table.

    The table contains the predicted class of each text and the scores of all classes. Control
    characters are escaped, and text that a spreadsheet would read as a formula is prefixed with an
    apostrophe; --json prints the texts unchanged.
    """
    from polarity_bench.classifiers.classifier import Classifier
    from polarity_bench.render.csv_text import cell_text

    texts = _texts(file, column, pair)
    classifier = Classifier.load(model, usable_options(encoder, offline=True))
    if classifier.head.of_pairs and pair is None:
        raise InputError(
            "`pair`: this classifier needs pairs; name the column with the second texts"
        )
    scores = classifier.scores(texts, with_proxies=proxies, bar=progress_bar)
    classes = list(classifier.classes)
    labels = [classes[row.argmax()] for row in scores]
    if as_json:
        print_json(
            {
                "classes": classes,
                "rows": [
                    {"text": text, "label": label, "scores": dict(zip(classes, row, strict=True))}
                    for text, label, row in zip(texts, labels, scores.tolist(), strict=True)
                ],
            }
        )
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    titles = ["label", *classes, column, *([pair] if pair else [])]
    writer.writerow(map(cell_text, titles))
    for text, label, row in zip(texts, labels, scores, strict=True):
        sides = [text] if isinstance(text, str) else list(text)
        scored = [f"{score:.6f}" for score in row]
        writer.writerow([cell_text(label), *scored, *map(cell_text, sides)])


def _texts(file: Path, column: str, pair: str | None) -> list[str | tuple[str, str]]:
    from polarity_bench.data.readers import read_header, read_lines, read_rows, type_of
    from polarity_bench.data.specs import FormatSpec

    if not file.is_file():
        raise InputError(f"{file}: no such file")
    form = FormatSpec()
    if type_of(file, form) == "lines":
        if pair:
            raise InputError(f"`pair` {pair}: {file} is a text file, which has no columns")
        return list(read_lines(file, form))
    header, names = read_header(file, form), [column, pair] if pair is not None else [column]
    for field, name in zip(("column", "pair"), names, strict=False):
        check_known(name, header, f"`{field}`: {file} has no column {name!r}")
    rows = read_rows(file, form, names)
    return [(row.values[0], row.values[1]) if pair else row.values[0] for row in rows]
