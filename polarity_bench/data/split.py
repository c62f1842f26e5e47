"""Splits: the labelled texts of one part of a data set, read by the declarations of a task file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from polarity_bench.data.readers import NOT_TEXT, FileRow, check_count, read_rows
from polarity_bench.data.sources import DataAccess, find, load_hub_split, obtain
from polarity_bench.data.specs import Cut, FormatSpec, Owner, SplitSpec
from polarity_bench.errors import InputError
from polarity_bench.values import IntArray


@dataclass(frozen=True)
class Split:
    """Labelled texts of one split, in file order.

    Attributes:
        texts: Texts of the split.
        labels: Label of each text.
        columns: Additional columns of the file, keyed by name, with one value per text.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, positions: Sequence[int] | IntArray) -> Split:
        """Return a split with the rows at `positions`, in that order."""
        return Split(
            texts=tuple(self.texts[i] for i in positions),
            labels=tuple(self.labels[i] for i in positions),
            columns={
                name: tuple(values[i] for i in positions) for name, values in self.columns.items()
            },
        )


def load_split(
    name: str,
    split: SplitSpec,
    form: FormatSpec,
    label_of: Mapping[str, str],
    owner: Owner,
    access: DataAccess,
) -> Split:
    """Read all rows of a split in file order, translate their labels and check the counts.

    Args:
        name: Name of the split, for messages.
        split: Declaration of the split.
        form: Format of the split's file.
        label_of: Label of each label in the file; empty if labels stay as they are.
        owner: Task file that declares the split.
        access: Permitted sources of data.

    Raises:
        InputError: If the data of the split is missing or does not match the task file.
    """
    rows, where = _read(split, form, owner, access)
    if split.where:
        selected = tuple(split.where.values())
        rows = [row for row in rows if row.values[-len(selected) :] == selected]
    if split.cut:
        rows = [rows[i] for i in cut_positions([row.values[0] for row in rows], split.cut)]
    loaded = split_of(name, rows, where, label_of, form.columns)
    if split.rows is not None:
        check_count(where, len(loaded), split.rows)
    n_found = Counter(loaded.labels)
    for label, expected in (split.label_rows or {}).items():
        check_count(where, n_found[label], expected, f" of the label {label!r}")
    return loaded


def split_of(
    name: str,
    rows: Sequence[FileRow],
    where: str,
    label_of: Mapping[str, str],
    extra: Sequence[str] = (),
) -> Split:
    """Check the rows of a split, and translate their labels.

    Args:
        name: Name of the split, for messages.
        rows: Text, label and additional columns of each row.
        where: Name of the file or data set, for messages.
        label_of: Label of each label in the data; empty if labels stay as they are.
        extra: Names of the additional columns.

    Raises:
        InputError: If there are no rows, or if a text is empty or a label unknown.
    """
    if not rows:
        raise InputError(f"{where}: the split {name!r} has no rows")
    if empty := [row.line for row in rows if not row.values[0].strip()]:
        raise InputError(
            f"{where}, line {empty[0]}: the text is empty, as in {len(empty):,} of {len(rows):,} "
            "rows; fill them in, or remove the rows"
        )
    columns = list(zip(*(row.values for row in rows), strict=True))
    # Digests separate values by NUL, and UTF-8 cannot represent half a surrogate pair.
    if any(NOT_TEXT.search("\n".join(values)) for values in columns):
        line = next(row.line for row in rows if NOT_TEXT.search("\t".join(row.values)))
        raise InputError(f"{where}, line {line}: the row contains a NUL byte, or is not text")
    label_of = label_of or {label: label for label in columns[1]}
    if not label_of.keys() >= {*columns[1]}:
        row = next(row for row in rows if row.values[1] not in label_of)
        raise InputError(
            f"{where}, line {row.line}: unknown label {row.values[1]!r}; the task declares "
            f"{', '.join(map(repr, label_of))}"
        )
    labels = tuple(label_of[label] for label in columns[1])
    return Split(columns[0], labels, {column: columns[2 + i] for i, column in enumerate(extra)})


def cut_positions(texts: Sequence[str], cut: Cut) -> list[int]:
    """Return the positions of the texts that belong to a cut, ascending.

    Texts that are equal, ignoring case, are either all in the cut or all in the rest. The cut and
    the rest therefore share no text.

    Args:
        texts: All texts of the file.
        cut: Share of the distinct texts, and seed.

    Example:
        >>> texts = ["a", "b", "A", "c", "d"]
        >>> cut_positions(texts, Cut(seed=1, share=0.5))
        [0, 1, 2]
        >>> cut_positions(texts, Cut(seed=1, share=0.5, rest=True))
        [3, 4]
    """
    keys = [text.casefold() for text in texts]
    distinct = list(dict.fromkeys(keys))
    order = np.random.default_rng(cut.seed).permutation(len(distinct))
    drawn = {distinct[i] for i in order[: round(cut.share * len(distinct))]}
    return [i for i, key in enumerate(keys) if (key in drawn) != cut.rest]


def _read(
    split: SplitSpec, form: FormatSpec, owner: Owner, access: DataAccess
) -> tuple[list[FileRow], str]:
    """Return the rows of a split, and the name of the file or hub data set for messages."""
    extra = [*form.columns, *split.where]
    if split.hub and not split.url and find(split, owner, access) is None:
        records = load_hub_split(split.hub, owner, access, extra)
        return [FileRow(i, record) for i, record in enumerate(records, start=1)], split.hub.id
    path = obtain(split, owner, access)
    label_path = obtain(split.label_file, owner, access) if split.label_file else None
    return list(read_rows(path, form, [form.text, form.label, *extra], label_path)), str(path)
