"""Data inside public archives: brought once from a server on loopback, checked, and cleaned up."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from standins import Server, Workshop, serve_files

from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError
from polarity_bench.files import cache_folder
from polarity_bench.tasks.catalogue import read_task
from polarity_bench.tasks.types.base import Settings
from polarity_bench.tasks.types.transfer import TransferSpec, TransferTask

ONLINE = DataAccess()


@pytest.fixture
def server() -> Iterator[Server]:
    with serve_files() as server:
        yield server


def zipped(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def tarred(files: Mapping[str, bytes], mode: str = "w") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def gzipped(files: Mapping[str, bytes]) -> bytes:
    return tarred(files, "w:gz")


Pack = Callable[[Mapping[str, bytes]], bytes]
PACKS: dict[str, Pack] = {"data.zip": zipped, "data.tar": tarred, "data.tar.gz": gzipped}
MEMBERS = ("top/senteval/MR/rt.pos", "top/senteval/MR/rt.neg")


def remote(folder: Path, url: str) -> tuple[TransferSpec, dict[str, bytes]]:
    """A task whose files are in no folder, and what its archive should hold."""
    workshop = Workshop(folder)
    spec = workshop.labelled_lines()
    text = spec.file.read_text()
    head, files = text.split("[files", 1)
    archive = f'[archive]\nurl = "{url}"\nstrip = "downstream/"\n'
    spec.file.write_text(f"{head}{archive}[files{files}")
    again = read_task(spec.file)
    assert isinstance(again, TransferSpec)
    content = {}
    for member, reference in zip(MEMBERS, again.references(), strict=True):
        path = workshop.data / str(reference.path)
        content[member] = path.read_bytes()
        path.unlink()
    return again, content


def load(spec: TransferSpec, access: DataAccess) -> TransferTask:
    return spec.load(access, Settings())


def kept(below: str = "") -> list[str]:
    folder = cache_folder() / below
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", PACKS)
def test_members_are_found_by_the_end_of_their_path(
    name: str, tmp_path: Path, server: Server
) -> None:
    spec, content = remote(tmp_path, f"{server.url}/{name}")
    decoys = {"top/README": b"of no use", "senteval/other-MR/rt.pos": b"not this one"}
    server.files[f"/{name}"] = PACKS[name](decoys | content)
    rows = load(spec, ONLINE)
    assert len(rows.parts["all"]) == 40
    assert server.requests == [f"/{name}"]  # one archive, two members
    assert kept("data") == ["rt.neg", "rt.pos"]
    assert load(spec, DataAccess(offline=True)).digest == rows.digest
    assert server.requests == [f"/{name}"]


@pytest.mark.parametrize("prefix", ["", "./"])
def test_members_may_lie_at_the_top(prefix: str, tmp_path: Path, server: Server) -> None:
    spec, content = remote(tmp_path, f"{server.url}/data.tar")
    top = {f"{prefix}MR/{Path(name).name}": text for name, text in content.items()}
    server.files["/data.tar"] = tarred(top)
    assert load(spec, ONLINE).parts["all"]


def test_an_archive_that_is_here_serves_offline(tmp_path: Path, server: Server) -> None:
    spec, content = remote(tmp_path, f"{server.url}/data.tar")
    server.files["/data.tar"] = tarred(content)
    load(spec, ONLINE)
    for path in (cache_folder() / "data").rglob("rt.*"):
        path.unlink()
    assert load(spec, DataAccess(offline=True)).parts["all"]
    assert len(server.requests) == 1


def bad_archives() -> dict[str, tuple[str, Callable[[dict[str, bytes]], bytes | None], str]]:
    def changed(files: dict[str, bytes]) -> dict[str, bytes]:
        return {**files, MEMBERS[0]: files[MEMBERS[0]][:-9]}

    def damaged(packed: bytes) -> bytes:
        middle = len(packed) // 3
        return packed[:middle] + bytes(40) + packed[middle + 40 :]

    return {
        "404": ("data.zip", lambda _: None, "404"),
        "a page instead": ("data.tar.gz", lambda _: b"<html>please log in</html>", "could not be"),
        "empty": ("data.tar", lambda _: b"", "empty"),
        "half a zip": ("data.zip", lambda f: zipped(f)[:-60], "could not be"),
        "half a gzip": ("data.tar.gz", lambda f: gzipped(f)[:-200], "ended|unexpected end"),
        "a damaged zip": ("data.zip", lambda f: damaged(zipped(f)), "."),
        "no such member": (
            "data.zip",
            lambda _: zipped({"MR/a": b""}),
            "the archive does not contain MR/rt.pos",
        ),
        "another text": (
            "data.tar",
            lambda f: tarred(changed(f)),
            r"MR/rt\.pos: expected sha256 \w{12}…, got \w{12}…",
        ),
    }


@pytest.mark.parametrize("name", bad_archives())
def test_a_bad_archive_ends_with_one_message_and_leaves_nothing(
    name: str, tmp_path: Path, server: Server
) -> None:
    file, make, message = bad_archives()[name]
    url = f"{server.url}/{file}"
    spec, content = remote(tmp_path, url)
    packed = make(content)
    if packed is not None:
        server.files[f"/{file}"] = packed
    with pytest.raises(InputError, match=message) as caught:
        load(spec, ONLINE)
    said = str(caught.value)
    assert said.startswith("little-mr: downstream/MR/rt.pos is not on this machine and downl")
    assert url in said
    assert said.endswith(
        "To use a copy, put downstream/MR/rt.pos and downstream/MR/rt.neg into a folder and set "
        "`data_dir` or POLARITY_BENCH_DATA to this folder"
    )
    assert "\n" not in said
    assert said.count("is not on this machine") == 1
    assert kept() == []

    server.files[f"/{file}"] = PACKS[file](content)
    assert load(spec, ONLINE).parts["all"]  # a mended address needs no cleaning up


def test_offline_refuses_and_asks_nobody(tmp_path: Path, server: Server) -> None:
    spec, _ = remote(tmp_path, f"{server.url}/data.zip")
    with pytest.raises(InputError, match=rf"forbids downloading {server.url}/data\.zip"):
        load(spec, DataAccess(offline=True))
    assert server.requests == []
    assert kept() == []


def test_a_file_of_the_users_is_taken_before_the_archive(tmp_path: Path, server: Server) -> None:
    spec, content = remote(tmp_path, f"{server.url}/data.zip")
    folder = tmp_path / "mine" / "SentEval" / "data" / "downstream" / "MR"
    folder.mkdir(parents=True)
    for name, text in content.items():
        (folder / Path(name).name).write_bytes(text)
    assert load(spec, DataAccess(tmp_path / "mine")).parts["all"]
    assert server.requests == []
