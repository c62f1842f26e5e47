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

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from polarity_bench.errors import InputError

_TREC_LABELS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
_SICK_LABELS = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
_MAX_STS_SCORE = 5.0

LabelT = TypeVar("LabelT", int, float)
RowT = TypeVar("RowT")


@dataclass(frozen=True)
class TextRow:
    """A text, its tokens joined by one space, and its class from 0."""

    text: str
    label: int

    @property
    def texts(self) -> tuple[str]:
        """The text as a tuple of one, for the same interface as pairs."""
        return (self.text,)

    @property
    def n_tokens(self) -> int:
        """Number of tokens of the text."""
        return len(self.text.split())


@dataclass(frozen=True)
class PairRow(Generic[LabelT]):
    """Two texts, their tokens joined by one space, and a class from 0 or a score."""

    first: str
    second: str
    label: LabelT

    @property
    def texts(self) -> tuple[str, str]:
        """Both texts."""
        return self.first, self.second

    @property
    def n_tokens(self) -> tuple[int, int]:
        """Number of tokens of each text."""
        return len(self.first.split()), len(self.second.split())


def read_labelled_lines(positive: Path, negative: Path) -> list[TextRow]:
    """Read MR, CR, SUBJ or MPQA: one latin-1 file per class, class 1 first.

    In SUBJ, the objective sentences are class 1. Lines are split by Python's `splitlines`, as in
    the toolkit.
    """
    return [
        TextRow(_joined(line), label)
        for path, label in ((positive, 1), (negative, 0))
        for line in _read(path, "latin-1").splitlines()
    ]


def read_sst_binary(path: Path) -> list[TextRow]:
    """Read a split of SST2: text, tab, 0 or 1."""

    def row(line: str) -> TextRow:
        text, label = line.split("\t")
        return TextRow(_joined(text), _class_of(label, n_classes=2))

    return _rows(path, row, wanted="a text, a tab and 0 or 1")


def read_sst_fine(path: Path) -> list[TextRow]:
    """Read a split of SST5: 0 to 4, space, text."""

    def row(line: str) -> TextRow:
        label, text = line.split(" ", 1)
        return TextRow(_joined(text), _class_of(label, n_classes=5))

    return _rows(path, row, wanted="0 to 4, a blank and a text")


def read_trec(path: Path) -> list[TextRow]:
    """Read a split of TREC, latin-1: COARSE:fine, space, question. The coarse class is kept."""

    def row(line: str) -> TextRow:
        label, rest = line.split(":", 1)
        _, text = rest.split(" ", 1)
        return TextRow(_joined(text), _TREC_LABELS.index(label))

    return _rows(
        path, row, wanted=f"{', '.join(_TREC_LABELS)}:fine and a question", encoding="latin-1"
    )


def read_mrpc(path: Path) -> list[PairRow[int]]:
    """Read a split of MRPC: a header, then class, two ids and two texts, separated by tabs."""

    def row(line: str) -> PairRow[int]:
        label, _, _, first, second = line.split("\t")
        return PairRow(_joined(first), _joined(second), _class_of(label, n_classes=2))

    return _rows(path, row, wanted="0 or 1, two ids and two texts", n_headings=1)


def read_sick_entailment(path: Path) -> list[PairRow[int]]:
    """Read a split of SICK with its entailment classes: contradiction, neutral, entailment."""

    def row(line: str) -> PairRow[int]:
        _, first, second, _, label = line.split("\t")[:5]
        return PairRow(_joined(first), _joined(second), _SICK_LABELS.index(label))

    return _rows(path, row, wanted=_SICK_COLUMNS, n_headings=1)


def read_sick_relatedness(path: Path) -> list[PairRow[float]]:
    """Read a split of SICK with its relatedness scores, from 1 to 5."""

    def row(line: str) -> PairRow[float]:
        _, first, second, score, _ = line.split("\t")[:5]
        return PairRow(_joined(first), _joined(second), _score_of(score))

    return _rows(path, row, wanted=_SICK_COLUMNS, n_headings=1)


_SICK_COLUMNS = "an id, two texts, a score in [0, 5] and one of " + ", ".join(_SICK_LABELS)


def read_stsb(path: Path) -> list[PairRow[float]]:
    """Read a split of STS-B: genre, file, year, id, score from 0 to 5, two texts, and more."""

    def row(line: str) -> PairRow[float]:
        _, _, _, _, score, first, second = line.split("\t")[:7]
        return PairRow(_joined(first), _joined(second), _score_of(score))

    return _rows(path, row, wanted="four columns, a score in [0, 5] and two texts")


def read_sts(texts: Path, gold: Path) -> list[PairRow[float]]:
    """Read a subset of STS12 to STS16: a file of pairs and a file of scores from 0 to 5.

    Pairs whose line in the file of scores is empty were not annotated and are left out.
    """
    pairs = _read(texts, "utf-8").splitlines()
    scores = _read(gold, "utf-8").splitlines()
    if len(pairs) != len(scores):
        raise InputError(
            f"{texts} has {len(pairs)} lines, but its scores in {gold.name} {len(scores)}"
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
        rows.append(PairRow(_joined(first), _joined(rest.split("\t")[0]), label))
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


def _rows(
    path: Path,
    row: Callable[[str], RowT],
    *,
    wanted: str,
    encoding: str = "utf-8",
    n_headings: int = 0,
) -> list[RowT]:
    """Parse each line below the header with `row`, which raises ValueError for a malformed line."""
    lines = _read(path, encoding).removesuffix("\n").split("\n")
    rows = []
    for number, line in enumerate(lines[n_headings:], start=n_headings + 1):
        try:
            rows.append(row(line.strip()))
        except ValueError:
            raise InputError(f"{path}:{number}: expected {wanted}, got {line!r}") from None
    return rows


def _joined(text: str) -> str:
    return " ".join(text.split())


def _class_of(text: str, *, n_classes: int) -> int:
    label = int(text)
    if not 0 <= label < n_classes:
        raise ValueError(text)
    return label


def _score_of(text: str) -> float:
    score = float(text)
    if not 0 <= score <= _MAX_STS_SCORE:
        raise ValueError(text)
    return score
