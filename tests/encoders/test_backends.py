"""Encoders whose transformer another library than torch computes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from polarity_bench.encoders import backends
from polarity_bench.encoders.backends import BACKENDS, PACKAGES
from polarity_bench.encoders.base import Backend, EncoderId
from polarity_bench.encoders.baselines import RandomEncoder
from polarity_bench.encoders.load import EncoderOptions, load_encoder
from polarity_bench.errors import InputError
from polarity_bench.evaluation.many_encoders import load_with_reference

TEXTS = ["the film was good.", "not good", "a bad film and not a very good one"]
OTHERS: list[tuple[Backend, str]] = [
    (backend, dtype) for backend in ("openvino", "onnx") for dtype in BACKENDS[backend]
]


def cosines(folder: Path, backend: Backend, dtype: str) -> np.ndarray:
    missing = [package for package in PACKAGES[backend] if find_spec(package) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}, of the extra `backends`")
    options = EncoderOptions(backend=backend, dtype=dtype)  # type: ignore[arg-type]
    ours, torchs = load_encoder(str(folder), options), load_encoder(str(folder))
    first, second = ours.encode(TEXTS), torchs.encode(TEXTS)
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    found: np.ndarray = (first * second).sum(axis=1) / norms
    return found


@pytest.mark.parametrize(("backend", "dtype"), OTHERS)
def test_vectors_are_those_of_torch(sentence_bert: Path, backend: Backend, dtype: str) -> None:
    least = {"float32": 1 - 1e-6, "bfloat16": 0.999, "int8": 0.9}
    assert cosines(sentence_bert, backend, dtype).min() >= least[dtype]


@pytest.mark.real
@pytest.mark.parametrize("backend", [pytest.param("openvino", marks=pytest.mark.slow), "onnx"])
def test_minilm_in_float32(backend: Backend) -> None:
    assert cosines(Path("minilm"), backend, "float32").min() >= 1 - 1e-6


def test_another_order_of_batches_gives_the_same_vectors(sentence_bert: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, of the extra `backends`")
    pytest.importorskip("onnx", reason="needs onnx, of the extra `backends`")
    options = EncoderOptions(backend="onnx")
    first, second = (load_encoder(str(sentence_bert), options) for _ in range(2))
    once = [first.encode(TEXTS[:1]), first.encode(TEXTS)]
    again = [second.encode(TEXTS), second.encode(TEXTS[:1])]
    assert all(map(np.array_equal, once, reversed(again)))


@pytest.mark.parametrize(("backend", "dtype"), OTHERS)
def test_the_named_reference_is_computed_in_float32_by_torch(
    sentence_bert: Path, backend: Backend, dtype: str
) -> None:
    missing = [package for package in PACKAGES[backend] if find_spec(package) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}, of the extra `backends`")
    options = EncoderOptions(backend=backend, dtype=dtype)  # type: ignore[arg-type]
    name = str(sentence_bert)
    encoder, reference = load_with_reference(name, options, name, print)
    assert (encoder.id.backend, encoder.id.dtype) == (backend, dtype)
    assert reference is not None
    assert reference.id == load_encoder(name).id
    assert isinstance(load_with_reference(name, options, "random", print)[1], RandomEncoder)


def test_the_named_reference_of_an_encoder_in_bfloat16_is_in_float32(sentence_bert: Path) -> None:
    name = str(sentence_bert)
    encoder, reference = load_with_reference(name, EncoderOptions(dtype="bfloat16"), name, print)
    assert reference is not None
    assert (encoder.id.dtype, reference.id) == ("bfloat16", load_encoder(name).id)


def test_the_backend_is_part_of_the_identity(sentence_bert: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, of the extra `backends`")
    pytest.importorskip("onnx", reason="needs onnx, of the extra `backends`")
    torchs = load_encoder(str(sentence_bert)).id
    onnx = load_encoder(str(sentence_bert), EncoderOptions(backend="onnx")).id
    assert "backend" not in torchs.to_dict()
    assert onnx.to_dict()["backend"] == "onnx"
    assert onnx.weights == torchs.weights
    assert onnx.digest != torchs.digest
    assert EncoderId(**onnx.to_dict()) == onnx
    assert onnx.label == f"{torchs.label} (onnx)"


def test_a_graph_that_computes_something_else_is_refused(
    sentence_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, of the extra `backends`")
    pytest.importorskip("onnx", reason="needs onnx, of the extra `backends`")
    compile_as_it_is = backends._compile

    def compile_wrongly(*arguments: object) -> object:
        run = compile_as_it_is(*arguments)  # type: ignore[arg-type]
        return lambda features: run(features) + 1

    monkeypatch.setattr(backends, "_compile", compile_wrongly)
    encoder = load_encoder(str(sentence_bert), EncoderOptions(backend="onnx"))
    for _ in range(2):  # a suite tries again, task by task
        with pytest.raises(InputError, match=r"`backend` onnx: the vectors differ from those of "):
            encoder.encode(TEXTS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dtype": "int8"},
            "`backend` torch cannot compute in `dtype` int8; use `backend` openvino",
        ),
        ({"backend": "onnx", "dtype": "bfloat16"}, "use `backend` torch or openvino"),
        ({"backend": "onxx"}, "unknown `backend` 'onxx'; did you mean 'onnx'?"),
        (
            {"backend": "onnx", "device": "cuda"},
            "`backend` onnx: runs only on the CPU, got `device` 'cuda'",
        ),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as error:
        EncoderOptions(**options)  # type: ignore[arg-type]
    assert message in str(error.value)


def test_a_missing_package_is_named(sentence_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGES, "onnx", ("no_such_runtime",))
    with pytest.raises(InputError, match=r"`backend` onnx needs no_such_runtime; .*backends"):
        load_encoder(str(sentence_bert), EncoderOptions(backend="onnx"))


def test_a_baseline_has_no_backend() -> None:
    with pytest.raises(InputError, match="the encoder 'random' takes no `backend`"):
        load_encoder("random", EncoderOptions(backend="onnx"))
