"""The references (`$ref`) of a JSON Schema, looked up before any record is validated. No I/O.

The validator looks up a reference when a record needs it. One within `not`, `if` or `patternProperties` may be needed
for the first time after days, and would fail the query then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing import Registry, Specification
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT3, DRAFT4, DRAFT6, DRAFT7, specification_with

from klamm.pipelines.decoders.decoder import DecoderError

__all__ = ["refuse_missing_references"]

_REFERENCES: Final = ("$ref", "$dynamicRef")
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
"""Keywords whose schemas are used only if something refers to them."""
_IGNORING_SIBLINGS: Final = (DRAFT3, DRAFT4, DRAFT6, DRAFT7)
"""In these versions, the other keywords next to a `$ref` mean nothing."""


def refuse_missing_references(schema: Any, dialect_id: str, resources: Registry[Any]) -> None:
    """Raises `DecoderError` for a reference that a record can need and that names nothing.

    `dialect_id` is the version of JSON Schema, `resources` are the other schemas that the schema refers to.
    """
    specification: Specification[Any] = specification_with(dialect_id, default=Specification.OPAQUE)
    known: Registry[Any] = REGISTRY.combine(resources)
    waiting = [(schema, known.resolver_with_root(specification.create_resource(schema)))]
    seen: set[int] = set()
    while waiting:
        part, resolver = waiting.pop()
        if not isinstance(part, Mapping) or id(part) in seen:
            continue
        seen.add(id(part))
        for reference in (part[keyword] for keyword in _REFERENCES if isinstance(part.get(keyword), str)):
            try:
                found = resolver.lookup(reference)
            except Unresolvable:
                raise DecoderError(
                    f"the JSON Schema refers to {json.dumps(reference)}, which is not there, so records can't be "
                    "validated. Correct the schema, or say validate=False"
                ) from None
            waiting.append((found.contents, found.resolver))
        if "$ref" in part and specification in _IGNORING_SIBLINGS:
            continue
        used = {keyword: value for keyword, value in part.items() if keyword not in _DEFINITIONS}
        waiting.extend(
            (inner, resolver.in_subresource(specification.create_resource(inner)))
            for inner in specification.subresources_of(used)
            if isinstance(inner, Mapping)
        )
