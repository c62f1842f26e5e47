"""The house: what a release, a checkout and CI must hold to, whatever the code does."""

from __future__ import annotations

import re
import subprocess
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import polarity_bench
from polarity_bench.integrations import hub_card
from polarity_bench.training.examples.card import PAPER
from polarity_bench.training.recipes.scl.recipe import Scl
from polarity_bench.training.recipes.triple_entropy import TripleEntropy

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "polarity_bench"
MODULES = sorted(PACKAGE.rglob("*.py"))
MACHINE_PATH = "/(w[o]rk|f[a]rm|r[o]ot|opt/p[y]pi|opt/w[h]eels)/"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def module_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    build = pytest.importorskip("hatchling.build", reason="the build backend; `make test` has it")
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        name = build.build_wheel(str(folder))
    with zipfile.ZipFile(folder / name) as archive:
        yield archive


# The wheel


def test_wheel_says_the_version_of_the_package(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    said = Parser().parsestr(wheel.read(name).decode())
    assert said["Name"] == "polarity-bench"
    assert said["Version"] == polarity_bench.__version__


def test_readme_of_the_wheel_leads_to_github(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    _, _, shown = wheel.read(name).decode().partition("\n\n")
    repository = "https://github.com/polarity-bench/polarity-bench/blob/main/"
    pictures = "https://raw.githubusercontent.com/polarity-bench/polarity-bench/main/"
    assert f"]({pictures}docs/figures/p-and-s.svg)" in shown
    assert f"]({repository}docs/train.md)" in shown
    links = re.findall(r"\]\(([^)]+)\)", shown)
    assert len(links) > 30
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    back = shown.replace(pictures, "").replace(repository, "").strip()
    assert back == (ROOT / "README.md").read_text(encoding="utf-8").strip()


def test_wheel_holds_the_package_whole(wheel: zipfile.ZipFile) -> None:
    wanted = {module_name(path) for path in MODULES} | {"polarity_bench/py.typed"}
    assert wanted <= set(wheel.namelist())


def test_wheel_holds_every_task_and_the_data_shipped_with_it(wheel: zipfile.ZipFile) -> None:
    files = [path for path in (ROOT / "tasks").rglob("*") if path.suffix in {".toml", ".jsonl"}]
    wanted = {f"polarity_bench/_tasks/{path.relative_to(ROOT / 'tasks')}" for path in files}
    assert "polarity_bench/_tasks/suites.toml" in wanted
    assert "polarity_bench/_tasks/polarity/contrast/sentences.jsonl" in wanted
    assert wanted <= set(wheel.namelist())


def test_wheel_holds_what_pages_are_made_of(wheel: zipfile.ZipFile) -> None:
    files = [path for path in (PACKAGE / "render" / "html" / "assets").rglob("*") if path.is_file()]
    assert len(files) > 3
    names = {path.relative_to(ROOT).as_posix() for path in files}
    assert names <= set(wheel.namelist())


def test_wheel_holds_nothing_but_the_package_and_its_licence(wheel: zipfile.ZipFile) -> None:
    folders = {name.split("/")[0] for name in wheel.namelist()}
    about = f"polarity_bench-{polarity_bench.__version__}.dist-info"
    assert folders == {"polarity_bench", about}
    assert f"{about}/licenses/LICENSE" in wheel.namelist()
    assert not [name for name in wheel.namelist() if "test" in Path(name).stem.split("_")]


# The citation


def test_the_citation_says_what_the_package_says() -> None:
    said = yaml.safe_load(read("CITATION.cff"))
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert said["cff-version"] == "1.2.0"
    assert said["version"] == polarity_bench.__version__
    assert said["title"] == project["name"]
    assert said["license"] == project["license"]
    assert project["description"].startswith(said["abstract"])
    assert [each["name"] for each in said["authors"]] == [a["name"] for a in project["authors"]]
    assert said["repository-code"] == project["urls"]["Source"] == hub_card.HOMEPAGE


def test_the_citation_names_the_papers_that_the_bench_is_after() -> None:
    references = yaml.safe_load(read("CITATION.cff"))["references"]
    assert len(references) == len({each["title"] for each in references}) == 5
    assert all(each["authors"] and each["year"] and each["notes"] for each in references)
    titles = [each["title"] for each in references]
    assert [title for title in titles if title in PAPER] == titles[:1]
    assert (
        sum(
            title in sources for title in titles for sources in (Scl.sources, TripleEntropy.sources)
        )
        == 2
    )


# The package


def test_every_public_name_can_be_had() -> None:
    names = polarity_bench.__all__
    assert names == sorted(set(names))
    for name in names:
        assert getattr(polarity_bench, name) is not None


def test_architecture_names_every_module_at_the_top() -> None:
    text = read("docs/architecture.md")
    names = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES}
    assert not [name for name in sorted(names - {"__init__"}) if f"`{name}`" not in text]


# The constraints


def pinned_requirements() -> list[tuple[Requirement, list[str]]]:
    """Return each pin with its hashes; a package may have one pin for each Python version."""
    text = re.sub(r"^#.*\n", "", read("constraints.txt"), flags=re.MULTILINE)
    pins = [line.split(" --hash=") for line in text.replace("\\\n   ", "").splitlines()]
    return [(Requirement(requirement), hashes) for requirement, *hashes in pins]


def pins() -> dict[str, Version]:
    versions: dict[str, Version] = {}
    for requirement, _ in pinned_requirements():
        (pin,) = requirement.specifier
        assert pin.operator == "=="
        if not requirement.marker or requirement.marker.evaluate():
            versions[canonicalize_name(requirement.name)] = Version(pin.version)
    return versions


def declared() -> list[Requirement]:
    file = tomllib.loads(read("pyproject.toml"))
    extras: dict[str, list[str]] = file["project"]["optional-dependencies"]
    # `stores` serves the benchmark of the vector stores alone: what no command of
    # the Makefile installs needs no pin.
    lists = [
        file["project"]["dependencies"],
        *(wanted for extra, wanted in extras.items() if extra != "stores"),
        file["build-system"]["requires"],
    ]
    requirements = [Requirement(line) for lines in lists for line in lines]
    return [one for one in requirements if one.name != file["project"]["name"]]


def test_constraints_satisfy_every_declared_dependency() -> None:
    pinned = pins()
    for requirement in declared():
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"{requirement}: no such pin; `make constraints`"
        assert requirement.specifier.contains(pinned[name]), f"{requirement}, got {pinned[name]}"


def test_every_pin_has_hashes_and_none_names_a_build() -> None:
    for requirement, hashes in pinned_requirements():
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}\s*", digest) for digest in hashes)
        assert "+" not in str(requirement.specifier), requirement  # torch's wheel without CUDA


