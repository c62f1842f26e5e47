"""Digests of models, which are part of the identity of an encoder.

A digest covers everything that affects the model's vectors, but not the model's name or location.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from functools import reduce
from importlib.util import resolve_name
from operator import or_
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

BASE_KEY = "polarity_bench"
"""Key in a trained encoder's configuration that names its base encoder."""

_VOLATILE = {"_name_or_path", "architectures", "dtype", "id2label", "label2id"}
_VOLATILE |= {"transformers_version", BASE_KEY}
"""Fields of a configuration that do not affect vectors."""

_SETTLED = {"use_cache": False}
"""Further fields that do not affect vectors, with fixed values for the digest.

Existing digests contain these values, but the defaults depend on the version of transformers.
"""

_VOLATILE_ATTRIBUTES = ("kwargs", "_caches", "name_or_path")
"""Attributes of adapters that do not affect vectors, but depend on the device or the folder."""

_MOST_TOKENS = 10_000_000
"""Number of tokens that a vocabulary may have, forty times as many as that of XLM-R."""

_PACKAGES = {"torch", "transformers", "sentence_transformers", "polarity_bench"}
"""Packages whose source code is not part of the digest, even outside site-packages."""


def digest_of_model(model: SentenceTransformer) -> str:
    """Hash everything that affects a vector: weights, configuration, tokenizer and code.

    The configuration is included because, for example, the weights do not determine the number of
    attention heads. Code from outside installed packages is included too, such as trusted code from
    a hub repository, or a module class in a script.

    Returns:
        16 hexadecimal digits.
    """
    import torch

    sha = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        flat = tensor.detach().cpu().contiguous().flatten()
        sha.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        sha.update(memoryview(flat.view(torch.uint8).numpy()))
    sha.update(_modules_in_words(model).encode())
    for state in (_configurations(model), _tokenizer_state(model.tokenizer)):
        sha.update(json.dumps(state, sort_keys=True, default=str).encode())
    unusual = _unusual(model)
    if unusual:  # Hashing an empty dict would change existing digests.
        sha.update(json.dumps(unusual, sort_keys=True).encode())
    return sha.hexdigest()[:16]


def _modules_in_words(model: SentenceTransformer) -> str:
    """Return `str(model)` with the class names that existing digests contain.

    The name of a model class from this package is replaced by `SentenceTransformer`. Modules of
    this package already have their saved names (see `axis.SAVED_AS`).
    """
    words, cls = str(model), type(model)
    if cls.__module__.partition(".")[0] == "polarity_bench":
        return "SentenceTransformer" + words.removeprefix(cls.__name__)
    return words


def _configurations(model: SentenceTransformer | Sequence[Any]) -> list[Any]:
    """Return the configurations of the modules, without fields that do not affect vectors."""
    configurations: list[Any] = []
    modules: list[Any] = list(model)
    inner = [part for module in modules for part in module.modules() if part is not module]
    for module in [*modules, *(part for part in inner if hasattr(part, "get_config_dict"))]:
        if hasattr(module, "get_config_dict"):
            configurations.append(module.get_config_dict())
        config = getattr(getattr(module, "auto_model", None), "config", None)
        if config is not None:
            settings = config.to_diff_dict()
            fields = {k: v for k, v in settings.items() if k not in _VOLATILE}
            configurations.append(fields | {k: v for k, v in _SETTLED.items() if k in fields})
    return configurations


def _tokenizer_state(tokenizer: Any) -> Any:
    """Return a tokenizer's rules and vocabulary, without settings that calls may change."""
    from sentence_transformers.sentence_transformer.modules.tokenizer import WordTokenizer

    if isinstance(tokenizer, WordTokenizer):  # Some wrap a tokenizer of transformers.
        tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(backend, "to_str"):
        _check_ids(backend.get_vocab())
        state = json.loads(backend.to_str())
        _check_template(state["post_processor"])
        return {k: v for k, v in state.items() if k not in {"truncation", "padding"}}
    if isinstance(tokenizer, WordTokenizer):  # The vocabulary, stop words and lower-casing.
        return [type(tokenizer).__name__, _plain(vars(tokenizer))]
    vocabulary = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else {}
    return [type(tokenizer).__name__, sorted(vocabulary.items())]


def _check_ids(vocabulary: dict[str, int]) -> None:
    """Check the ids of tokens, because a tokenizer that is written needs memory up to the largest.

    Raises:
        ValueError: If an id is too large.
    """
    for token, i in vocabulary.items():
        if i >= _MOST_TOKENS:
            raise ValueError(
                f"the tokenizer gives the token {token!r} the id {i}, but ids must be below "
                f"{_MOST_TOKENS:,}; restore the file of the tokenizer"
            )


def _check_template(processor: Any) -> None:
    """Check that a tokenizer repeats no text, because memory then grows exponentially with it.

    Raises:
        ValueError: If a template contains the text several times.
    """
    for each in (processor or {}).get("processors", [processor or {}]):
        n = sum("Sequence" in piece for piece in each.get("single", []))
        if n > 1:
            raise ValueError(
                f"the template of the tokenizer contains each text {n} times, expected once; "
                "restore the file of the tokenizer"
            )


def _plain(value: Any) -> Any:
    """Return a value as JSON, without the parts of dicts that are not JSON values."""
    if isinstance(value, dict):
        fields = {str(name): _plain(part) for name, part in value.items()}
        return {name: part for name, part in fields.items() if part is not None}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value if isinstance(value, str | int | float) else None


