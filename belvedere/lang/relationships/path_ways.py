"""Resolution of dotted names from the row of a table or the FROM items of a query.

In: definitions, and the current rows. Out: `PathNames` for aggregates over paths.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from belvedere.catalog.relationships import OWNER
from belvedere.lang.names.definitions import Definitions, NamedRelation
from belvedere.lang.names.scope import FromItem, Scope
from belvedere.lang.relationships.path_aggregates import PathNames, RelatedPath
from belvedere.lang.select.query_frame import StatementContext

CODE = "B4021"


def ways_of_row(definitions: Definitions, owner: NamedRelation, context: StatementContext) -> PathNames:
    """Return the resolution of names in the definition of a column: they begin at the row of its table, with or without
    `_`."""

    def lead(parts: Sequence[exp.Identifier]) -> RelatedPath | None:
        return _way(definitions, OWNER, owner, parts[1:] if parts[0].name == OWNER else parts)

    def own(name: exp.Identifier) -> str | None:
        return OWNER if owner.schema.find(name.name) is not None else None

    return PathNames(lead, own, lambda message, node, hint: context.fail(CODE, message, node, hint))


def ways_of_query(context: StatementContext, scope: Scope) -> PathNames:
    """Return the resolution of names in a query: they begin at a FROM item, with or without its alias."""

    def lead(parts: Sequence[exp.Identifier]) -> RelatedPath | None:
        source = scope.source(parts[0].name)
        if source is not None:
            return _from_item(context.definitions, source, parts[1:])
        starts = [s for s in scope.sources if s.addressable and s.bare]
        found = [w for s in starts if (w := _from_item(context.definitions, s, parts)) is not None]
        return found[0] if len(found) == 1 else None

    def own(name: exp.Identifier) -> str | None:
        found = [s for s in scope.sources if s.addressable and s.bare and s.seen(name.name) is not None]
        return found[0].alias if len(found) == 1 and found[0].alias else None

    return PathNames(lead, own, lambda message, node, hint: context.fail(CODE, message, node, hint))


def _from_item(definitions: Definitions, source: FromItem, parts: Sequence[exp.Identifier]) -> RelatedPath | None:
    return _way(definitions, source.alias, source.starts, parts) if source.starts is not None and parts else None


def _way(
    definitions: Definitions, start: str, relation: NamedRelation, parts: Sequence[exp.Identifier]
) -> RelatedPath | None:
    steps = definitions.steps(relation, (p.name for p in parts))
    if not steps:
        return None
    many, owner = 0, definitions.relations[relation.id]
    for n, step in enumerate(steps, 1):
        target = definitions.relations[step.target]
        many = many if step.leads_to_one(owner.schema, target.schema) else n
        owner = target
    return RelatedPath(start, tuple(parts[: len(steps)]), tuple(parts[len(steps) :]), many)
