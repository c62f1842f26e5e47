"""Results in model cards, in the two formats that the hub reads: `model-index` and `.eval_results`.

`huggingface_hub` writes our entries and validates the complete card. It must not rewrite the rest
of the card: it would reorder, requote and drop content of other authors, and could attribute our
scores to another source of the same data set. Therefore the rest of the card is kept byte by byte.
In a `model-index` with entries of others, all their values are kept.

An entry is ours if the name of its source is `polarity-bench`. Entries without a source are ours if
training or an evaluator wrote them for one of our data sets. Scores are in percent, as in mteb's
cards.
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

from polarity_bench.boards.unseen_columns import seen_parts, seen_words
from polarity_bench.errors import InputError
from polarity_bench.render.markdown import escape
from polarity_bench.results.result_files import Result
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import KINDS
from polarity_bench.training.history import SCORE_TITLES
from polarity_bench.training.model_card import (
    LIBRARY,
    PIPELINE,
    TRAINED,
    DataSet,
    header,
)
from polarity_bench.values import shortest

SOURCE = "polarity-bench"
"""Source name of our entries."""
HOMEPAGE = "https://github.com/polarity-bench/polarity-bench"
"""Default source URL of our entries."""

_TASK_TYPES = {"Retrieval": "retrieval", "Classification": "text-classification"}
_INDEX = "model-index"
_TEXT = "tag:yaml.org,2002:str"
_NUMBER = re.compile(r"[-+]?\d+[eE][-+]?\d+|0o[0-7]+")
"""Strings that are numbers in YAML 1.2, which the hub reads, but not in YAML 1.1.

