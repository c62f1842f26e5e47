"""Names that select data sets of mteb as polarity tasks, without a task file.

- `mteb:NAME` and `mteb:NAME[SUBSET]` keep all texts: the training split provides the sources, and
  the test split the queries.
- `nano:NAME` and `nano:NAME[SUBSET]` draw 200 queries and 1,000 sources, for a quick answer.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from polarity_bench.errors import listed
from polarity_bench.tasks.types.polarity.mteb_sets import (
    MtebSet,
    classification_sets,
    find_set,
    restriction,
)
from polarity_bench.tasks.types.polarity.task import PolaritySpec
from polarity_bench.validation import validated

_DRAWS: dict[str, dict[str, Any]] = {
    "mteb": {},
    "nano": {"protocol": {"n_queries": 200, "sources_per_query": 5}},
}
MTEB_PREFIXES = tuple(f"{prefix}:" for prefix in _DRAWS)


def named_tasks(name: str) -> list[PolaritySpec]:
    """Return the tasks that a name selects, one for each subset of the data set.

    Args:
        name: `mteb:NAME` for all subsets, or `mteb:NAME[SUBSET]`. A language instead of the subset
            (`deu` or `deu-Latn`) selects all subsets of this language.

    Raises:
        InputError: If the data set or the subset is unknown, or cannot be a polarity task.
    """
    prefix, _, reference = name.partition(":")
    suffix = "" if prefix == "mteb" else prefix.capitalize()
    specs = []
    for each in find_set(reference).references:
        plain = re.sub(r"[^A-Za-z0-9.]+", "-", each).strip("-")
        values = {"kind": "polarity", "title": each[:80], "mteb": each} | _DRAWS[prefix]
        values |= {"name": "mteb", "mteb_name": f"{plain}-{suffix}PolarityRetrieval"}
        own_name = f"{prefix}:{each}"
        spec = validated(PolaritySpec, {"file": Path(own_name)} | values)
        # Names of task files have no colon, so no task file can have this name.
        specs.append(spec.model_copy(update={"name": own_name}).described())
    return specs


def find_sets(words: str) -> list[dict[str, Any]]:
    """Search the data sets of mteb that can be polarity tasks, by mteb's metadata alone.

    Args:
        words: Words that occur in the name, the description, the domains or the subtypes. A code of
            a language (`deu` or `deu-Latn`) or of a script occurs only in the languages.

    Returns:
        For each data set that has all words: the name of the task, languages, names of the subsets
        (if there are several), numbers of sources and queries (None if unknown), licence, why its
        texts must not be published ('' if the licence allows it), and the newer version.
    """
    known = classification_sets()
    codes = {name: _codes(found) for name, found in known.items()}
    every = set().union(*codes.values())
    rows = []
    for name, found in known.items():
        metadata = found.task.metadata
        said = [name, metadata.description, *(metadata.domains or ())]
        text = " ".join([*said, *(metadata.task_subtypes or ())]).casefold()
        asked = words.casefold().split()
        if all(w in codes[name] if w in every else w in text for w in asked):
            rows.append(_described(f"mteb:{name}", found))
    return rows


def describe_set(spec: PolaritySpec) -> dict[str, Any]:
    """Describe the data set of a task that a name defines, as `find_sets` does.

    The numbers of sources and queries are those that the task draws.
    """
    described, protocol = _described(spec.name, spec.mteb_set), spec.protocol
    if protocol.n_queries is not None:
        draw = {"queries": protocol.n_queries, "sources": protocol.n_queries}
        draw["sources"] *= protocol.sources_per_query
        described |= {part: min(n, described[part] or n) for part, n in draw.items()}
    return described


def _described(name: str, found: MtebSet) -> dict[str, Any]:
    metadata = found.task.metadata
    newer = metadata.superseded_by
    return {
        "name": name,
        "languages": list(found.languages),
        "subsets": list(found.subsets) if metadata.is_multilingual else [],
        "sources": found.n_texts(found.task.train_split),
        "queries": found.n_texts(found.query_split),
        "licence": metadata.license or "not specified",
        "restriction": restriction(metadata.license),
        "superseded_by": f"mteb:{newer}" if newer else None,
    }


def _codes(found: MtebSet) -> set[str]:
    """Return the codes of a data set's languages and scripts in lower case: deu-latn, deu, latn."""
    whole = {code.lower() for code in found.languages}
    return whole | {part for code in whole for part in code.split("-")}


def task_file(spec: PolaritySpec) -> str:
    """Return the text of a task file with the content of a task that a name defines.

    The file has no `mteb_name`, so results of a changed copy have file names of their own.
    """
    import tomlkit

    plain = re.sub(r"[^a-z0-9]+", "-", spec.name.lower()).strip("-")[:64].rstrip("-")
    shown = {"kind", "title", "mteb", "languages", "licence"}
    facts = spec.model_dump(mode="json", include=shown, exclude_none=True)
    own = {"protocol": {"k": spec.protocol.k} | spec.protocol.model_dump(exclude_unset=True)}
    found = spec.mteb_set
    counts = [each["label_statistics"]["labels"] for each in found.statistics(found.query_split)]
    labels = listed(sorted({label for of_subset in counts for label in of_subset}))
    about = f"# [labels] can rename or join the labels of mteb's data: {labels}\n" if labels else ""
    return about + tomlkit.dumps({"name": plain} | facts | own)
