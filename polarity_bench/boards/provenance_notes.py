"""Provenance of a board's rows: encoders, versions, files, and the commands to reproduce them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from polarity_bench.boards.columns import Sections
from polarity_bench.render.table import Detail
from polarity_bench.results.result_files import PROGRAMS, TRAINED_BY, Result, made_by

_OUTPUT = frozenset({"--output", "-o"})


def row_details(sections: Sections, folder: Path | None) -> dict[str, Detail]:
    """Return the provenance of each row, by its key `detail`.

    Args:
        sections: The records of the board.
        folder: Folder of the board, to which file paths are relative. If None, no files are named.
    """
    results: dict[str, list[Result]] = {}
    for (row, _), result in sections.results.items():
        results.setdefault(row, []).append(result)
    details = {row: measured_detail(of_row, folder) for row, of_row in results.items()}
    for record in sections.further:
        if record["role"] == "published":
            facts = {"note": record["note"]} if record["note"] else {}
            details[record["detail"]] = Detail(facts, source=record["source"])
    return dict(sorted(details.items()))


def measured_detail(results: Sequence[Result], folder: Path | None, **further: str) -> Detail:
    """Return the provenance of a row with these results, and further facts."""
    encoder = _latest(results).key.encoder
    reference = next((r.key.reference for r in results if r.key.reference), None)
    facts = {
        "encoder": encoder.label,
        "digest": encoder.digest,
        **({"revision": encoder.revision} if encoder.revision else {}),
        **({"reference": f"{reference.label} ({reference.digest})"} if reference else {}),
        "dtype": encoder.dtype,
        "results": str(len(results)),
    }
    trained = (_words(result.environment.get(TRAINED_BY, "")) for result in results)
    trained_by = [_command(words) for words in trained if words]
    recorded = [command for command in map(_recorded, results) if command]
    if 0 < len(recorded) < len(results):
        further["command known for"] = f"{len(recorded)} of {len(results)} results"
    command = "\n".join(dict.fromkeys([*trained_by, *recorded]))
    return detail_of(facts, command, results, folder, **further)


def detail_of(
    facts: dict[str, str],
    command: str,
    results: Sequence[Result],
    folder: Path | None,
    **further: str,
) -> Detail:
    """Return a provenance with the versions of the latest result and the files of all results."""
    files = [result.path.relative_to(folder).as_posix() for result in results] if folder else []
    return Detail(facts | made_by(_latest(results)) | further, command, sorted(files))


def _latest(results: Sequence[Result]) -> Result:
    """Return the result that was made last."""
    return max(results, key=lambda result: result.date)


def _recorded(result: Result) -> str:
    """Return the recorded command of a result, without its output folder; '' if there is none."""
    kept: list[str] = []
    for word in _words(result.environment.get("command", "")):
        if kept and kept[-1] in _OUTPUT:
            kept.pop()
        elif not re.match("-o.|--output=", word):
            kept.append(word)
    return _command(kept) if kept else ""


@cache  # The results of one run have the same command, and parsing a command is slow.
def _words(command: str) -> Sequence[str]:
    """Return the arguments of a command of polarity-bench.

    There are none for other programs and for missing or malformed commands.
    """
    try:
        program, *words = shlex.split(command)
    except ValueError:  # The command is missing or has an unclosed quote.
        return ()
    return words if program in PROGRAMS else ()


def _command(words: Sequence[str]) -> str:
    return shlex.join(["polarity-bench", *words])