An example is the digest 12e4.
"""


@dataclass(frozen=True)
class CardScore:
    """One score of an encoder, for the model card.

    Attributes:
        result: Result that contains the score.
        key: Key of the score in the result.
        data_set: Data set of the task.
    """

    result: Result
    key: ScoreKey
    data_set: DataSet

    @property
    def name(self) -> str:
        """Name of the score in the card."""
        kind, key = KINDS[self.result.kind], self.key
        if not kind.has_k:
            return f"{kind.measure}, percent"
        weights = "" if key.weighting == "linear" else f", {key.weighting} weights"
        return f"{SCORE_TITLES[key.metric]} at {key.k}{weights}, percent"

    @property
    def facts(self) -> dict[str, str]:
        """Settings, contamination and digests of the result, by name."""
        key = self.result.key
        facts = {"protocol": key.protocol_label}
        if KINDS[self.result.kind].has_k:
            facts["reference"] = key.reference.label if key.reference else "itself"
        for option in ("prompt", "truncate_dim", "quantize", "sides"):
            if value := getattr(key.encoder, option):
                facts[option] = str(value)
        if key.encoder.strength is not None:
            facts["strength"] = shortest(key.encoder.strength)
        if words := seen_words(seen_parts(self.result)):
            facts["contamination"] = words
        return facts | {"task": key.task, "encoder": key.encoder.digest}

    @property
    def percent(self) -> float:
        """The score in percent, rounded to four decimals."""
        return round(100 * self.result.shown(self.key).mean, 4)

    @property
    def is_main(self) -> bool:
        """Whether this is the main score of the task, with either weighting of the ranks."""
        main = self.result.main_score
        return (self.key.metric, self.key.k, self.key.part) == (main.metric, main.k, main.part)


def shown_keys(result: Result, weighting: str = "linear") -> list[ScoreKey]:
    """Return the keys of a result's scores that a model card shows, without undefined scores.

    The card of a retrieval task shows P, S, retention and joint at each k. Other tasks show their
    main score.
    """
    keys = [ScoreKey(metric, k, weighting) for k in result.ks for metric in SCORE_TITLES]
    scores = result.scores
    return [k for k in keys or [result.main_score] if k in scores and math.isfinite(scores[k].mean)]


def select_scores(
    results: Sequence[Result],
    data_sets: Mapping[str, DataSet] | None = None,
    weighting: str = "linear",
) -> list[CardScore]:
    """Return the scores to show in the model card of an encoder.

    For retrieval tasks, these are P, S, retention and joint at each k; for other tasks, the main
    score. Results with a limit and undefined scores are skipped.

    Args:
        results: Results of the encoder.
        data_sets: Data set of each task, keyed by task name. By default, the name of the task is
            used as the name of the data set.
        weighting: Weighting of the ranks.

    Raises:
        InputError: If no result is without a limit, or a task type is unknown.
    """
    whole = [result for result in results if result.limit is None]
    if not whole:
        raise InputError(
            "all results have a `limit` and cannot be published; evaluate the tasks without a "
            "`limit`"
        )
    kinds = list(KINDS)
    for result in whole:
        if result.kind not in kinds:
            raise InputError(f"{result.path}: unknown kind {result.kind!r}")
    whole.sort(key=lambda each: (kinds.index(each.kind), each.task, each.settings))
    known = data_sets or {}
    return [
        CardScore(result, key, known.get(result.task) or _data_set_of(result))
        for result in whole
        for key in shown_keys(result, weighting)
    ]


def _data_set_of(result: Result) -> DataSet:
    """Return the data set that a result records; by default, it has the name of the task."""
    of_mteb = result.data_set or {}
    return DataSet(of_mteb.get("id", result.task), result.task, of_mteb.get("revision"))


def model_index(scores: Iterable[CardScore], url: str) -> list[dict[str, Any]]:
    """Return our entries for a `model-index`, one per result.

    Args:
        scores: Scores of one encoder.
        url: Source URL of the entries.
    """
    flat = [
        EvalResult(
            task_type=_TASK_TYPES.get(KINDS[score.result.kind].mteb_type, PIPELINE),
            task_name=KINDS[score.result.kind].heading or TRAINED,
            **asdict(score.data_set),
            dataset_config=score.result.settings or None,
            dataset_args=score.facts,
            metric_type=str(score.key),
            metric_name=score.name,
            metric_value=score.percent,
            source_name=SOURCE,
            source_url=url,
        )
        for score in scores
    ]
    entries: list[dict[str, Any]] = eval_results_to_model_index("", flat)[0]["results"]
    return entries


def eval_results(scores: Iterable[CardScore], url: str) -> str:
    """Return the content of a file for `.eval_results`.

    Only results with default settings are included. The id of an entry is the task's name in mteb.
    For scores other than the main score, the name of the score is appended to the id, because the
    hub has one leaderboard per id. Data sets that are not on the hub are named
    `polarity-bench/TASK`.

    Args:
        scores: Scores of one encoder.
        url: Source URL of the entries.
    """
    entries = []
    for score in scores:
        if score.result.settings:
            continue
        result, data_set = score.result, score.data_set
        on_hub = data_set.dataset_revision is not None
        facts = [f"{name} {value}" for name, value in score.facts.items()]
        entries.append(
            EvalResultEntry(
                dataset_id=data_set.dataset_type if on_hub else f"{SOURCE}/{result.task}",
                dataset_revision=data_set.dataset_revision,
                task_id=result.result_name + ("" if score.is_main else f"_{score.key}"),
                value=score.percent,
                date=datetime.fromtimestamp(result.date, UTC).date().isoformat(),
                source_url=url,
                source_name=SOURCE,
                notes="; ".join([score.name, *facts]),
            )
        )
    return _text(_node(entries_to_yaml(entries)))


def is_own_file(text: str) -> bool:
    """Return whether all entries in the text of an `.eval_results` file are ours."""
    try:
        entries = yaml.safe_load(text) or []
        return all(entry["source"]["name"] == SOURCE for entry in entries)
    except (yaml.YAMLError, KeyError, TypeError):
        return False


def new_card(name: str, is_sentence_transformer: bool) -> str:
    """Return a minimal model card for an encoder without a card.

    Args:
        name: Name of the encoder.
        is_sentence_transformer: Whether sentence-transformers can load the encoder.
    """
    front = header(library=LIBRARY if is_sentence_transformer else None)
    return f"{front}\n\n# {escape(name)}\n\nA sentence encoder.\n"


def update_card(
    card: str, name: str, entries: Sequence[Mapping[str, Any]], tasks: Iterable[str] = ()
) -> str:
    """Return the text of a card in which new entries replace our old entries.

    Args:
        card: Text of the card, with or without a YAML header.
        name: Name of the encoder, used if the card has no `model-index`.
        entries: Our new entries, from `model_index`.
        tasks: Names of tasks, which evaluators use as names of data sets.

    Raises:
        InputError: If the header is invalid, or has a form that cannot be extended.
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
        raise InputError("the YAML header does not end; add a line with ---")
    else:
        old, before, after = "", "---\n", f"\n---\n{body}"
    new = _update_header(old, name, entries, tasks)
    result = before + new + after
    try:
        _check(result)
        is_kept = repr(_others(old)) == repr(_others(new))  # `repr` is used because NaN != NaN.
    except (InputError, yaml.YAMLError):
        is_kept = False
    if not is_kept:
        raise InputError(
            "the YAML header cannot be extended in this form; write one key per line, and use no "
            f"anchors in {_INDEX!r}"
        )
    return bom + (result.replace("\n", "\r\n") if has_crlf else result)


