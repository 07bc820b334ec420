"""Tools of the Model Context Protocol over the views: list them, describe one, query one, and a tool per query
template.

In: an `Api`; a tool's name and arguments. Out: descriptions of tools. A call returns an answer that needs no store, or
a GraphQL request. So all limits and rights of GraphQL apply. It does not depend on the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from graphql import (
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLObjectType,
    get_named_type,
    is_list_type,
    is_non_null_type,
)

from belvedere.api.agents.json_schemas import Schema, arguments_schema, columns_of, is_struct, row_schema
from belvedere.api.failures import BAD_REQUEST, RequestError
from belvedere.api.graphql.api import Api
from belvedere.api.http.graphql_requests import GraphQLRequest
from belvedere.api.reads.entities import Entity
from belvedere.api.reads.provenance import MAX_DEPTH, MAX_ROWS, SINCE, Question, asked_of, why_not_of
from belvedere.api.reads.provenance import WHY_NOT as WHY_NOT_ANSWER
from belvedere.syntax.wording import did_you_mean

LIST, DESCRIBE, QUERY, WHY, WHY_NOT = "list_views", "describe_view", "query_view", "why_row", "why_not"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_A_LIST = ("filter", "order", "limit", "offset")
_VIEW: Schema = {"type": "string", "description": "the view's name, as in list_views"}
_FILTER: Schema = {
    "type": "object",
    "description": 'a condition: {"price": {"gt": 5}, "name": {"startsWith": "A"}}; `and`, `or`, `not` combine. '
    "describe_view lists the operators of each column",
}
_ROWS: Schema = {
    "type": "integer",
    "minimum": 1,
    "maximum": MAX_ROWS,
    "description": "the number of rows to show for each relation",
}
_EPOCH: Schema = {
    "epoch": {"type": "integer", "description": "the epoch that all rows are from"},
    "asOf": {"type": "string", "format": "date-time", "description": "the epoch's clock: the value of now()"},
    "freshnessMs": {"type": "integer", "description": "the milliseconds since the epoch was committed"},
}

_HELD: Schema = {
    "type": "array",
    "description": "views that have failed: their rows are those of an earlier epoch (null: there are none yet)",
    "items": {
        "type": "object",
        "properties": {"view": {"type": "string"}, "epoch": {"type": ["integer", "null"]}},
        "required": ["view", "epoch"],
        "additionalProperties": False,
    },
}


@dataclass(frozen=True)
class Tool:
    """A tool, with the JSON Schemas of its arguments and its answer."""

    name: str
    description: str
    arguments: Schema
    answer: Schema


@dataclass(frozen=True)
class ReadCall:
    """A call that reads the store: a GraphQL request and the field with its rows."""

    asked: GraphQLRequest
    field: str


@lru_cache(100)
def tools_of(api: Api) -> tuple[Tool, ...]:
    """Return all tools of an API."""
    return (
        _list(),
        _describe(),
        _query(api),
        _why(),
        _why_not(),
        *(_template(name, field) for name, field in _templates(api).items()),
    )


def call(api: Api, name: str, given: Mapping[str, Any]) -> ReadCall | Question | dict[str, Any]:
    """Return the answer of a tool call, or the request that reads it. Raises `RequestError` if the call is not
    valid."""
    tool = next((t for t in tools_of(api) if t.name == name), None)
    if tool is None:
        known = did_you_mean(name, [t.name for t in tools_of(api)])
        raise RequestError(BAD_REQUEST, f'there is no tool "{name[:100]}"', known or "list the tools")
    properties = tool.arguments["properties"]
    for unknown in [n for n in given if n not in properties]:
        raise RequestError(
            BAD_REQUEST, f"{name} has no argument `{unknown[:100]}`", f"its arguments: {', '.join(properties)}"
        )
    if name == LIST:
        return _listed(api)
    if name == DESCRIBE:
        return _described(api, _view(api, given))
    if name == QUERY:
        return _reading_of_view(api, _view(api, given), given)
    if name == WHY:
        key = given.get("key")
        if not isinstance(key, dict):
            raise RequestError(
                BAD_REQUEST,
                "`key` must be an object with the values of one row's key",
                f"{DESCRIBE} lists the key's columns",
            )
        return asked_of(_view(api, given), key, given.get("depth"), given.get("rows"))
    if name == WHY_NOT:
        return why_not_of(_view(api, given), given.get("filter", {}), "rows", given.get("rows"))
    field = _templates(api)[name]
    return _reading(field.name, field.field, given, None)


# descriptions


def _list() -> Tool:
    described = {"name": {"type": "string"}, "description": {"type": "string"}}
    views = described | {"columns": {"type": "array", "items": {"type": "string"}}}
    answer = {"views": _array(_object(views)), "tools": _array(_object(described))}
    text = "The views that can be queried, with their columns, and the tools for query templates."
    return Tool(LIST, text, _object({}), _object(answer))


def _describe() -> Tool:
    text = "A view's columns with their types, its key, its filters and orders, and its relationships."
    answer = {"name": {"type": "string"}, "columns": _array({"type": "object"}), "related": _array({"type": "object"})}
    return Tool(
        DESCRIBE,
        text,
        _object({"view": _VIEW}, ("view",)),
        {"type": "object", "properties": answer, "required": list(answer)},
    )


def _query(api: Api) -> Tool:
    most = api.limits.most_rows
    arguments: Schema = {
        "view": _VIEW,
        "columns": {
            "type": "array",
            "items": {"type": "string"},
            "description": "the columns to return; default: all. Columns of related rows: `machines.name`",
        },
        "filter": _FILTER,
        "order": {
            "type": "array",
            "items": {"type": "object"},
            "description": '[{"price": "DESC"}, {"name": "ASC"}]; also ASC_NULLS_LAST and DESC_NULLS_FIRST',
        },
        "limit": {"type": "integer", "minimum": 0, "maximum": most, "default": api.limits.rows},
        "offset": {"type": "integer", "minimum": 0},
        "arguments": {"type": "object", "description": "further arguments of the view, as in describe_view"},
    }
    text = "Rows of one view, all of one epoch."
    return Tool(QUERY, text, _object(arguments, ("view",)), _rows_answer({"type": "object"}))


def _why() -> Tool:
    text = (
        "Why a row exists: the rows it was computed from, by relation, the rows dropped on the way, and the rows of "
        "each input. Each relation has the number of its rows, and the first of them. Also when the row appeared, "
        "with its versions where the view has a history."
    )
    arguments: Schema = {
        "view": _VIEW,
        "key": {
            "type": "object",
            "description": 'values of the row\'s key: {"city": "Bern"}; describe_view lists the key\'s columns',
        },
        "depth": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_DEPTH,
            "description": "the number of views to trace through, 1 by default",
        },
        "rows": _ROWS,
    }
    parts = {n: _array({"type": "object"}) for n in ("reads", "dropped", "late", "inputs")}
    answer = {"view": {"type": "string"}, "sql": {"type": "string"}, "row": {"type": "object"}, **parts, "since": SINCE}
    return Tool(
        WHY,
        text,
        _object(arguments, ("view", "key")),
        {"type": "object", "properties": answer, "required": list(answer)},
    )


def _why_not() -> Tool:
    text = (
        "Why a row is missing: on each path down from the view the first operator that drops the rows that would have "
        "made it (a filter, a join without a match, an input without such a row), with the rows that nearly matched."
    )
    arguments: Schema = {"view": _VIEW, "filter": _FILTER, "rows": _ROWS}
    answer = {"type": "object", "properties": WHY_NOT_ANSWER, "required": list(WHY_NOT_ANSWER)}
    return Tool(WHY_NOT, text, _object(arguments, ("view", "filter")), answer)


def _template(name: str, found: _Found) -> Tool:
    row = get_named_type(found.field.type)
    assert isinstance(row, GraphQLObjectType)
    text = found.field.description or f"The answer of the query template {found.name}."
    return Tool(name, text, arguments_schema(found.field.args), _rows_answer(row_schema(row)))


@dataclass(frozen=True)
class _Found:
    """A root field and its name."""

    name: str
    field: GraphQLField


def _templates(api: Api) -> dict[str, _Found]:
    """Return the root fields of query templates by tool name."""
    fields = _roots(api)
    taken = (LIST, DESCRIBE, QUERY, WHY, WHY_NOT)
    return {(f"{n}_template" if n in taken else n): _Found(n, fields[n]) for n in api.model.templates if n in fields}


# answers without the store


def _listed(api: Api) -> dict[str, Any]:
    fields = _roots(api)
    views = [
        {"name": e.name, "description": e.doc or "", "columns": columns_of(_row(fields[e.field]))}
        for e in _views(api).values()
    ]
    return {
        "views": views,
        "tools": [{"name": t.name, "description": t.description} for t in tools_of(api) if t.name in _templates(api)],
    }


def _described(api: Api, entity: Entity) -> dict[str, Any]:
    field = _roots(api)[entity.field]
    row = _row(field)
    others = {n: a for n, a in field.args.items() if n not in _OF_A_LIST}
    columns = [
        {"name": n, "type": str(row.fields[n].type), "description": row.fields[n].description or ""}
        for n in columns_of(row)
    ]
    related = [
        {
            "name": n,
            "type": get_named_type(f.type).name,
            "many": is_list_type(f.type.of_type if is_non_null_type(f.type) else f.type),
            "description": f.description or "",
            "columns": columns_of(_row(f)),
        }
        for n, f in row.fields.items()
        if n in entity.relations
    ]
    return {
        "name": entity.name,
        "description": entity.doc or "",
        "key": [n for n, c in entity.columns.items() if c.name in (entity.schema.key or ())],
        "columns": columns,
        "related": related,
        "filter": arguments_schema({n: a for n, a in field.args.items() if n == "filter"}),
        "order": list(_ordered(field)),
        "arguments": arguments_schema(others),
    }


def _ordered(field: GraphQLField) -> Iterable[str]:
    order = get_named_type(field.args["order"].type) if "order" in field.args else None
    return order.fields if isinstance(order, GraphQLInputObjectType) else ()


# reads


def _reading_of_view(api: Api, entity: Entity, given: Mapping[str, Any]) -> ReadCall:
    field = _roots(api)[entity.field]
    further = given.get("arguments") or {}
    if not isinstance(further, dict):
        raise RequestError(BAD_REQUEST, "`arguments` must be an object")
    passed = {n: given[n] for n in _OF_A_LIST if given.get(n) is not None} | further
    return _reading(entity.field, field, passed, given.get("columns"))


def _reading(name: str, field: GraphQLField, given: Mapping[str, Any], columns: Any) -> ReadCall:
    """Return the GraphQL request for a field; the tool's arguments become its variables."""
    for unknown in [n for n in given if n not in field.args]:
        known = ", ".join(field.args) or "none"
        raise RequestError(BAD_REQUEST, f"{name} has no argument `{unknown[:100]}`", f"its arguments: {known}")
    declared = ", ".join(f"${n}: {field.args[n].type}" for n in given)
    passed = ", ".join(f"{n}: ${n}" for n in given)
    selected = _selection(_row(field), columns_of(_row(field)) if columns is None else columns)
    text = f"query{f'({declared})' if declared else ''} {{ {name}{f'({passed})' if passed else ''} {selected} }}"
    return ReadCall(GraphQLRequest(text, dict(given), None), name)


