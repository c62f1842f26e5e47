"""The reference pages of the site: every subject has one, links resolve, numbers are true."""

from __future__ import annotations

import importlib.util
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from test_pages import PAGES, anchors, commands, name_of, parse, target_of, text_of

from polarity_bench.cross_validation.protocol import PROTOCOLS
from polarity_bench.results.result_files import read_results
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import load_suites, load_tasks
from polarity_bench.tasks.senteval.protocol_names import SENTEVAL_PROTOCOLS
from polarity_bench.training.losses.metric import METRIC_LOSSES
from polarity_bench.training.parameters import declared
from polarity_bench.training.recipes import RECIPES
from polarity_bench.training.recipes.margins.losses import LOSSES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages as they are written, by their path in the folder."""
    folder = tmp_path_factory.mktemp("docs") / "reference"
    (folder / "tasks").mkdir(parents=True)
    (folder / "tasks" / "removed.md").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        spec = importlib.util.spec_from_file_location("reference", DOCS / "make_reference.py")
        assert spec is not None
        assert spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "reference", module)  # its dataclass looks itself up there
        spec.loader.exec_module(module)
        module.write(folder)
    return {page.relative_to(folder).as_posix(): text_of(page) for page in folder.rglob("*.md")}


def test_every_subject_has_a_page(pages: dict[str, str]) -> None:
    wanted = {f"tasks/{name}.md" for name in load_tasks()}
    wanted |= {f"recipes/{name}.md" for name in RECIPES}
    wanted |= {f"losses/{name}.md" for name in LOSSES}
    wanted |= {f"losses/metric-{name}.md" for name in METRIC_LOSSES}
    wanted |= {f"protocols/{name}.md" for name in (*SENTEVAL_PROTOCOLS, *PROTOCOLS)}
    used = {
        result.key.protocol["name"] for result in read_results(ROOT / "leaderboards" / "polarity")
    }
    assert {"polarity-retrieval", "senteval-relatedness", "sts-cosine"} <= used
    wanted |= {f"protocols/{name}.md" for name in (*used, "answer-retrieval")}
    folders = {path.partition("/")[0] for path in wanted}
    assert pages.keys() == wanted | {f"{folder}/index.md" for folder in folders}
    for path in wanted:
        folder, name = path.split("/")
        assert f"]({name})" in pages[f"{folder}/index.md"], path


def test_every_link_resolves(pages: dict[str, str]) -> None:
    written = {posixpath.join("reference", name): text for name, text in pages.items()}
    dead, n_links = [], 0
    for name, text in written.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            place, _, anchor = target.partition("#")
            linked = target_of(DOCS / name, place)
            if linked is None:
                continue
            n_links += 1
            file = posixpath.relpath(linked, DOCS)
            there = written.get(file) or ((DOCS / file).is_file() and text_of(DOCS / file))
            if not there or (anchor and anchor not in anchors(there)):
                dead.append(f"{name}: {target}")
    assert n_links > 400
    assert not dead


def test_no_tracked_page_links_to_the_untracked_pages() -> None:
    for page in PAGES:
        assert "](reference/" not in text_of(page), name_of(page)


def test_every_command_parses(pages: dict[str, str]) -> None:
    n_commands = 0
    for text in pages.values():
        for words in commands(text):
            parse(words)
            n_commands += 1
    assert n_commands > 50


def test_a_stored_score_is_on_the_page_of_its_task(pages: dict[str, str]) -> None:
    (score,) = [
        result.scores[ScoreKey("polarity", 16)]
        for result in read_results(ROOT / "leaderboards" / "polarity")
        if result.task == "sst2" and result.key.encoder.name == MINILM
    ]
    low, high = score.ci95
    cell = f"{100 * score.mean:.2f} [{100 * low:.2f},&nbsp;{100 * high:.2f}]"
    assert f"{100 * score.mean:.2f}" == "63.43"
    assert re.search(rf"^\| {MINILM} \|.* {re.escape(cell)} \|", pages["tasks/sst2.md"], re.M)
    assert "Random retrieval (chance) has P **50.12**" in pages["tasks/sst2.md"]
    unmeasured = ["arguana", "nevir", *load_suites()["probing"]]
    for name in load_tasks():
        assert (f"| {MINILM} |" in pages[f"tasks/{name}.md"]) != (name in unmeasured), name
        assert ("No encoder is measured" in pages[f"tasks/{name}.md"]) == (name in unmeasured)


def test_a_page_of_a_task_has_its_counts_its_licence_and_its_citation(
    pages: dict[str, str],
) -> None:
    for task in load_tasks().values():
        text = pages[f"tasks/{task.name}.md"]
        assert f"| licence | {task.licence} |" in text
        assert (task.citation or "").strip() in text
        for part in getattr(task, "files", None) or task.splits:  # type: ignore[attr-defined]
            assert f"| {part} | " in text
    assert "| 67,349 | 29,780 negative, 37,569 positive |" in pages["tasks/sst2.md"]


def test_a_page_has_every_option_with_its_meaning(pages: dict[str, str]) -> None:
    named: dict[str, Any] = {f"recipes/{name}.md": recipe for name, recipe in RECIPES.items()}
    named |= {f"losses/{name}.md": loss for name, loss in LOSSES.items()}
    named |= {f"losses/metric-{name}.md": loss for name, loss in METRIC_LOSSES.items()}
    for path, of in named.items():
        for each in declared(of):
            assert f"| `--{each.name.strip('_').replace('_', '-')}` | " in pages[path], path
        assert "## Source\n\n" in pages[path]
        assert not path.startswith("losses") or "\n| formula | " in pages[path]


def test_boards_are_found_by_what_they_train(pages: dict[str, str]) -> None:
    assert "leaderboards/margins/README.md" in pages["recipes/margins.md"]
    assert "leaderboards/axis/README.md" in pages["recipes/axis.md"]
    assert "leaderboards/fewshot/README.md" in pages["losses/metric-npairs.md"]
    assert "leaderboards/fewshot/README.md" not in pages["protocols/triple-entropy.md"]
    assert "leaderboards/triple-entropy/README.md" in pages["protocols/triple-entropy.md"]
    for name in RECIPES:
        assert "No board shows it yet" not in pages[f"recipes/{name}.md"]
