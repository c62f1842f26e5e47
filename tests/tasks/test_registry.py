"""Task files: what is shipped is whole, and what is wrong is refused with the file and the key."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from standins import write_task

from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError, InputWarning, nearest
from polarity_bench.tasks import catalogue
from polarity_bench.tasks.catalogue import (
    KINDS,
    choose_tasks,
    load_suites,
    load_task,
    load_tasks,
    read_task,
    shipped_folder,
)
from polarity_bench.tasks.types.base import TaskSpec
from polarity_bench.tasks.types.polarity.task import PolaritySpec

SHIPPED = sorted(shipped_folder().glob("*/*.toml"))
SHA = "0" * 64

WHOLE = f"""
name = "film"
kind = "polarity"
version = 2
title = "Film"
description = "Reviews."
licence = "mit"
homepage = "https://example.org"
citation = "@misc{{x}}"

[labels]
0 = "bad"
1 = "good"

[format]
type = "csv"
columns = ["topic", "pair"]

[splits.source]
path = "film/train.csv"
url = "https://example.org/train.csv"
sha256 = "{SHA}"
rows = 4
label_rows = {{ bad = 2, good = 2 }}

[splits.source.label_file]
path = "film/train.labels"
sha256 = "{SHA}"

[splits.query]
hub = {{ id = "org/film", revision = "{"a" * 40}", split = "test" }}

