"""Mutations of a file: random changes of its bytes, and odd values in its own format.

Most random changes break the format, so the parser refuses them. `mutate` therefore also parses the
file, changes its values, and writes it in its format again. The code behind the parser sees those.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
import random
import struct
import tomllib
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Literal

_WORDS = '\0 \r \\ , \t [[ ]] { } [] {} NaN Infinity -1 1e999 0x10 1_000 null true =1+1 \' " ""\n\n'
_WORDS += " 99999999999999999999 __class__ 1970-01-01 ../../etc/passwd /dev/zero <script> \x1b[31m"
_NOT_TEXT = [b"\xff\xfe", b"\xef\xbb\xbf", b"\xe2\x80\xae", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80"]
_TOKENS = [word.encode() for word in _WORDS.split(" ")] + _NOT_TEXT
"""Marks of formats, odd numbers, paths, markup, controls, and bytes that are not UTF-8."""
_NUMBERS = [0, -1, 1, 2, 3, 255, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**64), 10**30, 10**400]
_NUMBERS += [0.5, -0.0, 1.5, 1e-320, 1e19, 1e308, math.nan, math.inf, -math.inf]  # type: ignore[list-item]
_HUGE = 1 << 20_000
"""More digits than Python converts to text. TOML may contain it, as a hexadecimal number."""
_TEXTS = ["", " ", "a", "0", "-1", "true", "null", "nan", "é" * 300, "x" * 20_000, "a\nb", "a\tb"]
_TEXTS += [
    "\0",
    "\x1b[31m",
    "\u202egnp",
    "\u2066\u200f",
    "\ufeff",
    "\u2028",
    "İ",
    "ß",
    "👩‍👧",
    "e\u0301",
]
_TEXTS += [
    "../../etc/passwd",
    "/etc/passwd",
    "/dev/zero",
    "/proc/self/mem",
    ".",
    "..",
    "~",
    "~no/x",
]
_TEXTS += [
    "C:\\x",
    "con",
    "a/b",
    "a:b",
    "-",
    "--",
    "*",
    "[",
    "(?:",
    "{}",
    "{0.__class__}",
    "%s",
    "$HOME",
]
_TEXTS += [
    "<script>",
    "=1+1",
    "@x",
    "http://127.0.0.1:9/x",
    "file:///etc/passwd",
    "hf:a/b",
    "mteb:x",
]
_TEXTS += [
    "hub:a/b",
    "utf-7",
    "zlib",
    "idna",
    "__class__",
    "n" * 255,
    "1e999",
    "1_0",
    "\u0663",
    "\uff21\uff22",
]


def mutate(content: bytes, draw: random.Random, suffix: str = "") -> bytes:
    """Return the content with one to four changes, of bytes or in the format of a suffix."""
    change = FORMATS.get(suffix)
    if change is None or draw.random() < 0.2:
        return _mutate_bytes(content, draw)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        content = change(content, draw)
    return _mutate_bytes(content, draw) if draw.random() < 0.05 else content


def _mutate_bytes(content: bytes, draw: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(data) + 1)
        end = min(len(data), at + draw.choice((1, 2, 4, 16, 64)))
        kind = draw.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            data[at:at] = draw.choice(_TOKENS)
        elif kind == 2:
            data[at:end] = draw.choice(_TOKENS)
        elif kind == 3:
            del data[at:end]
        elif kind == 4:
            data[at:at] = data[at:end] * draw.choice((1, 2, 50))
        elif draw.random() < 0.3:
            del data[at:]
    return bytes(data)


# Values: JSON and TOML


def _odd(draw: random.Random) -> Any:
    """Return a value that is seldom expected."""
    kind = draw.randrange(12)
    if kind < 4:
        return draw.choice(_NUMBERS)
    if kind < 8:
        return draw.choice(_TEXTS)
    if kind == 8:
        value: Any = _simple(draw)
        for _ in range(draw.choice((1, 2, 60, 300, 3000))):
            value = [value] if draw.random() < 0.5 else {"a": value}
        return value
    if kind == 9:
        return [_simple(draw) for _ in range(draw.choice((0, 1, 2, 3, 500)))]
    if kind == 10:
        n = draw.choice((0, 1, 2, 300))
        return {draw.choice(_TEXTS) + str(i or ""): _simple(draw) for i in range(n)}
    return draw.choice((None, True, False, _HUGE, dt.date(1, 1, 1), dt.time(0)))


def _simple(draw: random.Random) -> Any:
    return draw.choice((None, True, draw.choice(_NUMBERS), draw.choice(_TEXTS)))


def _mutate_value(value: Any, draw: random.Random) -> Any:
    """Change one value, key or list inside a value, in place if it can be."""
    places = list(_places(value))
    if not places or draw.random() < 0.01:
        return _odd(draw)
    where, key = draw.choice(places)
    _, other = other_place = draw.choice(places)
    kind = draw.randrange(10)
    if kind < 5:
        where[key] = _odd(draw)
    elif kind == 5:
        del where[key]
    elif kind == 6 and isinstance(where, dict):
        where[draw.choice((draw.choice(_TEXTS), str(other)))] = where.pop(key)
    elif kind == 7:  # another value of the file, of the right type somewhere else
        found = other_place[0][other]
        where[key] = found if _depth_below(found, where) else _odd(draw)
    elif kind == 8 and isinstance(where, list):
        where[key:key] = where[key : key + 1] * draw.choice((1, 2, 100))
    else:
        where[key] = _near(where[key], draw)
    return value


def _places(value: Any) -> Any:
    """Yield each dictionary and list inside a value with each of its keys."""
    if not isinstance(value, dict | list):
        return
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in list(inside):
        yield value, key
        if isinstance(each, dict | list):
            yield from _places(each)


def _depth_below(value: Any, where: Any) -> bool:
    """Return whether a value may be put into a place without containing itself."""
    return value is not where and all(each is not where for each, _ in _places(value))


def _near(value: Any, draw: random.Random) -> Any:
    """Return a value of the same type, or the value as another type."""
    if isinstance(value, bool) or value is None:
        return draw.choice((not value, str(value), int(bool(value))))
    if isinstance(value, int | float):
        value = value if abs(value) < 1e300 else 7
        return draw.choice((value + 1, -value, value * 1000, str(value), [value], value / 3))
    if isinstance(value, str):
        at = draw.randrange(len(value) + 1)
        changed = value[:at] + draw.choice(_TEXTS[:40]) + value[at:]
        return draw.choice((changed, value[:at], value.upper(), value + " ", [value], {value: 1}))
    return draw.choice(([value], {"a": value}, str(value)[:1000], None))


def _mutate_json(content: bytes, draw: random.Random) -> bytes:
    text = content.decode("utf-8", "replace")
    if draw.random() < 0.1:
        return _mutate_lines(content, draw)
    try:
        value = _mutate_value(json.loads(text), draw)
    except (ValueError, RecursionError):
        return _mutate_bytes(content, draw)
    return _json(value, draw).encode("utf-8", "surrogatepass")


def _json(value: Any, draw: random.Random, indent: int | None = None) -> str:
    def other(each: Any) -> Any:
        return str(each)

    if draw.random() < 0.02:
        value = [value] if draw.random() < 0.5 else {"a": value, "\ud800": value}
    try:
        return json.dumps(value, indent=indent, ensure_ascii=draw.random() < 0.5, default=other)
    except (RecursionError, ValueError):  # deep, or a number with too many digits
        depth = draw.choice((500, 100_000))
        return draw.choice(("[" * depth + "]" * depth, '{"a":' * depth, "9" * 10_000))


def _mutate_jsonl(content: bytes, draw: random.Random) -> bytes:
    lines = content.split(b"\n")
    at = draw.randrange(len(lines))
    if draw.random() < 0.15 or not lines[at].strip():
        return _mutate_lines(content, draw)
    lines[at] = _mutate_json(lines[at], draw)
    return b"\n".join(lines)


def _mutate_toml(content: bytes, draw: random.Random) -> bytes:
    if draw.random() < 0.1:
        return _mutate_lines(content, draw)
    try:
        value = _mutate_value(tomllib.loads(content.decode()), draw)
        if not isinstance(value, dict):
            value = {"a": value}
        lines = [f"{_key(key)} = {_toml(each)}\n" for key, each in value.items()]
    except (ValueError, RecursionError):
        depth = draw.choice((100, 5000))
        return content + b"\nx = " + draw.choice((b"[" * depth + b"]" * depth, b"{a=" * depth))
    return "".join(lines).encode("utf-8", "replace")


def _key(key: Any) -> str:
    return json.dumps(str(key), ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value) if abs(value) < 10**4000 else hex(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return _key("" if value is None else value)


# Lines and tables


def _mutate_lines(content: bytes, draw: random.Random) -> bytes:
    """Repeat, remove, swap, join, cut or replace a line."""
    lines = content.split(b"\n")
    at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    kind = draw.randrange(9)
    if kind == 0:
        lines[at:at] = [lines[at]] * draw.choice((1, 2, 3000))
    elif kind == 1:
        del lines[at]
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 3:
        lines[at : at + 2] = [b"".join(lines[at : at + 2])]
    elif kind == 4:
        lines[at] = lines[at][: draw.randrange(len(lines[at]) + 1)]
    elif kind == 5:
        lines[at] = draw.choice(_TEXTS).encode("utf-8", "replace")
    elif kind == 6:
        lines[at] += draw.choice((b"\r", b"\t", b" ", b"\x0b", b"\x85", b"\xc2\xa0"))
    elif kind == 7:
        words = lines[at].split(b" ")
        words[draw.randrange(len(words))] = str(_simple(draw)).encode("utf-8", "replace")
        lines[at] = b" ".join(words)
    else:
        fields = lines[at].split(b"\t")
        fields[draw.randrange(len(fields))] = str(_simple(draw)).encode("utf-8", "replace")
        lines[at] = b"\t".join(fields)
    return b"\n".join(lines)


def _mutate_table(delimiter: str) -> Callable[[bytes, random.Random], bytes]:
    def change(content: bytes, draw: random.Random) -> bytes:
        text = content.decode("utf-8", "replace")
        if draw.random() < 0.15:
            return _mutate_lines(content, draw)
        try:
            rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
        except csv.Error:
            return _mutate_bytes(content, draw)
        if not rows:
            return _mutate_bytes(content, draw)
        row = draw.choice([rows[0], *rows])
        at = draw.randrange(len(row) + 1)
        kind = draw.randrange(9)
        if kind < 4 and row:
            value = _simple(draw)
            row[at - 1] = "" if value is None else str(value)
        elif kind == 4:
            row[at:at] = row[at - 1 : at] or ["x"]
        elif kind == 5:
            del row[at:]
        elif kind == 6:
            for each in rows:
                each[at:at] = each[:1]
        elif kind == 7 and len(row) > 1:
            draw.shuffle(row)
        else:
            rows.append(row * draw.choice((1, 1, 2, 1000)))
        out = io.StringIO(newline="")
        quoting: Literal[0, 1] = 1 if draw.random() < 0.3 else 0
        end = draw.choice(("\n", "\n", "\r\n", "\r"))
        csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(rows)
        encoding = draw.choice(("utf-8",) * 20 + ("utf-8-sig", "utf-16", "latin-1"))
        return out.getvalue().encode(encoding, "replace")

    return change


def _mutate_parquet(content: bytes, draw: random.Random) -> bytes:
    """Write the columns with other types, names, missing values, shapes and compressions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(io.BytesIO(content))
        names, columns = list(table.schema.names), [each.to_pylist() for each in table.columns]
    except Exception:  # noqa: BLE001  An earlier change made it unreadable.
        return _mutate_bytes(content, draw)
    if not names:
        return _mutate_bytes(content, draw)
    at = draw.randrange(len(names))
    kind = draw.randrange(10)
    if kind == 0:
        names[at] = draw.choice((*_TEXTS, *names))
    elif kind == 1:
        names, columns = [*names, draw.choice((*_TEXTS, *names))], [*columns, columns[at]]
    elif kind == 2:
        del names[at], columns[at]
    elif kind == 3:
        n = draw.choice((0, 1, len(columns[at]) // 2))
        columns = [each[:n] for each in columns]
    elif columns[at]:
        columns[at] = _other_column(columns[at], draw)
    out = io.BytesIO()
    try:
        arrays = [each if isinstance(each, pa.Array) else pa.array(each) for each in columns]
        if arrays and draw.random() < 0.2:
            arrays[at - 1] = arrays[at - 1].dictionary_encode()
        made = pa.Table.from_arrays(arrays, names)
        if draw.random() < 0.1:
            made = made.replace_schema_metadata({"pandas": draw.choice(("{}", "[", '{"a": 1}'))})
        compression = draw.choice(("none", "snappy", "gzip", "zstd"))
        pq.write_table(made, out, row_group_size=draw.choice((1, 3, 1000)), compression=compression)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return _mutate_bytes(content, draw)
    return out.getvalue()


def _other_column(values: list[Any], draw: random.Random) -> Any:
    import numpy as np
    import pyarrow as pa

    n = len(values)
    some = draw.randrange(n)
    dates = [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)] * n
    makers: list[Callable[[], Any]] = [
        lambda: [None if i == some else each for i, each in enumerate(values)],
        lambda: [None] * n,
        lambda: pa.array([str(each) for each in values], pa.large_string()),
        lambda: [str(each).encode() for each in values],
        lambda: pa.array([b"\xff\xfe"] * n, pa.binary()).cast(pa.string(), safe=False),
        lambda: pa.array([b"\xff\xfe"] * n, pa.binary()),
        lambda: [[each] for each in values],
        lambda: [{"a": each} for each in values],
        lambda: [{} for _ in values],
        lambda: pa.array(
            [[("k", str(each))] for each in values], pa.map_(pa.string(), pa.string())
        ),
        lambda: [i % 2 == 0 for i in range(n)],
        lambda: list(range(n)),
        lambda: pa.array([2**64 - 1] * n, pa.uint64()),
        lambda: [[0.0, math.nan, math.inf, 1e300][i % 4] for i in range(n)],
        lambda: pa.array(np.arange(n, dtype=np.float16)),
        lambda: [Decimal(i) / 3 for i in range(n)],
        lambda: dates,
        lambda: pa.array([2**62] * n, pa.timestamp("s")),
        lambda: pa.array([2**31 - 1] * n, pa.date32()),
        lambda: pa.array([2**40] * n, pa.duration("ns")),
        lambda: pa.array([None] * n, pa.null()),
        lambda: [draw.choice(_TEXTS) for _ in values],
        lambda: [[] for _ in values],
        lambda: [[1.0] * (i % 3) for i in range(n)],
        lambda: [[None, 1.0] for _ in values],
        lambda: [[math.nan, 1.0] for _ in values],
        lambda: [[[1.0, 2.0]] for _ in values],
        lambda: [["a", "b"] for _ in values],
        lambda: [[1, 2**62] for _ in values],
        lambda: [[True, False] for _ in values],
        lambda: [None if i == some else [1.0, 2.0] for i in range(n)],
        lambda: pa.array([[1.0, 2.0]] * n, pa.list_(pa.float32(), 2)),
        lambda: pa.array([[1.0, 2.0]] * n, pa.large_list(pa.float64())),
        lambda: pa.array([[1.0, 2.0]] * n, pa.list_(pa.float16())),
        lambda: pa.array([[]] * n, pa.list_(pa.float32(), 0)),
        lambda: [[1e300, 1.0] for _ in values],
        lambda: [[0.0, 0.0] for _ in values],
    ]
    try:
        return draw.choice(makers)()
    except (pa.ArrowException, ValueError, TypeError):
        return values


# Binary headers

_DTYPES = ("F64", "F16", "BF16", "I64", "I8", "U8", "BOOL", "F8_E4M3", "C64", "F4", "f32", "x")


def _mutate_safetensors(content: bytes, draw: random.Random) -> bytes:
    """Change the header, and state its right length."""
    (n,) = struct.unpack("<Q", content[:8])
    try:
        header = dict(json.loads(content[8 : 8 + n]))
    except (ValueError, TypeError, RecursionError):
        return _mutate_bytes(content, draw)
    data = content[8 + n :]
    name = draw.choice([each for each in header if each != "__metadata__"] or ["a"])
    entry = header.get(name)
    kind = draw.randrange(10)
    if kind < 2 and isinstance(entry, dict):
        entry["dtype"] = draw.choice(_DTYPES)
    elif kind == 2 and isinstance(entry, dict):
        shape = draw.choice(([], [0], [-1], [2**63], [2**32, 2**32], [1] * 70, [1.5], ["a"], None))
        entry["shape"] = shape
    elif kind == 3 and isinstance(entry, dict):
        entry["data_offsets"] = draw.choice(([0, 0], [0, 2**63], [-1, 4], [4, 0], [0], None))
    elif kind == 4:
        header[draw.choice(_TEXTS)] = header.pop(name, {})
    elif kind == 5:
        header["__metadata__"] = draw.choice(({"format": "np"}, {"a": 1}, [], {"a": "x" * 10_000}))
    elif kind == 6:
        header = {key: each for key, each in header.items() if key != name}
    elif kind == 7:
        at = draw.randrange(len(data) + 1)
        special = struct.pack("<f", draw.choice((math.nan, math.inf, 1e38, 0.0)))
        data = (data[:at] + special + data[at + 4 :])[: len(data)]
    elif kind == 8:
        data = data + bytes(draw.choice((1, 4, 4096))) if draw.random() < 0.5 else data[:-4]
    else:
        header = _mutate_value(header, draw)
    text = _json(header, draw).encode("utf-8", "replace")
    if draw.random() < 0.05:
        return struct.pack("<Q", draw.choice((0, 2**40, 2**63, len(text) - 1))) + text + data
    return struct.pack("<Q", len(text)) + text + data


def _mutate_npy(content: bytes, draw: random.Random) -> bytes:
    """Change the header, and state its right length."""
    import numpy as np

    try:
        stream = io.BytesIO(content)
        version = np.lib.format.read_magic(stream)
        shape, order, dtype = np.lib.format.read_array_header_1_0(stream)
    except Exception:  # noqa: BLE001  An earlier change made it unreadable.
        return _mutate_bytes(content, draw)
    data, descr = content[stream.tell() :], dtype.descr if dtype.names else dtype.str
    kind = draw.randrange(6)
    new: Any = {"descr": descr, "fortran_order": order, "shape": shape}
    if kind < 2:
        odd = ("|O", "<f8", ">f4", "<f2", "<c8", "<U4", "<M8[s]", "|b1", "<i8", "<g16", "|V16", "x")
        new["descr"] = draw.choice((*odd, [("a", "<f4"), ("b", "<f4")], 3, None, "|S0", "<U0"))
    elif kind == 2:
        large = ((2**40, 4), (10**6, 10**6), (-1, 4), (2**63, 1), (4,), (), (0, 4), (1,) * 40)
        new["shape"] = draw.choice((*large, shape[::-1], (*shape, 1), (1.5,), 3, "a"))
    elif kind == 3:
        new["fortran_order"] = draw.choice((True, 1, "a"))
    elif kind == 4:
        new[draw.choice(_TEXTS[:20])] = 1
    else:
        at = draw.randrange(len(data) + 1)
        special = struct.pack("<f", draw.choice((math.nan, math.inf, 0.0, 3e38)))
        data = data[:at] + special + data[at + 4 :] if draw.random() < 0.5 else data[:at]
    text = repr(new).encode("utf-8", "replace") + b"\n"
    return np.lib.format.magic(*version) + struct.pack("<H", len(text) % 65_536) + text + data


FORMATS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".json": _mutate_json,
    ".jsonl": _mutate_jsonl,
    ".toml": _mutate_toml,
    ".csv": _mutate_table(","),
    ".tsv": _mutate_table("\t"),
    ".parquet": _mutate_parquet,
    ".safetensors": _mutate_safetensors,
    ".npy": _mutate_npy,
    ".txt": _mutate_lines,
}
"""Changes in the format of a file, by suffix."""
