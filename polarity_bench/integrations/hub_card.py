"""Results in a model card, in the forms that the hub reads: `model-index` and `.eval_results`.

`huggingface_hub` writes our entries and checks the complete card. It does not write the rest of
the card, because its round trip would reorder, requote and drop what others wrote. It would also
attribute our scores to another source if both have the same data set. Therefore the rest of the
card is kept byte by byte. Within a `model-index` that also has entries of others, each of their
scalars is kept.

Our entries are those whose source is named `polarity-bench`, and those that training or an
evaluator wrote about the same data set. Scores are in percent, as in mteb's cards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import yaml
from huggingface_hub import EvalResult, EvalResultEntry, ModelCard
from huggingface_hub import eval_result_entries_to_yaml as entries_to_yaml
from huggingface_hub.repocard import REGEX_YAML_BLOCK
from huggingface_hub.repocard_data import eval_results_to_model_index
from yaml.representer import SafeRepresenter

from polarity_bench.errors import InputError
from polarity_bench.render.markdown import escape
from polarity_bench.results.default_settings import by_settings
from polarity_bench.results.result_files import Result, Stored
from polarity_bench.scores import ScoreKey, Weighting
from polarity_bench.tasks.catalogue import KINDS
from polarity_bench.training.history import SCORE_TITLES
from polarity_bench.training.model_card import (
    LIBRARY,
    PIPELINE,
    TRAINED,
    DataSet,
    header,
    shown_keys,
)
from polarity_bench.values import shortest

SOURCE = "polarity-bench"
"""Name of our source, which identifies our entries."""
HOMEPAGE = "https://github.com/polarity-bench/polarity-bench"
"""URL of our source if no board is given."""

_TASK_TYPES = {"polarity": "retrieval", "transfer": "text-classification"}
_INDEX = "model-index"
_TEXT = "tag:yaml.org,2002:str"
_NUMBER = re.compile(r"[-+]?\d+[eE][-+]?\d+|0o[0-7]+")
"""Text, such as a digest, that is a number in YAML 1.2, which the hub reads, but not in 1.1."""


@dataclass(frozen=True)
class CardScore:
    """One score of an encoder.

    Attributes:
        result: The result that holds the score.
        settings: Settings that differ from the task's defaults; '' if none do.
        key: Key of the score.
        data_set: The data set of the task.
    """

    result: Result
    settings: str
    key: ScoreKey
    data_set: DataSet

    @property
    def name(self) -> str:
        """Name of the score in the card."""
        kind, key = KINDS[self.result.kind], self.key
        if not kind.ranks:
            return f"{kind.measure}, percent"
        weights = ", uniform weights" if key.weighting == "uniform" else ""
        return f"{SCORE_TITLES[key.metric]} at {key.k}{weights}, percent"

    @property
    def percent(self) -> float:
        """The score times 100."""
        return round(100 * self.result.scores[self.key].mean, 4)

    @property
    def is_main(self) -> bool:
        """Whether this is the task's main score, with either weighting of the ranks."""
        main = self.result.main_score
        return (self.key.metric, self.key.k, self.key.part) == (main.metric, main.k, main.part)


def measured(
    stored: Sequence[Stored],
    data_sets: Mapping[str, DataSet] | None = None,
    weighting: Weighting = "linear",
) -> list[CardScore]:
    """Return the scores of an encoder that a card shows.

    For tasks that retrieve, these are P, S, retention and joint at each k, and otherwise the main
    score. Undefined scores are left out.

    Args:
        stored: The encoder's results.
        data_sets: Data sets of the tasks, by task name. If a task has none, its name is used.
        weighting: Weighting of the ranks.

    Raises:
        InputError: If all results have a limit, or a task type is unknown.
    """
    settled = by_settings(stored)
    if not settled:
        raise InputError(
            "each result was cut short for a quick look; evaluate the whole tasks before they are "
            "published"
        )
    kinds = list(KINDS)
    for (path, result), _ in settled:
        if result.kind not in kinds:
            raise InputError(f"{path}: unknown kind {result.kind!r}")
    settled.sort(key=lambda each: (kinds.index(each[0][1].kind), each[0][1].task, each[1]))
    known = data_sets or {}
    return [
        CardScore(result, settings, key, known.get(result.task, DataSet(result.task, result.task)))
        for (_, result), settings in settled
        for key in shown_keys(result, weighting)
    ]