[protocol]
k = 8
groups = ["topic"]
pair = "pair"
"""


def read(tmp_path: Path, text: str) -> TaskSpec:
    file = tmp_path / "film.toml"
    file.write_text(text, encoding="utf-8")
    return read_task(file)


def polarity(tmp_path: Path, text: str) -> PolaritySpec:
    spec = read(tmp_path, text)
    assert isinstance(spec, PolaritySpec)
    return spec


# What is shipped


def test_task_files_of_every_kind_are_found() -> None:
    assert Counter(read_task(file).kind for file in SHIPPED) == {
        "polarity": 7,
        "opposite": 4,
        "transfer": 9,
        "relatedness": 2,
        "sts": 6,
        "probing": 10,
    }
    assert set(KINDS) == {file.parent.name for file in SHIPPED}


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_every_shipped_task_is_whole(file: Path) -> None:
    spec = read_task(file)
    assert spec.name == file.stem
    # The sentences of `contrast` are in the folder of polarity tasks.
    assert spec.kind == file.parent.name or spec.name == "contrast-opposite"
    assert spec.version >= 1
    assert spec.mteb_name
    assert spec.description.endswith(".")
    assert spec.languages
    assert spec.licence
    for reference in spec.references():
        assert reference.path
        is_pinned = reference.checksum or getattr(reference, "hub", None)
        assert is_pinned, "every file that is shipped or downloaded has its checksum"
    if any(reference.url for reference in spec.references()) or spec.homepage:
        assert spec.citation
        assert spec.citation.strip().startswith("@")


@pytest.mark.parametrize("name", [f.stem for f in SHIPPED if read_task(f).kind == "polarity"])
def test_every_shipped_polarity_task_counts_its_rows(name: str) -> None:
    spec = load_tasks()[name]
    assert isinstance(spec, PolaritySpec)
    assert spec.date
    for split in spec.splits.values():
        assert split.rows is not None
        assert split.label_rows is not None
        assert set(split.label_rows) == set(spec.labels.values())
        assert sum(split.label_rows.values()) == split.rows
    assert spec.protocol.overlap is not None


def test_names_in_mteb_are_unique() -> None:
    names = [read_task(file).result_name for file in SHIPPED]
    assert len(set(names)) == len(names)


def test_suites_name_known_tasks() -> None:
    known, suites = load_tasks(), load_suites()
    assert suites["demo"]
    assert set(suites["polarity"]) <= set(known)
    for suite, names in suites.items():
        assert [spec.name for spec in choose_tasks(known, suite=suite)] == list(names)


# What is refused


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title =", "titel =", "unknown key 'titel'; did you mean 'title'?"),
        ("kind =", "knd =", "'kind' is missing"),
        ('"polarity"', '"polarty"', "unknown kind 'polarty'; did you mean 'polarity'?"),
        ("columns =", "colums =", "unknown key 'format.colums'; did you mean 'columns'?"),
        ("k = 8", "kk = 8\nk = 8", "unknown key 'protocol.kk'"),
        ("k = 8", "group = 8", "unknown key 'protocol.group'; did you mean 'groups'"),
        ("rows = 4", "row = 4", "unknown key 'splits.source.row'; did you mean"),
        ("split =", "splits =", "unknown key 'splits.query.hub.splits'; did you mean 'split'?"),
        (', split = "test"', "", "'splits.query.hub.split' is missing"),
        (
            'split = "test"',
            'split = "test", txt = "x"',
            "unknown key 'splits.query.hub.txt'; did you mean 'text'?",
        ),
        (
            'path = "film/train.labels"',
            'path = "film/train.labels"\nsha = "0"',
            "unknown key 'splits.source.label_file.sha'; did you mean 'sha256'",
        ),
        ("k = 8", "k = 0", "'protocol.k' must be at least 1, got 0"),
        ("k = 8", "k = 8\nsample_seed = -1", "'protocol.sample_seed' must be at least 0, got -1"),
        ("k = 8", 'k = "many"', "'protocol.k' must be an integer, got 'many'"),
        ("version = 2", "version = 0", "'version' must be at least 1"),
        ("version = 2", 'domains = ["News", "Tickets"]', "'domains.1': unknown value 'Tickets'"),
        ("version = 2", 'domains = ["review"]', "'domains.0': unknown value 'review'; did you"),
        ("version = 2", 'languages = ["en"]', "'languages.0': String should match pattern"),
        ("version = 2", 'date = ["2013", "2018-12-31"]', "'date.0': "),
        ("version = 2", 'date = ["2013-02-30", "2018-12-31"]', "'date.0': "),
        ("rows = 4", "rows = 0", "'splits.source.rows' must be above 0"),
        ('name = "film"', 'name = "Film Reviews"', "'name': String should match pattern"),
        ('name = "film"', "", "'name' is missing"),
        (SHA, "abc", "'splits.source.sha256': String should match pattern"),
        ("a" * 40, "main", "'splits.query.hub.revision': String should match pattern"),
        ('1 = "good"', "", "'labels' needs at least two labels"),
        ('1 = "good"', '1 = "bad"', "'labels' needs at least two labels with different names"),
        ("good = 2", "great = 2", "'label_rows': unknown label 'great'"),
        (
            'columns = ["topic", "pair"]',
            "",
            "uses the column 'pair'; add it to 'columns' in [format]",
        ),
        (
            f'train.csv"\nsha256 = "{SHA}"',
            'train.csv"',
            "a file with a 'url' needs a 'sha256' or a 'git_sha1'",
        ),
        (
            f'train.csv"\nsha256 = "{SHA}"',
            f'train.csv"\ngit_sha1 = "{SHA}"',
            "'splits.source.git_sha1': String should match pattern",
        ),
        ('path = "film/train.csv"', "", "a file with a 'url' needs a 'path'"),
        ("[splits.query]", "[splits.quary]", "'splits.quary"),
        ("title =", "title == 3\n#", "not valid TOML"),
        ('kind = "polarity"', "kind = {}", "unknown kind {}"),
        ("[labels]", "[labels]\n[labels]", "not valid TOML"),
    ],
)
def test_a_wrong_task_file_is_refused_with_its_name_and_the_key(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert WHOLE.count(old) >= 1
    with pytest.raises(InputError, match=re.escape(message)) as error:
        read(tmp_path, WHOLE.replace(old, new, 1))
    assert str(error.value).startswith(str(tmp_path / "film.toml"))
    assert "\n" not in str(error.value) or "TOML" in str(error.value)


def test_a_split_without_a_source_or_missing_is_refused(tmp_path: Path) -> None:
    head = WHOLE[: WHOLE.index("[splits.query]")]
    with pytest.raises(InputError, match=r"'splits.query': a split needs a 'path' or a 'hub'"):
        read(tmp_path, f"{head}[splits.query]\nrows = 3\n")
    with pytest.raises(InputError, match=r"\[splits.query\] is missing"):
        read(tmp_path, head)


@pytest.mark.parametrize(
    "path", ["../x.csv", "a/../../x.csv", "/etc/passwd", "C:\\\\x", "a\\\\b", "c:/x", "", "~/../x"]
)
def test_a_path_out_of_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError, match=r"splits\.source\.path': expected a relative path"):
        read(tmp_path, WHOLE.replace("film/train.csv", path, 1))
    with pytest.raises(InputError, match=r"label_file\.path': expected a relative path"):
        read(tmp_path, WHOLE.replace("film/train.labels", path, 1))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: cannot be read: No such file"):
        read_task(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'title = "\xff"')
    with pytest.raises(InputError, match=r"latin\.toml: not valid TOML"):
        read_task(tmp_path / "latin.toml")


def test_near_names_are_given_or_else_all() -> None:
    assert nearest("polarty", ["polarity", "sts"]) == "; did you mean 'polarity'?"
    assert nearest("x", ["b", "a"]) == "; known: a, b"
    assert nearest("x", []) == ""


# The digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("version = 2", "version = 3"),
        ('0 = "bad"', '0 = "poor"'),
        (f'train.csv"\nsha256 = "{SHA}"', f'train.csv"\nsha256 = "{"1" * 64}"'),
        (f'labels"\nsha256 = "{SHA}"', f'labels"\nsha256 = "{"1" * 64}"'),
        (f'labels"\nsha256 = "{SHA}"', f'labels"\nsha256 = "{SHA}"\ngit_sha1 = "{"1" * 40}"'),
        ("rows = 4", "rows = 5"),
        ("a" * 40, "b" * 40),
        ('split = "test"', 'split = "dev"'),
        ('split = "test"', 'split = "test", text = "sentence"'),
        ("k = 8", "k = 9"),
        ("k = 8", "k = 8\nsources_per_query = 7"),
        ("k = 8", "k = 8\nsample_seed = 7"),
        ("k = 8", 'k = 8\nbreakdown = "topic"'),
        ('type = "csv"', 'type = "tsv"'),
        ('type = "csv"', "quoted = false"),
        ('type = "csv"', 'type = "csv"\nheader = ["text", "label"]'),
        ("rows = 4", "rows = 4\ncut = { seed = 1, share = 0.5 }"),
        ("rows = 4", 'rows = 4\nformat = { columns = ["topic", "pair"] }'),
    ],
)
def test_the_digest_changes_with_what_moves_a_number(tmp_path: Path, old: str, new: str) -> None:
    changed = WHOLE.replace("{ bad = 2, good = 2 }", "{}").replace(old, new, 1)
    whole = WHOLE.replace("{ bad = 2, good = 2 }", "{}")
    assert changed != whole
    assert polarity(tmp_path, changed).digest != polarity(tmp_path, whole).digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('title = "Film"', 'title = "Films"'),
        ('"Reviews."', '"Reviews, many."'),
        ('licence = "mit"', 'licence = "apache-2.0"'),
        ('licence = "mit"', 'licence = "mit"\nunseen_of = "other"'),
        ("https://example.org/train.csv", "https://mirror.example.org/train.csv"),
        ("film/train.csv", "elsewhere/train.csv"),
        ("film/train.labels", "elsewhere/train.labels"),
        ('"@misc{x}"', '"@book{y}"'),
        ('homepage = "https://example.org"', ""),
    ],
)
def test_the_digest_stays_with_what_moves_none(tmp_path: Path, old: str, new: str) -> None:
    changed = WHOLE.replace(old, new, 1)
    assert changed != WHOLE
    assert polarity(tmp_path, changed).digest == polarity(tmp_path, WHOLE).digest


def test_the_place_of_the_task_file_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert polarity(tmp_path, WHOLE).digest == polarity(tmp_path / "other", WHOLE).digest


# The registry


def test_folders_and_files_may_be_named_by_text(task_dir: Path) -> None:
    assert load_tasks(str(task_dir)) == load_tasks(task_dir)
    assert load_tasks(str(task_dir / "mini.toml")) == load_tasks(task_dir)
    assert read_task(str(task_dir / "mini.toml")).file == task_dir / "mini.toml"
    access = DataAccess(str(task_dir))
    assert access == DataAccess(task_dir)
    assert DataAccess.from_environment(str(task_dir)).folder == task_dir
    assert load_task("mini", access=access, task_dir=str(task_dir)).counts["sources"] == 24
    with pytest.raises(InputError, match="the data folder none does not exist"):
        DataAccess("none")


def test_a_users_folder_adds_tasks_without_code(task_dir: Path) -> None:
    tasks = load_tasks(task_dir)
    assert tasks["mini"].file == task_dir / "mini.toml"
    assert tasks["mini"].result_name == "MiniPolarityRetrieval"
    assert "mini" not in load_tasks()


@pytest.mark.parametrize(
    ("name", "head", "key", "taken"),
    [
        ("sst2", "", "name", "sst2"),
        ("sst2", 'mteb_name = "MinePolarityRetrieval"', "name", "sst2"),
        ("other", 'mteb_name = "SST2PolarityRetrieval"', "mteb_name", "SST2PolarityRetrieval"),
    ],
)
def test_two_tasks_of_one_name_are_refused_by_the_name_that_is_taken(
    tmp_path: Path, name: str, head: str, key: str, taken: str
) -> None:
    """Not by the name that the new task would have had in mteb, Sst2PolarityRetrieval."""
    write_task(tmp_path, name, head=head)
    says = (
        rf"{name}\.toml: the task 'sst2' \(SST2PolarityRetrieval\) in .*sst2\.toml "
        rf"already has the {key} '{taken}'; choose another `{key}`"
    )
    with pytest.raises(InputError, match=says):
        load_tasks(tmp_path)


def test_a_folder_that_is_none_or_holds_no_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist or is not a folder"):
        load_tasks(tmp_path / "none")
    with pytest.raises(InputError, match=r"contains no \.toml file"):
        load_tasks(tmp_path)


def test_tasks_are_chosen_by_both_names_once_and_in_order() -> None:
    known = load_tasks()
    chosen = choose_tasks(known, names=["sst2", "contrast", "SST2PolarityRetrieval"])
    assert [spec.name for spec in chosen] == ["sst2", "contrast"]


@pytest.mark.parametrize(("name", "near"), [("sst", "sst2"), ("contrasts", "contrast")])
def test_an_unknown_task_is_answered_with_near_ones(name: str, near: str) -> None:
    with pytest.raises(InputError, match=rf"unknown task '{name}'; did you mean .*'{near}'"):
        choose_tasks(load_tasks(), names=[name])


def test_an_unknown_suite_is_answered_with_near_ones() -> None:
    with pytest.raises(InputError, match=r"unknown suite 'polrity'; did you mean 'polarity'\?"):
        choose_tasks(load_tasks(), suite="polrity")


Install = Callable[[str], None]


def test_a_shipped_file_that_changes_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = Path(shutil.copytree(shipped_folder(), tmp_path / "shipped"))
    monkeypatch.setattr(catalogue, "shipped_folder", lambda: shipped)
    first = load_tasks()
    del first["contrast"]  # changes only what the caller got
    file = load_tasks()["contrast"].file
    text = file.read_text(encoding="utf-8")
    file.write_text(re.sub(r"^title = .*$", 'title = "Other"', text, flags=re.M), encoding="utf-8")
    os.utime(file, (1, 1))
    assert load_tasks()["contrast"].title == "Other"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a distribution with an entry point on the path."""

    def put(value: str) -> None:
        site = tmp_path / "site"
        info = site / "more_tasks-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more-tasks\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[polarity_bench.tasks]\nmore = {value}\n")
        monkeypatch.syspath_prepend(str(site))

    return put


