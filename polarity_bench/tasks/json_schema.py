"""JSON schema of task files, for editors and for the documentation."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from polarity_bench.tasks.catalogue import KINDS
from polarity_bench.tasks.types.base import TaskSpec

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def task_schema() -> dict[str, Any]:
    """Return one JSON schema that covers task files of all types."""
    kinds = list(KINDS.values())
    _, schemas = models_json_schema([(kind, "validation") for kind in kinds])
    tables: dict[str, Any] = _simplify(schemas["$defs"])
    for kind in kinds:
        table = tables[kind.__name__]
        del table["properties"]["file"]  # `file` is the path of the task file, not a key in it.
        table["required"].remove("file")
        table["properties"]["kind"]["description"] = TaskSpec.model_fields["kind"].description
    choice = [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds]
    return {"$schema": _DIALECT, "title": "Task file", "oneOf": choice, "$defs": tables}


def _simplify(value: Any) -> Any:
    """Remove nulls, which TOML does not have, and titles, which repeat the keys, from a schema."""
    if isinstance(value, list):
        return [_simplify(item) for item in value]
    if not isinstance(value, dict):
        return value
    lean = {
        key: _simplify(inner)
        for key, inner in value.items()
        if not (key == "title" and isinstance(inner, str))
        and not (key == "default" and (inner is None or isinstance(inner, dict)))
    }
    choice = [branch for branch in lean.pop("anyOf", []) if branch != {"type": "null"}]
    if len(choice) > 1:
        lean["anyOf"] = choice
    return choice[0] | lean if len(choice) == 1 else lean
