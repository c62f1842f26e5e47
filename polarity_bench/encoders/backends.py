"""Backends: the forward pass of a transformer by OpenVINO or ONNX Runtime instead of torch.

On a CPU, both are faster than torch in float32, and int8 needs one of them. The transformer is
traced once, at the first batch, and the traced graph accepts any batch size and length. The model
itself still does tokenization, pooling and all later steps. The extra `backends` installs the
packages. The backends of sentence-transformers are not used, because their packages are not
compatible with the version of transformers that this package needs.
"""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polarity_bench.encoders.base import Backend, Dtype
from polarity_bench.errors import InputError, check_installed

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor

BACKENDS: dict[Backend, tuple[Dtype, ...]] = {
    "torch": ("float32", "float16", "bfloat16"),
    "openvino": ("float32", "bfloat16", "int8"),
    "onnx": ("float32", "int8"),
}
"""Precisions in which each backend can compute."""

PACKAGES: dict[Backend, tuple[str, ...]] = {
    "torch": (),
    "openvino": ("openvino", "nncf"),
    "onnx": ("onnxruntime", "onnx"),
}
"""Packages that a backend needs."""

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_LEAST_COSINE = {"float32": 1 - 1e-6, "bfloat16": 0.99, "int8": 0.8}
"""Minimum cosine between a backend's and torch's mean vectors; a wrong trace has a lower cosine."""

_SENTENCES = (
    "Good.",
    "What a waste of an evening.",
    "The room was clean, quiet and close to the station.",
    "I have waited three weeks for a reply, and nobody seems to care.",
    "How kind of them to dig up the road on the one morning when I had to catch a flight.",
    "The committee meets on Thursdays at nine and publishes its minutes a week later.",
    "She reads two newspapers before breakfast.",
    "The film is slow to begin with, but the score alone would be worth the price of the ticket.",
    "Is there a train back after midnight?",
    "Water boils at a lower temperature on a mountain, because the pressure of the air is lower.",
    "never again",
    "In 1987 the bridge carried 12,400 vehicles a day; by 2019 it carried 38,000, twice as many.",
)
"""Texts of many lengths, used to calibrate activations for int8.

They are not part of an encoder's identity, so they must not change.
"""

Run = Callable[[Mapping[str, Any]], Any]


def use_backend(model: SentenceTransformer, backend: Backend, dtype: Dtype, name: str) -> None:
    """Use a backend for the forward pass of a model's transformer.

    Args:
        model: The model, on the CPU, with weights in float32; it is changed in place.
        backend: The backend; `torch` changes nothing.
        dtype: Precision to compute in.
        name: The encoder, for messages.

    Raises:
        InputError: If a package is missing, or the model's first module is not a transformer. The
            first batch raises this error if the backend's vectors differ from torch's.
    """
    if backend == "torch":
        return
    check_installed(f"`backend` {backend}", *PACKAGES[backend], extra="backends")
    transformer: Any = getattr(model[0], "auto_model", None)
    if transformer is None:
        raise InputError(f"the encoder {name!r} is not a transformer; remove the option `backend`")
    forward = transformer.forward
    run: Run | None = None
    is_checked = False

    def run_backend(**features: Any) -> dict[str, Tensor]:
        nonlocal run, is_checked
        if run is None:
            with _quietly():
                run = _compile(TracedTransformer(model, forward), backend, dtype)
        if not is_checked:  # A suite tries again after an error, so each attempt checks.
            _check(run, model, forward, f"the encoder {name!r}: `backend` {backend}", dtype)
            is_checked = True
        return {"last_hidden_state": run(features)}

    transformer.forward = run_backend


def _compile(traced: Any, backend: Backend, dtype: Dtype) -> Run:
    return (_with_openvino if backend == "openvino" else _with_onnx)(traced, dtype)


class TracedTransformer:
    """A transformer to trace: its module, the names of its inputs and examples of them."""

    def __init__(self, model: SentenceTransformer, forward: Callable[..., Any]) -> None:
        import torch

        self.names = [name for name in _INPUTS if name in model.preprocess(["a"])]
        names = self.names

        class Module(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.transformer = model[0].auto_model

            def forward(self, *inputs: Tensor) -> Tensor:
                features = dict(zip(names, inputs, strict=True))
                hidden: Tensor = forward(**features, return_dict=True)["last_hidden_state"]
                return hidden

        self.module = Module().eval()
        self.examples = [self.features(model.preprocess([text])) for text in _SENTENCES]
        self.example = tuple(
            torch.from_numpy(array) for array in self.features(model.preprocess(_SENTENCES[:3]))
        )

    def features(self, features: Mapping[str, Any]) -> list[Any]:
        """Return the inputs of one batch as arrays, each (b, t) int64."""
        return [features[name].cpu().numpy() for name in self.names]


def _with_openvino(traced: TracedTransformer, dtype: Dtype) -> Run:
    import openvino
    import torch

    converted = openvino.convert_model(traced.module, example_input=traced.example)
    if dtype == "int8":
        import nncf

        converted = nncf.quantize(
            converted,
            nncf.Dataset(traced.examples),
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=len(traced.examples),
        )
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if dtype == "bfloat16" else "f32",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(converted, "CPU", settings)
    request = compiled.create_infer_request()
    return lambda features: torch.from_numpy(
        request.infer(traced.features(features), share_inputs=True)[0]
    )


def export_onnx(traced: TracedTransformer, file: Path) -> None:
    """Write a transformer as an ONNX graph, from token numbers to the hidden states."""
    import torch

    axes = {name: {0: "batch", 1: "tokens"} for name in [*traced.names, "hidden"]}
    torch.onnx.export(
        traced.module,
        traced.example,
        str(file),
        input_names=traced.names,
        output_names=["hidden"],
        dynamic_axes=axes,
        dynamo=False,
    )


def _with_onnx(traced: TracedTransformer, dtype: Dtype) -> Run:
    import onnxruntime
    import torch
    from onnxruntime.quantization import quantize_dynamic

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        export_onnx(traced, file)
        if dtype == "int8":
            quantize_dynamic(file, file.with_stem("int8"), per_channel=True)
            file = file.with_stem("int8")
        session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )
    names = traced.names
    return lambda features: torch.from_numpy(
        session.run(None, dict(zip(names, traced.features(features), strict=True)))[0]
    )


def _check(run: Run, model: Any, forward: Callable[..., Any], where: str, dtype: Dtype) -> None:
    """Compare mean vectors with torch's, for a batch whose shape differs from the trace's."""
    import torch

    features = model.preprocess(list(_SENTENCES[3:]))
    mask = features["attention_mask"][..., None].float()
    with torch.inference_mode():
        inputs = {name: features[name] for name in _INPUTS if name in features}
        expected = forward(**inputs, return_dict=True)["last_hidden_state"]
    means = [(hidden.double() * mask).sum(dim=1) for hidden in (run(features), expected)]
    least = float(torch.nn.functional.cosine_similarity(*means).min())
    if not least >= _LEAST_COSINE[dtype]:
        raise InputError(
            f"{where}: the vectors differ from those of torch (cosine {least:.6f}); use another "
            "backend"
        )


@contextmanager
def _quietly() -> Iterator[None]:
    """Hide the warnings, log messages and bars of tracing and quantization."""
    from rich import get_console

    console = get_console()
    file, level = console.file, logging.root.manager.disable
    with warnings.catch_warnings(action="ignore"), Path(os.devnull).open("w") as nothing:
        logging.disable(logging.WARNING)
        console.file = nothing
        try:
            yield
        finally:
            logging.disable(level)
            console.file = file
