"""The program that measures two dials in one index."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize

from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.axis import Axis
from polarity_bench.encoders.load import load_encoder
from polarity_bench.errors import InputError


def dial(base: Path, folder: Path, *, changed: bool = False) -> Any:
    model = SentenceTransformer(str(base), device="cpu")
    if changed:
        with torch.no_grad():
            next(model.parameters()).mul_(2)
    for module in (Normalize(), Axis(["bad", "good"], 32).eval()):
        model.append(module)
    model.save_pretrained(str(folder), create_model_card=False)
    return load_encoder(str(folder))


def test_dials_of_two_bases_are_refused(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    check_bases = import_module("cross_talk").check_bases
    one, same = (dial(tiny_model, tmp_path / name) for name in ("one", "same"))
    other = dial(tiny_model, tmp_path / "other", changed=True)
    check_bases([one, same], Embedder())
    with pytest.raises(InputError, match="the dials one and other have different bases"):
        check_bases([one, other], Embedder())