def model_index(scores: Iterable[CardScore], url: str) -> list[dict[str, Any]]:
    """Return our entries of a `model-index`, one for each result.

    Args:
        scores: The scores.
        url: URL of our source.
    """
    flat = [
        EvalResult(
            task_type=_TASK_TYPES.get(each.result.kind, PIPELINE),
            task_name=KINDS[each.result.kind].heading or TRAINED,
            **asdict(each.data_set),
            dataset_config=each.settings or None,
            dataset_args=_facts(each.result),
            metric_type=str(each.key),
            metric_name=each.name,
            metric_value=each.percent,
            source_name=SOURCE,
            source_url=url,
        )
        for each in scores
    ]
    entries: list[dict[str, Any]] = eval_results_to_model_index("", flat)[0]["results"]
    return entries


def eval_results(scores: Iterable[CardScore], url: str) -> str:
    """Return the content of a file in `.eval_results`: results with the tasks' default settings.

    A main score is named after the task in mteb. Other scores append their own name, because the
    hub keeps a leaderboard for each name. A data set that is not on the hub is named
    `polarity-bench/TASK`.
    """
    entries = []
    for each in scores:
        if each.settings:
            continue
        result, data_set = each.result, each.data_set
        on_hub = data_set.dataset_revision is not None
        facts = [f"{name} {value}" for name, value in _facts(result).items()]
        entries.append(
            EvalResultEntry(
                dataset_id=data_set.dataset_type if on_hub else f"{SOURCE}/{result.task}",
                dataset_revision=data_set.dataset_revision,
                task_id=result.result_name + ("" if each.is_main else f"_{each.key}"),
                value=each.percent,
                date=datetime.fromtimestamp(result.date, UTC).date().isoformat(),
                source_url=url,
                source_name=SOURCE,
                notes="; ".join([each.name, *facts]),
            )
        )
    return _text(_node(entries_to_yaml(entries)))


def _facts(result: Result) -> dict[str, str]:
    """Return what the numbers of a result depend on, besides the data."""
    key = result.key
    facts = {"protocol": key.protocol_label}
    if KINDS[result.kind].ranks:
        facts["reference"] = key.reference.label if key.reference else "itself"
    if key.encoder.prompt:
        facts["prompt"] = key.encoder.prompt
    if key.encoder.strength is not None:
        facts["strength"] = shortest(key.encoder.strength)
    return facts | {"task": key.task, "encoder": key.encoder.digest}


def is_own_file(text: str) -> bool:
    """Return whether all entries of a file in `.eval_results` are ours."""
    try:
        entries = yaml.safe_load(text) or []
        return all(entry["source"]["name"] == SOURCE for entry in entries)
    except (yaml.YAMLError, KeyError, TypeError):
        return False


def new_card(name: str, is_sentence_transformer: bool) -> str:
    """Return a card for an encoder that has none."""
    front = header(library=LIBRARY if is_sentence_transformer else None)
    return f"{front}\n\n# {escape(name)}\n\nA sentence encoder.\n"


def updated(
    card: str, name: str, entries: Sequence[Mapping[str, Any]], tasks: Iterable[str] = ()
) -> str:
    """Return a card with new entries of ours in place of our old ones.

    Args:
        card: Text of the card, with or without a YAML header.
        name: Name of the encoder, used if the card does not have one.
        entries: Our new entries, see `model_index`.
        tasks: Names of tasks, which evaluators use as the data sets of their entries.

    Raises:
        InputError: If the header is broken, or has a form to which nothing can be added.
    """
    body = card.removeprefix("\ufeff")
    bom = card[: len(card) - len(body)]
    has_crlf = 0 < body.count("\n") == body.count("\r\n")
    body = body.replace("\r\n", "\n") if has_crlf else body
    block = REGEX_YAML_BLOCK.search(body)
    if block:
        _check(body)
        old, before, after = block[2], body[: block.start(2)], body[block.end(2) :]
    elif re.match(r"\s*---[ \t]*[\r\n]", body):
        raise InputError("its YAML header does not end: a line --- is missing")
    else:
        old, before, after = "", "---\n", f"\n---\n{body}"
    new = _updated_header(old, name, entries, tasks)
    result = before + new + after
    try:
        _check(result)
        is_kept = repr(_others(old)) == repr(_others(new))  # `repr`, as nan != nan
    except (InputError, yaml.YAMLError):
        is_kept = False
    if not is_kept:
        raise InputError(
            "nothing can be added to its YAML header in its present form; write one key per line, "
            f"and no anchors in {_INDEX!r}"
        )
    return bom + (result.replace("\n", "\r\n") if has_crlf else result)