def _unusual(model: SentenceTransformer) -> dict[str, Any]:
    """Return the non-default settings that affect vectors: tokenizer sides, truncation and code."""
    unusual: dict[str, Any] = _sides(model.tokenizer)
    # Only the tokenizers of static models have this setting; no call resets it.
    if getattr(model.tokenizer, "truncation", None):
        unusual["truncation"] = model.tokenizer.truncation
    # Without the attention mask, padding becomes part of a text.
    inputs = getattr(model.tokenizer, "model_input_names", None)
    if inputs != getattr(type(model.tokenizer), "model_input_names", None):
        unusual["model_input_names"] = inputs
    if template := getattr(model.tokenizer, "chat_template", None):
        unusual["chat_template"] = template
    if adapters := _settings_of_adapters(model):
        unusual["adapters"] = adapters
    if others := _other_tokenizers(model):
        unusual["tokenizers"] = others
    if model.truncate_dim is not None:
        unusual["truncate_dim"] = model.truncate_dim
    if code := _foreign_code(model):
        saved = model.state_dict()
        unsaved = {n: b.tolist() for n, b in model.named_buffers() if n not in saved}
        unusual |= {"code": code, "buffers": unsaved}
    return unusual


def _other_tokenizers(model: SentenceTransformer) -> list[Any]:
    """Return the states of tokenizers that differ from the model's, as in a router."""
    parts = [getattr(module, "tokenizer", None) for module in model.modules()]
    others = {id(part): part for part in parts if part is not None and part is not model.tokenizer}
    if not others:
        return []
    own = _tokenizer_state(model.tokenizer), _sides(model.tokenizer)
    states = [(_tokenizer_state(part), _sides(part)) for part in others.values()]
    # Hashing empty dicts would change existing digests.
    return [[*state] if state[1] else state[0] for state in states if state != own]


def _sides(tokenizer: Any) -> dict[str, str]:
    """Return the sides on which a tokenizer pads and truncates, unless they are the right side."""
    sides = {
        side: getattr(tokenizer, side, "right") for side in ("padding_side", "truncation_side")
    }
    return {side: value for side, value in sides.items() if value != "right"}


def _settings_of_adapters(model: SentenceTransformer) -> dict[str, Any]:
    """Return the attributes of the modules of peft, by name.

    Neither the weights nor a configuration contain the scaling of an adapter, or which of several
    adapters is active.
    """
    from torch.nn import Module

    common = {*vars(Module()), *_VOLATILE_ATTRIBUTES}
    return {
        name: _plain({k: v for k, v in vars(module).items() if k not in common})
        for name, module in model.named_modules()
        if type(module).__module__.partition(".")[0] == "peft"
    }


def _foreign_code(model: SentenceTransformer) -> list[str]:
    """Return the source of model code that is not from an installed package.

    The list contains the full source of each Python module that defines such code, and of the
    modules that it imports, without installed packages. A class defined inside a function has an
    ambiguous source, and a class from an interactive session has none. For such classes the list
    also contains the bytecode, which depends on the Python version.
    """
    classes = {cls for module in model.modules() for cls in type(module).__mro__}
    classes = {cls for cls in classes if _is_foreign(cls.__module__)}
    sources: dict[str, str] = {}
    pending = {cls.__module__ for cls in classes}
    while pending:
        name = pending.pop()
        sources[name] = _source(sys.modules[name])
        pending |= {m for m in _imported(name, sources[name]) if _is_foreign(m)} - set(sources)
    ambiguous = [c for c in classes if "<locals>" in c.__qualname__ or not sources[c.__module__]]
    return sorted({*sources.values(), *map(_compiled, ambiguous)})


def _is_foreign(name: str) -> bool:
    """Return whether a loaded Python module is from outside installed packages."""
    if name not in sys.modules:
        return False
    top = name.partition(".")[0]
    file = getattr(sys.modules[name], "__file__", None) or ""
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return not installed and top not in _PACKAGES and top not in sys.stdlib_module_names


def _source(module: ModuleType) -> str:
    """Return a module's source, or an empty string in an interactive session."""
    try:
        return inspect.getsource(module)
    except (OSError, TypeError):
        return ""


def _imported(name: str, source: str) -> Iterator[str]:
    """Yield the names of the modules that a module's source may import.

    In `from a import b`, b may be a module or a value. Both `a` and `a.b` are therefore yielded.
    """
    package = getattr(sys.modules[name], "__package__", None) or ""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = "." * node.level + (node.module or "")
            home = resolve_name(home, package) if node.level else home
            yield from (home, *(f"{home}.{alias.name}" for alias in node.names))


def _compiled(cls: type) -> str:
    """Return the bytecode of a class's methods, with the functions and values in their closures."""
    functions = [value for value in vars(cls).values() if isinstance(value, FunctionType)]
    values = []
    for function in functions:  # The loop extends the list, so closures are followed too.
        for cell in function.__closure__ or ():
            value = cell.cell_contents
            if isinstance(value, FunctionType) and value not in functions:
                functions.append(value)
            elif isinstance(value, str | int | float | bool | None):
                values.append(repr(value))
    return str([cls.__qualname__, values, [_instructions(f.__code__) for f in functions]])


def _instructions(code: CodeType) -> str:
    """Return bytecode, names and constants as text, including nested functions."""
    constants = [_instructions(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return str([code.co_code.hex(), code.co_names, constants])


def traits_of_model(model: SentenceTransformer) -> dict[str, Any]:
    """Return everything that the digest covers, with tensor shapes instead of tensor values."""
    modules: list[Any] = list(model)
    settings: dict[str, Any] = {
        f"{i}_{type(module).__name__}": reduce(or_, _configurations([module]), {})
        for i, module in enumerate(modules)
    }
    return {
        "modules": [type(getattr(module, "auto_model", module)).__name__ for module in modules],
        **settings,
        "tokenizer": _tokenizer_state(model.tokenizer),
        **_unusual(model),
        "tensors": {name: list(tensor.shape) for name, tensor in model.state_dict().items()},
    }
