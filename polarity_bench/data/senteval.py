"""Readers of SentEval's files, which return the same rows as the toolkit's own loaders.

The toolkit splits every text at white space, and sorts by the number of tokens before it draws
folds. The text of a row is therefore its tokens joined by one space, `n_tokens` is their number,
and rows keep the order of the file. A line without tokens (CR and MPQA contain some) is a row with
an empty text and is kept. The same functions read the original files of STS, which are not
tokenized.

References:
    Conneau and Kiela (2018), SentEval, https://arxiv.org/abs/1803.05449
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from polarity_bench.errors import InputError

_SICK_LABELS = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
_MAX_STS_SCORE = 5.0


@dataclass(frozen=True)
class Row:
    """A text or a pair of texts, tokens joined by one space, with its class from 0 or its score."""

    texts: tuple[str, ...]
    label: int | float

    @property
    def n_tokens(self) -> list[int]:
        """Number of tokens of each text."""
        return [len(text.split()) for text in self.texts]


@dataclass(frozen=True)
class Layout:
    """The columns of a file that holds one row per line.

    Attributes:
        line: What a line holds, for error messages.
        texts: Positions of the columns with the texts.
        label: Position of the column with the class or the score.
        classes: Names of the classes, from 0; empty if the label is a score from 0 to 5.
        separator: Regular expression of the separator between two columns.
        n_splits: Maximal number of splits of a line; 0 means no limit.
        encoding: Encoding of the file.
        n_headings: Number of lines before the first row.
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
        """Return the row of a line; raise ValueError or IndexError if the line is malformed."""
        columns = re.split(self.separator, line.strip(), maxsplit=self.n_splits)
        label = columns[self.label]
        value = self.classes.index(label) if self.classes else _score_of(label)
        return Row(tuple(_joined(columns[i]) for i in self.texts), value)


_SICK_LINE = f"an id, two texts, a score in [0, 5] and one of {', '.join(_SICK_LABELS)}"
_TREC_LABELS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")

LAYOUTS = {
    "sst-binary": Layout("a text, a tab and 0 or 1", (0,), 1, ("0", "1"), n_splits=1),
    "sst-fine": Layout("0 to 4, a blank and a text", (1,), 0, tuple("01234"), " ", n_splits=1),
    "trec": Layout(  # the fine class belongs to the separator, because only the coarse one is kept
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
"""Layouts by the readers that task files name."""


def read_split(path: Path, reader: str) -> list[Row]:
    """Read a split of SST2, SST5, TREC, MRPC, SICK or STS-B.

    Raises:
        InputError: If the file is missing, or a line does not have the reader's layout; the
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


def read_labelled_lines(positive: Path, negative: Path) -> list[Row]:
    """Read MR, CR, SUBJ or MPQA: one latin-1 file per class, class 1 first.

    In SUBJ, the objective sentences are class 1. Lines are split by Python's `splitlines`, as in
    the toolkit.
    """
    return [
        Row((_joined(line),), label)
        for path, label in ((positive, 1), (negative, 0))
        for line in _read(path, "latin-1").splitlines()
    ]


def read_sts(texts: Path, gold: Path) -> list[Row]:
    """Read a subset of STS12 to STS16: a file of pairs and a file of scores from 0 to 5.

    Pairs with an empty line in the score file were not annotated and are skipped.
    """
    pairs = _read(texts, "utf-8").splitlines()
    scores = _read(gold, "utf-8").splitlines()
    if len(pairs) != len(scores):
        raise InputError(
            f"{texts} has {len(pairs)} lines, but {gold.name} has {len(scores)} scores"
        )
    rows = []
    for number, (pair, score) in enumerate(zip(pairs, scores, strict=True), start=1):
        first, tab, rest = pair.partition("\t")
        if not tab:
            raise InputError(f"{texts}:{number}: expected two texts, got {pair!r}")
        if not score:
            continue
        try:
            label = _score_of(score)
        except ValueError:
            raise InputError(
                f"{gold}:{number}: expected a score in [0, 5], got {score!r}"
            ) from None
        rows.append(Row((_joined(first), _joined(rest.split("\t")[0])), label))
    return rows


def _read(path: Path, encoding: str) -> str:
    try:
        return path.read_text(encoding)
    except FileNotFoundError:
        raise InputError(f"no such file: {path}") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not {encoding}: {error.reason} at byte {error.start}"
        ) from None


def _joined(text: str) -> str:
    return " ".join(text.split())


def _score_of(text: str) -> float:
    score = float(text)
    if not 0 <= score <= _MAX_STS_SCORE:
        raise ValueError(text)
    return score
