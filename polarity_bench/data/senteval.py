"""Readers of SentEval's data files.

The rows equal those of the loaders in the SentEval toolkit and keep the order of the file. The
toolkit splits every text at white space, and sorts rows by their number of tokens before it draws
folds. Each text is therefore stored as its tokens, joined by single spaces. A line without tokens
is kept as a row with an empty text; CR and MPQA contain such lines. The same functions read the
original STS files, which are not tokenized.

References:
    Conneau and Kiela (2018), SentEval, https://arxiv.org/abs/1803.05449
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from polarity_bench.errors import InputError
from polarity_bench.files import read_errors

_SICK_LABELS = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
_MAX_STS_SCORE = 5.0


@dataclass(frozen=True)
class Row:
    """A labelled text, or a labelled pair of texts.

    Attributes:
        texts: One or two texts. Tokens are separated by single spaces.
        label: Class number, from 0, or score.
    """

    texts: tuple[str, ...]
    label: int | float

    @property
    def n_tokens(self) -> list[int]:
        """Number of tokens of each text."""
        return [len(text.split()) for text in self.texts]


@dataclass(frozen=True)
class Layout:
    """Layout of a file with one row per line.

    Attributes:
        line: Description of a line, for error messages.
        texts: Positions of the text columns.
        label: Position of the column with the class or the score.
        classes: Values of the label column in the order of the class numbers; empty if labels are
            scores from 0 to 5.
        separator: Regular expression that matches the separator between two columns.
        n_splits: Maximum number of splits per line; 0 means no limit.
        encoding: Encoding of the file.
        n_headings: Number of header lines before the first row.
    """

    line: str
    texts: tuple[int, ...]
    label: int
    classes: tuple[str, ...] = ()
    separator: str = "\t"
    n_splits: int = 0
    encoding: str = "utf-8"
    n_headings: int = 0

    def row(self, line: str) -> Row:
        """Parse a line.

        Raises:
            ValueError: If the class is unknown, or the score is not a number from 0 to 5.
            IndexError: If the line has too few columns.
        """
        columns = re.split(self.separator, line.strip(), maxsplit=self.n_splits)
        label = columns[self.label]
        value = self.classes.index(label) if self.classes else _score_of(label)
        return Row(tuple(_join_tokens(columns[i]) for i in self.texts), value)


_SICK_LINE = f"an id, two texts, a score in [0, 5] and one of {', '.join(_SICK_LABELS)}"
_TREC_LABELS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")

LAYOUTS = {
    "sst-binary": Layout("a text, a tab and 0 or 1", (0,), 1, ("0", "1"), n_splits=1),
    "sst-fine": Layout("0 to 4, a blank and a text", (1,), 0, tuple("01234"), " ", n_splits=1),
    # Only the coarse class of TREC is used, so the separator matches the fine class.
    "trec": Layout(
        f"{', '.join(_TREC_LABELS)}:fine and a question",
        texts=(1,),
        label=0,
        classes=_TREC_LABELS,
        separator=":[^ ]* ",
        n_splits=1,
        encoding="latin-1",
    ),
    "mrpc": Layout("0 or 1, two ids and two texts", (3, 4), 0, ("0", "1"), n_headings=1),
    "sick-entailment": Layout(_SICK_LINE, (1, 2), 4, _SICK_LABELS, n_headings=1),
    "sick-relatedness": Layout(_SICK_LINE, (1, 2), 3, n_headings=1),
    "stsb": Layout("four columns, a score in [0, 5] and two texts", (5, 6), 4),
}
"""Layout of each `reader` in task files."""


def read_split(path: Path, reader: str) -> list[Row]:
    """Read a split of SST2, SST5, TREC, MRPC, SICK or STS-B.

    Args:
        path: Path of the file.
        reader: Name of the layout, a key of `LAYOUTS`.

    Raises:
        InputError: If the file is missing, or a line does not have the reader's layout. The
            message names the file and the line.
    """
    layout = LAYOUTS[reader]
    lines = _read(path, layout.encoding).removesuffix("\n").split("\n")
    rows = []
    for number, line in enumerate(lines[layout.n_headings :], start=layout.n_headings + 1):
        try:
            rows.append(layout.row(line))
        except (ValueError, IndexError):
            raise InputError(f"{path}:{number}: expected {layout.line}, got {line!r}") from None
    return rows


_PARTS = {"tr": "train", "va": "dev", "te": "test"}


def read_probing(path: Path) -> dict[str, list[Row]]:
    """Read the file of a probing task, with lines of a part, a label, any columns and a text.

    Classes are numbered in the order of the sorted labels, as in the toolkit, so "10" precedes "5".
    Quotation marks are part of the text.

    Returns:
        The rows, keyed by `train`, `dev` and `test`.

    Raises:
        InputError: If the file is missing, a line is malformed or has a label without training
            rows, a part has no rows, or there are fewer than two labels.
    """
    lines = [line.rstrip() for line in _read(path, "utf-8").removesuffix("\n").split("\n")]
    rows = [line.split("\t") for line in lines]
    labels = sorted({row[1] for row in rows if row[0] == "tr" and len(row) > 2})
    classes = {label: number for number, label in enumerate(labels)}
    parts: dict[str, list[Row]] = {name: [] for name in _PARTS.values()}
    for number, row in enumerate(rows, start=1):
        if len(row) < 3 or row[0] not in _PARTS or row[1] not in classes:
            raise InputError(
                f"{path}:{number}: expected tr, va or te, a label that has tr lines, and a text, "
                f"separated by tabs, got {lines[number - 1]!r}"
            )
        parts[_PARTS[row[0]]].append(Row((_join_tokens(row[-1]),), classes[row[1]]))
    if len(labels) < 2 or not all(parts.values()):
        counts = ", ".join(f"{len(parts[name]):,} {part} lines" for part, name in _PARTS.items())
        raise InputError(
            f"{path}: expected tr lines with at least two labels, va lines and te lines, got "
            f"{counts} and {len(labels)} labels; is the file truncated?"
        )
    return parts


def read_labelled_lines(positive: Path, negative: Path) -> list[Row]:
    """Read MR, CR, SUBJ or MPQA, which have one latin-1 file per class.

    Lines are split by `str.splitlines`, as in the toolkit.

    Args:
        positive: File of class 1; for SUBJ, the file of objective sentences.
        negative: File of class 0.

    Returns:
        The rows of class 1, then the rows of class 0.

    Raises:
        InputError: If a file is missing.
    """
    return [
        Row((_join_tokens(line),), label)
        for path, label in ((positive, 1), (negative, 0))
        for line in _read(path, "latin-1").splitlines()
    ]


def read_sts(texts: Path, gold: Path) -> list[Row]:
    """Read a subset of STS12 to STS16.

    Pairs with an empty line in the score file were not annotated and are skipped.

    Args:
        texts: File with two texts per line, separated by a tab.
        gold: File with the score of each pair, from 0 to 5, in the same order.

    Raises:
        InputError: If a file is missing, a line is malformed, or the files differ in length.
    """
    pairs = _read(texts, "utf-8").splitlines()
    scores = _read(gold, "utf-8").splitlines()
    if len(pairs) != len(scores):
        raise InputError(
            f"{gold}: expected {len(pairs)} lines, as in {texts.name}, got {len(scores)}"
        )
    rows = []
    for number, (pair, score) in enumerate(zip(pairs, scores, strict=True), start=1):
        first, tab, rest = pair.partition("\t")
        if not tab:
            raise InputError(f"{texts}:{number}: expected two texts and a tab, got {pair!r}")
        if not score:
            continue
        try:
            label = _score_of(score)
        except ValueError:
            raise InputError(
                f"{gold}:{number}: expected a score in [0, 5], got {score!r}"
            ) from None
        rows.append(Row((_join_tokens(first), _join_tokens(rest.split("\t")[0])), label))
    return rows


def _read(path: Path, encoding: str) -> str:
    with read_errors(path):
        return path.read_text(encoding)


def _join_tokens(text: str) -> str:
    return " ".join(text.split())


def _score_of(text: str) -> float:
    score = float(text)
    if not 0 <= score <= _MAX_STS_SCORE:
        raise ValueError(text)
    return score