# The commands


def makefile_targets() -> dict[str, list[str]]:
    rules = re.findall(r"^([a-z-]+):([^=#\n]*)(?:##.*)?$", read("Makefile"), re.MULTILINE)
    return {target: needs.split() for target, needs in rules}


def test_ci_runs_the_test_command_of_the_readme_and_the_slow_tests() -> None:
    assert read(".ci/run").rstrip().endswith("make docs test test-slow")
    assert "make test" in read("README.md")
    assert "make run" in read("README.md")


def test_pre_commit_runs_what_ci_runs_and_needs_no_network() -> None:
    text = read(".pre-commit-config.yaml")
    assert re.findall(r"^ *entry: make (\w+)$", text, re.MULTILINE) == makefile_targets()["test"]
    assert re.findall(r"repo: (\S+)", text) == ["local"]


def test_every_make_target_that_a_page_names_exists() -> None:
    targets = set(makefile_targets())
    for page in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"(?:`|^)make ([a-z-]+)", read(page), re.MULTILINE))
        assert named, page
        assert named <= targets, page


# The tree


def test_no_file_names_a_path_of_the_machine_that_it_was_written_on() -> None:
    words = ["git", "grep", "-I", "--untracked", "--only-matching", "--extended-regexp"]
    done = subprocess.run(
        [*words, MACHINE_PATH], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode == 128:
        pytest.skip("not a git checkout")
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