def _selection(row: GraphQLObjectType, paths: Any) -> str:
    """Return the selection of some columns.

    `machines.name` selects a column of related rows. A column with objects is selected with all members.
    """
    if not isinstance(paths, list) or not paths:
        raise RequestError(
            BAD_REQUEST, "`columns` must be a list of names", 'write ["name", "machines.name"], or omit it'
        )
    tree: dict[str, Any] = {}
    for path in paths:
        steps = path.split(".") if isinstance(path, str) else [""]
        if not all(_NAME.fullmatch(step) for step in steps):
            raise RequestError(
                BAD_REQUEST, f"{str(path)[:100]!r} is not a column", "describe_view lists the columns of a view"
            )
        place = tree
        for step in steps:
            place = place.setdefault(step, {})
    return _printed(row, tree)


def _printed(row: Any, tree: Mapping[str, Any]) -> str:
    parts = []
    for name, inner in tree.items():
        field = row.fields.get(name) if isinstance(row, GraphQLObjectType) else None
        type_ = None if field is None else get_named_type(field.type)
        whole = (
            {n: {} for n in type_.fields}
            if not inner and isinstance(type_, GraphQLObjectType) and is_struct(type_)
            else inner
        )
        parts.append(f"{name} {_printed(type_, whole)}" if whole else name)
    return "{ " + " ".join(parts) + " }"