@pytest.mark.parametrize("name", ["more_tasks_pkg", "more_tasks_pkg.inner.tasks"])
def test_another_package_adds_tasks(tmp_path: Path, install: Install, name: str) -> None:
    package = tmp_path.joinpath("site", *name.split("."))
    package.mkdir(parents=True)
    for module in (tmp_path / "site" / "more_tasks_pkg", package):
        (module / "__init__.py").write_text("raise SystemExit('looked at, never imported')")
    write_task(package, "foreign")
    install(name)
    assert load_tasks()["foreign"].file == package / "foreign.toml"


@pytest.mark.parametrize("value", ["no_such_package_here", "no_such_package_here.tasks", "json"])
def test_an_entry_point_that_names_no_package_is_left_out_and_named(
    install: Install, value: str
) -> None:
    if value == "json":
        value = "re._parser"
    install(value)
    problem = rf"'{value}', which is no importable package"
    with pytest.warns(InputWarning, match=rf"the tasks of the package 'more-tasks' .* {problem}"):
        assert "sst2" in load_tasks()


@pytest.mark.parametrize(
    ("name", "head", "problem"),
    [
        ("foreign", "titel = 3", "unknown key 'titel'"),
        ("sst2", "", "the task 'sst2' .*sst2.toml already has the name 'sst2'"),
    ],
)
def test_one_broken_package_takes_no_task_of_others_with_it(
    tmp_path: Path, install: Install, name: str, head: str, problem: str
) -> None:
    package = tmp_path / "site" / "more_tasks_pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    write_task(package, "anyway")
    write_task(package, name, head=head)
    install("more_tasks_pkg")
    with pytest.warns(InputWarning, match=rf"package 'more-tasks' are skipped: .*{problem}"):
        tasks = load_tasks()
    assert tasks["sst2"].file.parent.parent == shipped_folder()
    assert "anyway" not in tasks, "whole or not at all"
    message = rf"unknown task 'anyway'; the tasks of the package 'more-tasks' .*: .*{problem}"
    with pytest.raises(InputError, match=f"{message}.*; otherwise: known: arguana,"):
        choose_tasks(tasks, names=["anyway"])
