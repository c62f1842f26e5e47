"""Export of results to a folder that mteb's tools can load.

`mteb.ResultCache(OUTPUT).load_results()` reads the files
`OUTPUT/results/ORG__NAME/DIGEST/TASK.json` and `model_meta.json` in the same folder. mteb's tables
identify models only by name, and average all results of the same name. Therefore exported model
names also state the reference encoder, if it differs from the model, and the settings that differ
from a task's defaults.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.files import (
    check_writable,
    folder_name,
    json_bytes,
    mteb_name,
    write_atomically,
)
from polarity_bench.results.default_settings import by_settings
from polarity_bench.results.packed_results import MODEL_META, stored_bytes
from polarity_bench.results.result_files import read_results


def export_mteb(folder: Path, output: Path) -> list[Path]:
    """Export the results in a folder, with mteb's metadata for each encoder.

    Result files are copied byte by byte. Results with a limit are skipped, and also results with an
    undefined main score, which mteb's tables cannot handle. If several encoders have the same name,
    the first digits of the digest are appended to each name. Other files in the output folder are
    kept.

    Args:
        folder: Folder with results of polarity-bench.
        output: Folder of mteb's cache; it is created if it does not exist.

    Returns:
        The sorted paths of the exported results.

    Raises:
        InputError: If the folder contains no results that mteb can read, a result is damaged, two
            results are of the same encoder and task, or the output folder is not writable.

    Warns:
        InputWarning: If results are skipped.
    """
    if not folder.is_dir():
        raise InputError(
            f"the results folder {folder} does not exist; run `polarity-bench run` first"
        )
    results = list(read_results(folder))
    stored = [each for each in by_settings(results) if not math.isnan(each[0].main.mean)]
    if not stored:
        raise InputError(
            f"{folder}: no results that mteb can read; the folder is empty, or each result has a "
            "`limit` or an undefined main score"
        )
    if n_out := len(results) - len(stored):
        count = "1 result" if n_out == 1 else f"{n_out} results"
        remark = f"{folder}: skipped {count} with a `limit` or an undefined main score"
        warnings.warn(remark, InputWarning, stacklevel=2)
    names = mteb_names(result.key.encoder for result, _ in stored)
    marks = defaultdict(set)
    for result, settings in stored:
        if result.key.reference is not None and not settings:
            marks[result.key.encoder.digest].add(_mark_of(result.key.reference))
    planned: dict[Path, tuple[Path, Any]] = {}
    for result, settings in stored:
        encoder = result.key.encoder
        if settings:
            mark = folder_name(settings)
        elif result.key.reference is not None:
            mark = _mark_of(result.key.reference)
        else:
            # The task uses no reference. If the encoder's other results share one reference, this
            # result gets the same model name, so that mteb shows them in one row.
            mark = "".join(marks[encoder.digest]) if len(marks[encoder.digest]) == 1 else ""
        meta = _model_meta(encoder, "-".join(filter(None, [names[encoder.digest], mark])))
        place = output / "results" / meta.model_name_as_path() / encoder.digest
        target = place / f"{result.result_name}.json"
        if target in planned:
            raise InputError(
                f"{planned[target][0]} and {result.path} are results of the same encoder on the "
                "same task; remove one of them"
            )
        planned[target] = result.path, meta
    for target, (path, meta) in planned.items():
        check_writable(target.parent)
        write_atomically(target, stored_bytes(path))
        write_atomically(target.with_name(MODEL_META), _as_json(meta))
    return sorted(planned)


def _mark_of(reference: EncoderId) -> str:
    """Return the suffix of a model name that states the reference encoder."""
    return f"by-{folder_name(reference.name.rpartition('/')[2])}"


def mteb_names(encoders: Iterable[EncoderId]) -> dict[str, str]:
    """Return unique model names that mteb accepts, keyed by the digest of the encoder.

    Example:
        >>> mteb_names([EncoderId("org/a", "1")])
        {'394fa72d90451dbd': 'org/a'}
    """
    names = {encoder.digest: mteb_name(encoder.name) for encoder in encoders}
    folders = {digest: name.replace("/", "__").casefold() for digest, name in names.items()}
    n_sharing = Counter(folders.values())
    return {d: f"{n}-{d[:8]}" if n_sharing[folders[d]] > 1 else n for d, n in names.items()}


@cache
def _model_meta(encoder: EncoderId, name: str) -> Any:
    """Return mteb's metadata for an encoder under a name."""
    from mteb.models import ModelMeta

    blank: dict[str, Any] = ModelMeta.create_empty().model_dump()
    values = {
        "name": name,
        "revision": encoder.digest,
        "max_tokens": encoder.max_tokens,
        "similarity_fn_name": encoder.compared_by,
        "use_instructions": bool(encoder.prompt),
    }
    return ModelMeta.model_validate(blank | values)


def _as_json(meta: Any) -> bytes:
    return json_bytes(meta.model_dump(mode="json", exclude={"loader"}) | {"loader": None})
