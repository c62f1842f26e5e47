"""The suites of mteb's data sets, and their page, follow the rules of `docs/make_suites.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from standins.programs import load_program

from polarity_bench.tasks.catalogue import choose_tasks, load_suites
from polarity_bench.tasks.types.polarity.task import PolaritySpec

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def make_suites() -> Any:
    return load_program(DOCS / "make_suites.py")


def test_the_suites_and_their_page_are_those_of_the_rules(make_suites: Any) -> None:
    text = make_suites.SUITES.read_text(encoding="utf-8")
    assert make_suites.suites_file(text) == text, "python docs/make_suites.py"
    assert make_suites.page() == make_suites.PAGE.read_text(encoding="utf-8")
    for suite, names in make_suites.suites().items():
        assert load_suites()[suite] == tuple(names)


def test_a_hand_made_change_of_a_suite_is_undone(make_suites: Any) -> None:
    text = make_suites.SUITES.read_text(encoding="utf-8")
    edited = text.replace('    "nano:CBD.v2",\n', "")
    assert edited != text
    assert make_suites.suites_file(edited) == text


def specs_of(suite: str) -> list[PolaritySpec]:
    specs = choose_tasks({}, suite=suite)
    assert all(isinstance(spec, PolaritySpec) for spec in specs)
    return [spec for spec in specs if isinstance(spec, PolaritySpec)]


def test_multilingual_has_many_tasks_and_languages_with_open_licences() -> None:
    specs = specs_of("multilingual")
    assert len(specs) >= 40
    assert len({language for spec in specs for language in spec.languages}) >= 25
    assert {spec.restriction for spec in specs} == {""}
    assert len({spec.result_name for spec in specs}) == len(specs)


def test_nano_draws_200_queries_with_their_sources_from_twelve_data_sets() -> None:
    specs = specs_of("nano")
    assert len(specs) == len({spec.mteb_set.name for spec in specs}) == 12
    drawn = {(spec.protocol.n_queries, spec.protocol.sources_per_query) for spec in specs}
    assert drawn == {(200, 5)}