def _check(card: str) -> None:
    """Raise InputError if `huggingface_hub` cannot read the card."""
    try:
        ModelCard(card)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
        problem = " ".join(str(error).split())[:300]
        raise InputError(f"the YAML header is invalid: {problem}") from error


def _others(header: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(header) or {}
    return {key: value for key, value in values.items() if key != _INDEX}


def _update_header(
    header: str, name: str, entries: Sequence[Mapping[str, Any]], tasks: Iterable[str]
) -> str:
    root = yaml.compose(header, yaml.SafeLoader)
    indexes = [pair for pair in (root.value if root else []) if pair[0].value == _INDEX]
    if len(indexes) > 1:
        raise InputError(f"the YAML header is invalid: {_INDEX!r} occurs twice")
    key, old = indexes[0] if indexes else (yaml.ScalarNode(_TEXT, _INDEX), None)
    end = _end(old) if old else len(header)
    pair = (key, _index(old, name, entries, tasks))  # This call changes `old` in place.
    mapping = yaml.MappingNode("tag:yaml.org,2002:map", [pair], flow_style=False)
    text = _text(mapping).rstrip("\n")
    if not old:
        return "\n".join(filter(None, [header.rstrip("\r\n"), text]))
    line_end = "\n" if header[end - 1] in "\r\n" else ""
    return header[: key.start_mark.index] + text + line_end + header[end:]


def _end(node: Any) -> int:
    """Return the position at which the text of a node ends.

    The end mark of a block cannot be used, because it comes after blank lines and comments.
    """
    inner = node.value if isinstance(node, yaml.CollectionNode) and not node.flow_style else None
    if not inner:
        return int(node.end_mark.index)
    return _end(inner[-1][1] if isinstance(node, yaml.MappingNode) else inner[-1])


def _index(old: Any, name: str, entries: Sequence[Mapping[str, Any]], tasks: Iterable[str]) -> Any:
    """Return the node of a `model-index` in which new entries replace our old entries.

    Args:
        old: Node of the existing `model-index`, changed in place; None if there is none.
        name: Name of the encoder.
        entries: Our new entries.
        tasks: Names of tasks, which evaluators use as names of data sets.
    """
    values = _plain(old)
    if not values:
        model = {"name": " ".join(name.split()), "results": list(entries)}
        return _node([model])
    covered = {entry["dataset"]["type"] for entry in entries} | set(tasks)
    lists = [of for model in old.value for key, of in model.value if key.value == "results"]
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
    return yaml.serialize(node, Dumper=yaml.SafeDumper, allow_unicode=True, width=math.inf)


def _plain(node: Any) -> Any:
    return None if node is None else yaml.SafeLoader("").construct_document(node)