def _view(api: Api, given: Mapping[str, Any]) -> Entity:
    asked, views = given.get("view"), _views(api)
    if not isinstance(asked, str):
        raise RequestError(BAD_REQUEST, "`view` must be the name of a view", f"{LIST} tells them")
    found = views.get(asked.casefold())
    if found is None:
        if asked.casefold() in {t.template.name.casefold() for t in api.model.templates.values()}:
            raise RequestError(
                BAD_REQUEST,
                f"{asked} is a query template, not a view: call the tool of its name",
                f"{LIST} tells views",
            )
        hint = did_you_mean(asked, [e.name for e in views.values()]) or f"{LIST} tells them"
        raise RequestError(BAD_REQUEST, f'there is no view "{asked[:100]}"', hint)
    return found


def _views(api: Api) -> dict[str, Entity]:
    return {e.name.casefold(): e for e in api.model.entities.values() if e.field}


def _roots(api: Api) -> Mapping[str, GraphQLField]:
    assert api.schema.query_type is not None
    fields: Mapping[str, GraphQLField] = api.schema.query_type.fields
    return fields


def _row(field: GraphQLField) -> GraphQLObjectType:
    found = get_named_type(field.type)
    assert isinstance(found, GraphQLObjectType)
    return found


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _rows_answer(row: Schema) -> Schema:
    """Return the output schema of tools that read rows."""
    return _object({"rows": _array(row), **_EPOCH, "quarantined": _HELD}, ("rows", *_EPOCH))


def _object(properties: Schema, required: Iterable[str] | None = None) -> Schema:
    needed = list(properties if required is None else required)
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}