def _check(card: str) -> None:
    """Raise InputError if the hub's own class cannot read the card."""
    try:
        ModelCard(card)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
        problem = " ".join(str(error).split())[:300]
        raise InputError(f"its YAML header is broken: {problem}") from error


def _others(header: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(header) or {}
    return {key: value for key, value in values.items() if key != _INDEX}


def _updated_header(
    header: str, name: str, entries: Sequence[Mapping[str, Any]], tasks: Iterable[str]
) -> str:
    root = yaml.compose(header, yaml.SafeLoader)
    indexes = [pair for pair in (root.value if root else []) if pair[0].value == _INDEX]
    if len(indexes) > 1:
        raise InputError(f"its YAML header is broken: {_INDEX!r} occurs twice")
    key, old = indexes[0] if indexes else (yaml.ScalarNode(_TEXT, _INDEX), None)
    end = _end(old) if old else len(header)
    pair = (key, _index(old, name, entries, tasks))  # changes `old` in place
    whole = yaml.MappingNode("tag:yaml.org,2002:map", [pair], flow_style=False)
    text = _text(whole).rstrip("\n")
    if not old:
        return "\n".join(filter(None, [header.rstrip("\r\n"), text]))
    line_end = "\n" if header[end - 1] in "\r\n" else ""
    return header[: key.start_mark.index] + text + line_end + header[end:]


def _end(node: Any) -> int:
    """Return where a node's text ends.

    The end mark of a block is no use for this, because it follows blank lines and comments.
    """
    inner = node.value if isinstance(node, yaml.CollectionNode) and not node.flow_style else None
    if not inner:
        return int(node.end_mark.index)
    return _end(inner[-1][1] if isinstance(node, yaml.MappingNode) else inner[-1])


def _index(old: Any, name: str, entries: Sequence[Mapping[str, Any]], tasks: Iterable[str]) -> Any:
    """Return the node of a `model-index` with our entries at the place of our old ones."""
    values = _plain(old)
    if not values:
        model = {"name": " ".join(name.split()), "results": list(entries)}
        return _node([model])
    covered = {entry["dataset"]["type"] for entry in entries} | set(tasks)
    lists = [_child(model, "results") for model in old.value]
    where = None
    for results in lists:
        mine = [i for i, each in enumerate(results.value) if _is_ours(_plain(each), covered)]
        if mine and where is None:
            where = results, mine[0]
        results.value = [each for i, each in enumerate(results.value) if i not in mine]
    results, at = where or (lists[0], len(lists[0].value))
    results.value[at:at] = _node(list(entries)).value
    results.flow_style = results.flow_style and not results.value
    return old


def _is_ours(entry: Any, covered: set[str]) -> bool:
    source = entry.get("source")
    if source:
        return bool(source.get("name") == SOURCE)
    of = entry["dataset"]["type"]
    name = entry["task"].get("name") or ""
    return bool(name.startswith(TRAINED) and of in covered)


class _Representer(SafeRepresenter):
    """YAML representer that quotes strings which YAML 1.2 would read as numbers."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar(_TEXT, data, style="'" if _NUMBER.fullmatch(data) else None)


_Representer.add_representer(str, _Representer.represent_str)


def _node(value: Any) -> Any:
    return _Representer(default_flow_style=False, sort_keys=False).represent_data(value)


def _text(node: Any) -> str:
    text: str = yaml.serialize(node, Dumper=yaml.SafeDumper, allow_unicode=True, width=math.inf)
    return text


def _plain(node: Any) -> Any:
    return None if node is None else yaml.SafeLoader("").construct_document(node)


def _child(mapping: Any, key: str) -> Any:
    return next(value for name, value in mapping.value if name.value == key)
