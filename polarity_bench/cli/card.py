"""`polarity-bench card`: results in an encoder's model card, in the format of the hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from polarity_bench.cli.options import TEXT_OPTIONS, TRUST_OPTIONS, VECTOR_OPTIONS, TaskDir, Weight
from polarity_bench.cli.output import AsJson, print_json, remark
from polarity_bench.encoders.load import EncoderOptions
from polarity_bench.errors import InputError, reworded

if TYPE_CHECKING:
    from polarity_bench.encoders.base import EncoderId
    from polarity_bench.integrations.hub_card import CardScore
    from polarity_bench.results.result_files import Result

_CARD = "README.md"
_FILE = Path(".eval_results", "polarity-bench.yaml")


def card(
    *,
    run: Annotated[Path, "Folder of the encoder.", "RUN"],
    results: Annotated[Path, "Folder with the results of this encoder."] = Path("results"),
    board: Annotated[
        str | None, "URL to name as the source of the results [default: the project]."
    ] = None,
    weighting: Weight = "linear",
    encoder_flags: Annotated[
        EncoderOptions, (*TEXT_OPTIONS, *VECTOR_OPTIONS, "dtype", "backend", *TRUST_OPTIONS)
    ],
    strength: Annotated[
        float | None, "Weight of the polarity axis in the results [default: the encoder's own]."
    ] = None,
    task_dir: TaskDir = None,
    dry_run: Annotated[bool, "Print the new card, but do not write any file."] = False,
    as_json: AsJson = False,
) -> None:
    """Write an encoder's results to its model card.

    Scores are written in percent to the `model-index` of README.md and to the file
    .eval_results/polarity-bench.yaml. The rest of the card does not change. Give the same prompt,
    token limit, dtype and options of the vectors as to `run`.
    """
    from polarity_bench.encoders.load import load_encoder
    from polarity_bench.encoders.steered import at_strength
    from polarity_bench.files import write_atomically
    from polarity_bench.integrations import hub_card
    from polarity_bench.tasks.catalogue import load_tasks
    from polarity_bench.training.model_card import DataSet

    if not run.is_dir():
        raise InputError(f"{run}: no such folder; name the folder of an encoder")
    url = hub_card.HOMEPAGE if board is None else board
    if not url.startswith(("https://", "http://")) or any(c.isspace() for c in url):
        raise InputError(f"`board`: expected a URL, https://..., got {url!r}")
    before, name = _read(run / _CARD), run.resolve().name
    held = _read(run / _FILE)
    if held is not None and not hub_card.is_own_file(held):
        raise InputError(
            f"{run / _FILE}: the file has entries from another program, which would be lost; "
            "rename the file"
        )
    options = replace(encoder_flags, device="cpu")
    # The path is absolute, because `load_encoder` reads `random` as the name of a baseline.
    encoder = load_encoder(str(run.absolute()), options)
    encoder = encoder if strength is None else at_strength(encoder, strength)
    stored, specs = _results_of(encoder.id, results), load_tasks(task_dir)
    # The card names the revision of the data in the task file, so both must be of one version.
    old = {r.path: r for r in stored if r.task in specs and r.key.task != specs[r.task].digest}
    own = [result for result in stored if result.path not in old]
    if old:
        names = ", ".join(sorted({result.task for result in old.values()}))
        why = f"results of {names} from before the task changed; evaluate it again"
        if not own:
            raise InputError(f"`results` {results}: {name}: there are only {why}")
        remark(f"left out: {why}")
    data_sets = {task: DataSet.of(spec) for task, spec in specs.items()}
    with reworded(f"`results` {results}: {name}: "):
        found = hub_card.select_scores(own, data_sets, weighting)
    if n_cut := sum(result.limit is not None for result in own):
        remark(f"left out: {n_cut} of {len(own)} results, because they have a `limit`")
    entries = hub_card.model_index(found, url)
    tasks = {each.result.task for each in found}
    with reworded(f"{run / _CARD}: ", "; the file was not changed"):
        card = before or hub_card.new_card(name, (run / "modules.json").is_file())
        after = hub_card.update_card(card, name, entries, tasks)
    new = {_CARD: (before, after), str(_FILE): (held, hub_card.eval_results(found, url))}
    changed = [file for file, (old, text) in new.items() if old != text]
    if not dry_run:
        for file in changed:
            write_atomically(run / file, new[file][1].encode())
    if as_json:
        scores = _as_json(run, encoder.id, found, changed, dry_run)
        print_json(scores | ({"card": after} if dry_run else {}))
    elif dry_run:
        print(after, end="")
    done = "would be written" if dry_run else "written"
    for file in new:
        remark(f"{run / file}: {done if file in changed else 'unchanged'}")


def _read(path: Path) -> str | None:
    """Read a text file without changing its line ends; return None if the file does not exist."""
    from polarity_bench.files import input_errors

    if not path.exists():
        return None
    with (
        reworded(f"{path}: not UTF-8: ", "; the file was not changed", UnicodeDecodeError),
        input_errors(f"{path}: cannot be read"),
    ):
        return path.read_bytes().decode()


def _results_of(encoder: EncoderId, folder: Path) -> Sequence[Result]:
    """Return the stored results of an encoder.

    Raises:
        InputError: If the folder does not exist or has no results of the encoder. The message names
            results of the same weights or of the same name.
    """
    from polarity_bench.results.result_files import read_results

    if not folder.is_dir():
        raise InputError(f"`results` {folder}: no such folder; run `polarity-bench run` first")
    results = list(read_results(folder))
    own = [result for result in results if result.key.encoder.digest == encoder.digest]
    if own:
        return own
    others = {result.key.encoder.digest: result.key.encoder for result in results}
    alike = [each for each in others.values() if each.weights == encoder.weights]
    named = [each for each in others.values() if each.name == encoder.name]
    why = f"the folder has results of {len(others)} other encoders"
    if alike:
        fed = "; ".join(f"{each.label}, up to {each.max_tokens} tokens" for each in alike)
        why = (
            f"the folder has results of the same weights with other options ({fed}); give the same "
            "options as to `polarity-bench run`"
        )
    elif named:
        digests = ", ".join(each.digest for each in named)
        why = (
            f"the results of {encoder.name} have another digest ({digests}): the encoder was "
            "loaded with another `dtype`, or has changed since; give the same `dtype`, or evaluate "
            "it again"
        )
    raise InputError(f"`results` {folder}: no results of {encoder.label} ({encoder.digest}): {why}")


def _as_json(
    run: Path, encoder: EncoderId, found: Sequence[CardScore], changed: Sequence[str], dry_run: bool
) -> dict[str, Any]:
    return {
        "unit": "percent",
        "encoder": encoder.name,
        "encoder_digest": encoder.digest,
        "files": [run / _CARD, run / _FILE],
        "changed": [run / file for file in changed],
        "dry_run": dry_run,
        "scores": [
            {
                "task": each.result.task,
                "settings": each.result.settings,
                "score": str(each.key),
                "value": each.percent,
            }
            for each in found
        ],
    }
