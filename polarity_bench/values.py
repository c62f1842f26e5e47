"""Array types, and helpers for digests, short numbers, and text to compare or to print."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def digest_of(value: Any) -> str:
    """Return the digest of a JSON value, 16 hexadecimal digits. The order of keys is ignored."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def shortest(value: float) -> str:
    """Format a float with the fewest digits that parse to the same float.

    Example:
        >>> shortest(-1.0), shortest(0.1), shortest(0.10000001)
        ('-1', '0.1', '0.10000001')
    """
    return repr(float(value)).removesuffix(".0")


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Group items by a key, in the order in which the keys occur first."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def count(n: int, noun: str) -> str:
    """Format a number with its noun, in the plural unless the number is 1."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


_ASCII_WORD = re.compile(r"\w+")


@cache
def _word() -> re.Pattern[str]:
    """Return the pattern of a word with its combining marks, which Python's class of words lacks.

    Without them, the vowels of Indic scripts would be lost. Variation selectors are left out,
    because they follow emojis.
    """
    letters = map(chr, (*range(0x300, 0xFE00), *range(0xFE10, 0x1F000)))
    marks = "".join(c for c in letters if unicodedata.category(c) in {"Mn", "Mc"})
    return re.compile(rf"\w[\w{marks}]*")


def normalised(text: str) -> str:
    """Return the case-folded words of a text, joined by single spaces.

    A word is a run of letters with their marks, digits and underscores, in Unicode's composed form.

    Example:
        >>> normalised("It's  WARM -- and kind.")
        'it s warm and kind'
        >>> normalised("cafe\u0301"), normalised("दिन") == normalised("दान")
        ('café', False)
    """
    word = _ASCII_WORD if text.isascii() else _word()
    return " ".join(word.findall(unicodedata.normalize("NFC", text.casefold())))


_BIDI_CONTROLS = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


def printable(text: str) -> str:
    r"""Escape control characters and characters that change the direction of text.

    A terminal would execute control characters. A change of direction can make one name look like
    another.

    Example:
        >>> printable("e5\x1b[2K \u202egte")
        'e5\\x1b[2K \\u202egte'
    """
    if text.isascii() and text.isprintable():
        return text

    def is_shown(letter: str) -> bool:
        hidden = unicodedata.category(letter) in {"Cc", "Cs", "Zl", "Zp"}
        return not hidden and unicodedata.bidirectional(letter) not in _BIDI_CONTROLS

    kept = {"\n", "\t"}
    return "".join(
        c if c in kept or is_shown(c) else c.encode("unicode_escape").decode() for c in text
    )
