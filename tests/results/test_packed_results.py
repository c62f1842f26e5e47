"""Packed results: every file comes back byte for byte, and paths stay what they were."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from standins.board import placed

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.files import json_bytes
from polarity_bench.results import packed_results
from polarity_bench.results.packed_results import (
    PACKED,
    is_stored,
    pack,
    paths_by_encoder,
    read_stored,
    result_paths,
    stored_bytes,
)
from polarity_bench.results.result_files import (
    Result,
    has_values_per_query,
    read_result,
    read_results,
    write_result,
)

BASE = EncoderId("org/base", "0")
ONE, TWO = EncoderId("one", "1"), EncoderId("zwei \u2028 'é'", "2")
RESULTS = [
    placed(TWO, "sst2", 0.1 + 0.2, 1e-17, reference=BASE),
    placed(ONE, "sst2", 0.7, 0.4),
    placed(ONE, "mr", 0.6, float("nan")),
    placed(ONE, "mr", 0.6, 0.4, ks=(4,)),
]


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its path, without locks."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    for result in RESULTS:
        write_result(result, folder)
    return folder


def read_again(folder: Path) -> str:
    return repr([(result.path, result) for result in read_results(folder)])


def test_every_file_comes_back_byte_for_byte(results: Path) -> None:
    before = files(results)
    read = read_again(results)
    assert len(before) == 3 * len(RESULTS) - 1, "two results share a folder"
    pack(results)
    assert files(results).keys() == {PACKED}
    for name, content in before.items():
        assert is_stored(results / name)
        assert stored_bytes(results / name) == content
        assert read_stored(results / name) == json.loads(content)
    assert read_again(results) == read
    assert read_again(results.parent) == read


def test_a_line_is_a_result_and_lines_are_sorted(results: Path) -> None:
    paths = [path.relative_to(results).as_posix() for path in result_paths(results)]
    shutil.copytree(results, again := results.with_name("again"))
    shutil.rmtree(again / "one")
    pack(results)
    content = (results / PACKED).read_bytes()
    lines = [json.loads(line) for line in content.removesuffix(b"\n").split(b"\n")]
    assert [line["path"] for line in lines] == sorted(paths)
    pack(results)
    assert (results / PACKED).read_bytes() == content
    pack(again)
    for result in RESULTS[1:]:
        write_result(result, again)
    pack(again)
    assert (again / PACKED).read_bytes() == content


def test_a_file_on_disk_takes_precedence_until_it_is_packed(results: Path) -> None:
    pack(results)
    (path,) = [
        path for path in result_paths(results) if path.name == "SST2.json" and "one" in path.parts
    ]
    assert not path.exists()
    newer = placed(ONE, "sst2", 0.8, 0.4)
    assert write_result(newer, results) == path
    assert read_result(path).main == newer.main
    assert len(result_paths(results)) == len(RESULTS)
    pack(results)
    assert not path.exists()
    assert read_result(path).main == newer.main
    assert paths_by_encoder(results).keys() == {
        path.relative_to(results).parts[0] for path in result_paths(results)
    }


def test_values_per_query_stay_on_disk(tmp_path: Path) -> None:
    arrays = {"polarity_at_16": np.ones(8)}
    result = replace(placed(ONE, "sst2", 1.0, 0.4), arrays=arrays)
    path = write_result(result, tmp_path / "results")
    pack(tmp_path / "results")
    assert [file.name for file in path.parent.iterdir()] == ["SST2.queries.safetensors"]
    assert has_values_per_query(read_result(path))


def test_a_kill_before_the_files_are_removed_loses_nothing(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, read = files(results), read_again(results)
    removed: list[Path] = []

    def killed(folder: Path, file: Path) -> None:
        if len(removed) == 2:
            raise KeyboardInterrupt
        removed.append(file)
        file.unlink()

    with monkeypatch.context() as patch:
        patch.setattr(packed_results, "_remove_below", killed)
        with pytest.raises(KeyboardInterrupt):
            pack(results)
    assert len(files(results)) == len(before) + 1 - 2
    assert read_again(results) == read
    pack(results)
    assert files(results).keys() == {PACKED}
    assert {name: stored_bytes(results / name) for name in before} == before


def cut(text: str) -> str:
    return text[:-200]


def twice(text: str) -> str:
    return text + text.splitlines(keepends=True)[0]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            cut,
            r"results\.jsonl, line 4: the line is damaged .*\(JSONDecode.*; restore the file",
        ),
        (twice, r"line 5: the line is damaged .*\(a second line of one/"),
        (lambda _: "<<<<<<< HEAD\n", r"line 1: the line is damaged .*\(JSONDecodeError"),
        (
            lambda _: '{"path": "a.json"}\n',
            r"line 1: the line is damaged .*\(KeyError..provenance",
        ),
        (lambda _: "[]\n", r"line 1: the line is damaged .*\(TypeError"),
    ],
)
def test_a_damaged_line_is_refused(
    results: Path, damage: Callable[[str], str], message: str
) -> None:
    pack(results)
    file = results / PACKED
    file.write_text(damage(file.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        list(read_results(results))
    content = file.read_bytes()
    with pytest.raises(InputError, match=message):
        pack(results)
    assert file.read_bytes() == content


def test_a_deeply_nested_line_is_refused(results: Path) -> None:
    pack(results)
    with (results / PACKED).open("a", encoding="utf-8") as file:
        file.write("[" * 100_000)
    with pytest.raises(InputError, match=r"line 5: the line is damaged .*RecursionError"):
        list(read_results(results))


def test_an_edited_line_is_refused(results: Path) -> None:
    pack(results)
    text = (results / PACKED).read_text(encoding="utf-8")
    (results / PACKED).write_text(text.replace('"polarity_at_16": 0.7', '"polarity_at_16": 0.8'))
    with pytest.raises(InputError, match=r"SST2\.json: the scores were edited or are incomplete"):
        list(read_results(results))


@pytest.mark.parametrize("content", [b'{"scores": 1}', b'{\n  "name": "\\ud800"\n}\n', b"{}"])
def test_what_could_not_be_restored_is_not_packed(results: Path, content: bytes) -> None:
    (path,) = [
        path for path in result_paths(results) if path.name == "SST2.json" and "one" in path.parts
    ]
    path.with_name("model_meta.json").write_bytes(content)
    before = files(results)
    with pytest.raises(InputError, match=r"model_meta\.json: the file cannot be packed, because"):
        pack(results)
    assert files(results) == before


def test_files_behind_links_stay(results: Path, tmp_path: Path) -> None:
    linking = tmp_path / "linking"
    linking.mkdir()
    (linking / "one").symlink_to(results / "one")
    before = files(results)
    pack(linking)
    assert files(results) == before
    assert len(json.loads(f"[{','.join((linking / PACKED).read_text().splitlines())}]")) == 3
    (linking / "one").unlink()
    assert len(list(read_results(linking))) == 3


def test_results_of_another_program_above_the_folder_are_not_read(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (results.parent / PACKED).write_text('{"accuracy": 0.5}\n')
    (results.parent.parent / PACKED).write_text("half")
    pack(results)
    monkeypatch.chdir(results)
    assert len(list(read_results(Path()))) == len(RESULTS)
    assert not is_stored(results / "one" / "0" / "experiments" / "k_4" / "SST2.json")
    with pytest.raises(InputError, match=r"cannot be read: No such file"):
        read_result(results / "one" / "0" / "SST2.json")


def test_a_result_that_is_no_encoders_stays(results: Path) -> None:
    """It could not be found again by its path."""
    path = next(read_results(results)).path
    odd = results / "odd" / path.name
    odd.parent.mkdir()
    for file in (path, path.with_suffix(".provenance.json")):
        shutil.copy(file, odd.with_name(file.name))
    pack(results)
    assert files(results / "odd").keys() == {odd.name, f"{odd.stem}.provenance.json"}
    assert read_result(odd).result_name == odd.stem


def test_the_bytes_are_those_of_json(results: Path) -> None:
    """An independent reading: each line restores its files by the rule that the module states."""
    before = files(results)
    pack(results)
    restored: dict[str, bytes] = {}
    for text in (results / PACKED).read_text(encoding="utf-8").split("\n")[:-1]:
        line = json.loads(text)
        folder, _, name = line["path"].rpartition("/")
        restored[line["path"]] = json_bytes(line["scores"])
        restored[line["path"].removesuffix("json") + "provenance.json"] = json_bytes(
            line["provenance"]
        )
        restored[f"{folder}/model_meta.json"] = json_bytes(line["model_meta"])
        assert name
    assert restored == before


def test_an_unpacked_folder_needs_no_packed_results(tmp_path: Path) -> None:
    assert result_paths(tmp_path / "nowhere") == []
    assert paths_by_encoder(tmp_path / "nowhere") == {}
    result: Result = placed(ONE, "sst2", 0.7, 0.4)
    path = write_result(result, tmp_path)
    assert result_paths(tmp_path) == [path]
    assert paths_by_encoder(tmp_path) == {"one": [path]}
