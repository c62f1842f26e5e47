"""The page of the papers' claims: current, one verdict a claim, and no number that was typed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.numpy import load, save
from standins.programs import load_program

from polarity_bench.files import json_bytes, with_checksum
from polarity_bench.results.packed_results import PROVENANCE, read_stored

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LEADERBOARDS = ROOT / "leaderboards"
TEXT = tomllib.loads((DOCS / "reproduction.toml").read_text(encoding="utf-8"))
PAGE = (DOCS / "reproduction.md").read_text(encoding="utf-8")
CLAIMS = [claim for paper in TEXT["papers"] for claim in paper["claims"]]
of_claims = pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["id"])

PRINTED = {
    "Margins (2025)": {1, 4, 5, 6, 7},
    "Polarity-aware (2023)": {1, 4, 5, 6, 7},
    "SCL (2021)": {2, 3, 4, 5, 6, 7},
    "TripleEntropy (2022)": {3, 4, 5, 6, 7},
    "Few-shot (2022)": {2, 3, 4, 5, 6, 7},
}
"""The tables of results of each paper; the others describe data, losses or examples."""
SOURCES = {
    "Jørgensen and Breitung (2025)": "Margins (2025)",
    "Liao (2021)": "SCL (2021)",
    "Sosnowski, Wróblewska and Gawrysiak (2022)": "TripleEntropy (2022)",
    "Sosnowski, Wróblewska, Seweryn and Gawrysiak (2022)": "Few-shot (2022)",
}
"""How boards cite the papers."""
USED = sorted(
    set(
        re.findall(
            r"([\w-]+)/((?:table|published)\.csv);",
            (DOCS / "reproduction.toml").read_text(encoding="utf-8"),
        )
    )
)
"""The files of boards that numbers are read from."""
PARAMETERS = {"0.1", "0.25", "0.3", "0.5", "0.7", "0.9", "0.01", "7.5"}
"""Margins, weights and temperatures, which are settings and not results."""


@pytest.fixture(scope="module")
def make_reproduction() -> Any:
    return load_program(DOCS / "make_reproduction.py")


def test_the_page_is_current(make_reproduction: Any) -> None:
    assert make_reproduction.page() == PAGE, "python docs/make_reproduction.py"


def test_the_figures_are_current(make_reproduction: Any) -> None:
    pytest.importorskip("altair")
    claims = [claim for claim in CLAIMS if "figure" in claim]
    assert claims
    for claim in claims:
        drawn = (DOCS / "figures" / claim["figure"]["file"]).read_bytes()
        assert drawn == make_reproduction.figure(LEADERBOARDS, claim), claim["id"]


# Claims and verdicts


def section(claim: Mapping[str, Any]) -> str:
    """The part of the page about a claim."""
    (found,) = re.findall(rf"^### {claim['id']}\. .*?(?=^##)", PAGE, flags=re.M | re.S)
    return str(found)


def test_every_paper_has_claims() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    assert len(cited) == len(TEXT["papers"])
    for reference, paper in zip(cited, TEXT["papers"], strict=True):
        assert reference["title"].lower() in " ".join(paper["text"].split()).lower()
        assert any("Abstract" in claim["where"] for claim in paper["claims"])
        assert any("Section 6" in c["where"] or "5" in c["where"] for c in paper["claims"])


def test_ids_are_unique_and_references_to_them_exist() -> None:
    known = [claim["id"] for claim in CLAIMS]
    assert len(set(known)) == len(known)
    assert set(re.findall(r"\b[MESTF]\d+\b", PAGE)) == set(known) | {"F1"}


@of_claims
def test_every_claim_has_one_verdict(make_reproduction: Any, claim: Mapping[str, Any]) -> None:
    said = re.findall(r"^\*\*(.+?)\*\*", section(claim), flags=re.M)
    assert said == [claim["verdict"]]
    assert claim["verdict"] in make_reproduction.VERDICTS
    (row,) = re.findall(rf"^\|.*\| \[{claim['id']}\. .*$", PAGE, flags=re.M)
    assert f"| **{claim['verdict']}** | {claim.get('less', '')} |" in row


@of_claims
def test_a_verdict_has_what_it_needs(make_reproduction: Any, claim: Mapping[str, Any]) -> None:
    rows = list(make_reproduction.comparisons(LEADERBOARDS, claim))
    is_measured = any(measured for _, measured, _, _ in rows)
    match claim["verdict"]:
        case "reproduced" | "reproduced with less":
            assert claim.get("less") or claim["verdict"] == "reproduced"
            assert is_measured or re.search(r"those of [MESTF]\d", claim["text"])
        case "not reproduced":
            gaps = [gap for *_, gap in rows if gap]
            apart = [gap for gap in gaps if gap.low > 0 or gap.high < 0]
            assert apart or claim["excluded"], "no interval excludes the published number"
            assert is_measured
            assert claim["less"], "under which settings"
        case "not tried":
            assert claim["less"], "why"
            assert claim["command"].strip().startswith("polarity-bench ")


def test_the_searches_that_were_not_run_are_named() -> None:
    for claim in CLAIMS:
        if claim["verdict"] == "not reproduced" and claim["id"][0] in "TF":
            assert re.search(r"grid was not run|was not searched", claim["less"])


def test_the_first_line_counts_the_verdicts(make_reproduction: Any) -> None:
    (n, counts) = re.findall(r"^(\d+) claims: (.+)\.$", PAGE, flags=re.M)[0]
    assert int(n) == len(CLAIMS)
    of_verdicts = [claim["verdict"] for claim in CLAIMS]
    assert counts == ", ".join(f"{of_verdicts.count(v)} {v}" for v in make_reproduction.VERDICTS)


def test_the_protocol_findings_are_there() -> None:
    titles = " | ".join(finding["title"] for finding in TEXT["findings"])
    for words in ("uniformly", "warm-up", "2 or more", "hidden", "truncated", "converged", "MR"):
        assert words in titles
    assert all(f"### {finding['title']}\n" in PAGE for finding in TEXT["findings"])


# Tables


def numbers_of(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"\d+", text)}


def test_every_published_table_has_a_twin_or_a_reason() -> None:
    for paper in TEXT["papers"]:
        listed = [numbers_of(table["table"]) for table in paper["tables"]]
        assert sorted(n for each in listed for n in each) == sorted(PRINTED[paper["short"]])
        for table in paper["tables"]:
            assert re.search(r"\(board:|\bnone: |^as Table|^those of", table["twin"]), table
            row = f"| {paper['short']} | {table['table']} | {table['what']} | "
            assert row in PAGE


def test_every_table_that_boards_cite_is_listed() -> None:
    cited: dict[str, set[int]] = {}
    for file in LEADERBOARDS.glob("*/published.csv"):
        for source, tables in re.findall(
            r"(\w[^\"\n]*? \(\d{4}\)),[^\"\n]*? ?tables? (\d(?: and \d)?)",
            file.read_text(encoding="utf-8"),
        ):
            (name,) = [short for known, short in SOURCES.items() if source.endswith(known)][-1:]
            cited.setdefault(name, set()).update(numbers_of(tables))
    assert cited.keys() == set(SOURCES.values())
    assert all(tables <= PRINTED[name] for name, tables in cited.items())
    assert cited["Few-shot (2022)"] == PRINTED["Few-shot (2022)"]


# Numbers


def texts(values: Mapping[str, Any]) -> list[str]:
    """What is written by hand: all but the places that numbers are read from, and commands."""
    plain = ("title", "claim", "run", "less", "text", "excluded", "what", "twin")
    labels = [row[0] for key in ("rows", "more") for row in values.get(key, [])]
    labels += [item[0] for item in values.get("over", [])]
    return [*(values[key] for key in plain if key in values), *labels]


def test_no_result_is_typed() -> None:
    parts = [TEXT, *TEXT["papers"], *CLAIMS, *TEXT["findings"]]
    parts += [table for paper in TEXT["papers"] for table in paper["tables"]]
    for part in parts:
        for text in texts(part):
            text = re.sub(r"Sections? [\d., to and]+", "", text)
            typed = set(re.findall(r"(?<![\w.])\d+\.\d+", text))
            assert typed <= PARAMETERS | set(part.get("quoted", [])), text


def test_a_place_that_does_not_exist_is_told(make_reproduction: Any) -> None:
    place = "margins/table.csv; table=Losses; loss=triplet; column=minilm, sst2"
    with pytest.raises(LookupError, match="expected 1 numbers, found 2"):
        make_reproduction.number_at(LEADERBOARDS, place)
    assert make_reproduction.number_at(LEADERBOARDS, f"{place}; n=2").digits is None


def test_numbers_are_shown_with_their_intervals_and_signs(make_reproduction: Any) -> None:
    number = make_reproduction.Number
    assert make_reproduction.shown(number(63.016, 61.68, 64.39), 1) == "63.0 [61.7, 64.4]"
    assert make_reproduction.shown(number(-0.04, is_signed=True), 1) == "0.0"
    assert make_reproduction.shown(number(63.0, digits=1), 2) == "63.0"
    gap = make_reproduction.difference(number(40.4, 39.4, 41.5), number(35.2, digits=1))
    assert make_reproduction.shown(gap, 1) == "+5.2 [+4.2, +6.3]"


def more_in(column: str) -> Callable[[bytes], bytes]:
    """Make the numbers of a column of a CSV file one and a half times as large."""

    def edited(content: bytes) -> bytes:
        head, *lines = content.decode().splitlines()
        at = head.split(",").index(column) - len(head.split(","))
        cells = [re.split(r',(?=(?:[^"]*"[^"]*")*[^"]*$)', line) for line in lines]
        for row in cells:
            row[at] = f"{1.5 * float(row[at]):.2f}" if row[at] else ""
        return ("\n".join([head, *map(",".join, cells)]) + "\n").encode()

    return edited


def more_p(content: bytes) -> bytes:
    stored = json.loads(content)
    stored["scores"]["test"][0]["polarity_uniform_at_16"] += 0.01
    return json.dumps(stored).encode()


def more_by_proxies(content: bytes) -> bytes:
    arrays = load(content)
    arrays["macro_f1_proxies"][0] += 0.5
    return save(arrays)


@pytest.mark.parametrize(
    ("board", "file", "edit"),
    [
        *((board, file, more_in("value")) for board, file in USED),
        ("polarity", "results/gte-small/*/SST2PolarityRetrieval.json", more_p),
        (
            "fewshot",
            "results/*/*/experiments/proxyanchor-*/cr.queries.safetensors",
            more_by_proxies,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_page_changes_with_a_number_of_a_board(
    make_reproduction: Any, tmp_path: Path, board: str, file: str, edit: Callable[[bytes], bytes]
) -> None:
    for folder in LEADERBOARDS.iterdir():
        if folder.is_dir() and folder.name != board:
            (tmp_path / folder.name).symlink_to(folder, target_is_directory=True)
    copy = shutil.copytree(LEADERBOARDS / board, tmp_path / board)
    (edited,) = copy.glob(file)
    content = edit(edited.read_bytes())
    edited.write_bytes(content)
    if edited.suffix == ".safetensors":  # Values without their checksum would be refused.
        provenance = edited.with_name(edited.name.replace(".queries.safetensors", PROVENANCE))
        made = read_stored(provenance) | {"queries_sha256": hashlib.sha256(content).hexdigest()}
        provenance.write_bytes(json_bytes(with_checksum(made)))
    assert make_reproduction.page(tmp_path) != PAGE
