"""The page of `make chaos` shows its record. The attacks are no test: they depend on time."""

from __future__ import annotations

import json

from chaos.__main__ import PAGE, RECORD, page, table


def test_the_page_shows_the_figures_of_the_record() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, record) == text
    assert table(record["figures"]) in text
    assert {"kill -9", "fuzz"} <= {each["attack"] for each in record["figures"]}
