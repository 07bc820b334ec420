"""The OpenAPI 3.1 description of REST, created from the model.

In: a `Model`, the limits, whether callers need a token. Out: the document as a dict. It has a path for each view, table
and query template, and for rows by key. Columns are parameters with their operators, rows are schemas with their
relationships.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from belvedere.api.graphql.scalars import scalar_of
from belvedere.api.limits import Limits
from belvedere.api.reads.entities import Entity, Model, RelationshipField, Template
from belvedere.api.reads.provenance import MAX_DEPTH, MAX_ROWS, ROWS, SINCE, WHY_NOT
from belvedere.api.rest.answers import CSV, JSON, OBJECT
from belvedere.api.rest.filters import operators_of
from belvedere.api.rest.requests import OF_ROOTS, name_of
from belvedere.catalog.templates import Parameter
from belvedere.schema import Column
from belvedere.store.dialects.nested_json import has_text_keys, is_list

Document = dict[str, Any]
PROBLEM = "application/problem+json"

_SCALARS: Mapping[str, Document] = {
    "Int": {"type": "integer", "format": "int32"},
    "Long": {"type": "integer", "format": "int64"},
    "Float": {"type": "number", "format": "double"},
    "Boolean": {"type": "boolean"},
    "Decimal": {"type": "string", "format": "decimal"},
    "DateTime": {"type": "string", "format": "date-time"},
    "Date": {"type": "string", "format": "date"},
    "Duration": {"type": "string", "format": "duration"},
    "YearMonthDuration": {"type": "string", "format": "duration"},
    "Bytes": {"type": "string", "pattern": "^([0-9a-fA-F]{2})*$"},
    "String": {"type": "string"},
}
_TEXTS = {"Int": "-?[0-9]+", "Long": "-?[0-9]+", "Float": "-?[0-9.]+([eE]-?[0-9]+)?", "Boolean": "(true|false)"}
"""Patterns of scalars in a query string; other scalars may be any text."""

_PARAMETERS: Mapping[str, tuple[Document, str]] = {
    "select": (
        {"type": "string"},
        "Columns and relationships: `a,total:b,related(c,d)`. `*` selects all columns and is the default. A selected "
        "list of related rows takes its own parameters under its name: `related.c=gt.5`, `related.order=c.desc`, "
        "`related.limit=3`.",
    ),
    "order": ({"type": "string"}, "Columns with directions: `a.desc.nullslast,b`."),
    "offset": ({"type": "integer", "minimum": 0, "maximum": 2**31 - 1}, "The number of rows to skip."),
    "after": ({"type": "string", "pattern": "^[0-9A-F]+$"}, "A cursor, from the header `Link` of the previous page."),
    "and": (
        {"type": "string", "pattern": r"^\(.+\)$"},
        "All of these: `(a.gt.1,or(b.eq.2,c.is.null))`. Also `not.and`.",
    ),
    "or": ({"type": "string", "pattern": r"^\(.+\)$"}, "One of these: `(a.eq.1,b.in.(2,3))`. Also `not.or`."),
    "as_of": ({"type": "string"}, "A former state: after an epoch (`5`), or at a time (`2024-03-01T09:00:00Z`)."),
}
_SHOWN = "The number of rows to show for each relation; all are counted."
_HEADERS = {
    "ETag": "The epoch's tag, for `If-None-Match`.",
    "Belvedere-Epoch": "The epoch of the rows.",
    "Content-Range": "The range of these rows and, with `Prefer: count=exact`, the number of all rows.",
    "Link": 'The URL of the next page, `rel="next"`, if there is one.',
}
_PROBLEM: Document = {
    "type": "object",
    "description": "An error (RFC 9457). `belvedere explain CODE` explains a code.",
    "required": ["title", "status", "code", "message"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "message": {"type": "string"},
        "hint": {"type": "string"},
    },
}
_ERRORS = {
    "400": "The request is not in the dialect, a value does not fit its type, or a limit is exceeded.",
    "404": "There is no such path, or no row with this key.",
    "406": "The rows are not available in the requested media type.",
    "503": "No epoch is committed yet, or the store cannot be reached: try again.",
}


def openapi_of(model: Model, limits: Limits, closed: bool, longs: bool = False) -> Document:
    """Return the whole document; with `longs` 64-bit integers are strings in answers."""
    listed = [e for e in model.entities.values() if e.field]
    paths: Document = {}
    for entity in listed:
        paths |= _entity_paths(entity, limits)
        if model.grant is None:  # roles do not see this
            paths[f"/rest/{entity.field}/why-not"] = {"get": _why_not_operation(entity)}
        if entity.by_key is not None and model.grant is None:
            paths[f"{_address(entity)}/why"] = {"get": _why_operation(entity)}
    for template in model.templates.values():
        paths[f"/rest/{template.field}"] = {"get": _template_operation(template, model, limits)}
    schemas = {e.type_name: _row(e, model) for e in model.entities.values()}
    own = (t for t in model.templates.values() if t.rows is None)
    schemas |= {t.type_name: _object(t.columns, t.template.doc) for t in own}
    schemas = _with_long_texts(schemas) if longs else schemas
    problem = "Problem"
    while problem in schemas:  # a view has this name
        problem += "_"
    schemas[problem] = _PROBLEM
    headers = {n: {"description": d, "schema": {"type": "string"}} for n, d in _HEADERS.items()}
    components: Document = {
        "schemas": schemas,
        "headers": headers,
        "responses": {f"Error{status}": _error(text, problem) for status, text in _errors().items()},
    }
    document: Document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Belvedere",
            "version": version("belvedere"),
            "description": "Views, tables and query templates in PostgREST's dialect. Each answer is of one epoch.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": components,
    }
    if closed:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


# addresses


def _entity_paths(entity: Entity, limits: Limits) -> Document:
    words = [_word(n) for n in ("select", "order", "offset", "after", "and", "or")]
    if entity.history:
        words.append(_word("as_of"))
    listed = _operation(f"list_{entity.field}", entity.name, entity.doc, [*_filters(entity), *words, _limit(limits)])
    listed["responses"] = _answers(_list(entity.type_name))
    paths: Document = {f"/rest/{entity.field}": {"get": listed}}
    if entity.by_key is not None:
        words = [_word("select"), *([_word("as_of")] if entity.history else [])]
        one = _operation(
            f"get_{entity.field}", entity.name, f"The row of {entity.name} with this key.", [*_keys(entity), *words]
        )
        one["responses"] = _answers(_reference(entity.type_name))
        paths[_address(entity)] = {"get": one}
    return paths


def _filters(entity: Entity) -> list[Document]:
    reserved = set(OF_ROOTS) | {"and", "or"}
    return [_filter(n, c, _is_needed(entity, c)) for n, c in entity.columns.items() if n not in reserved]


def _address(entity: Entity) -> str:
    """Return the path of a row."""
    return f"/rest/{entity.field}/{','.join(f'{{{n}}}' for n in entity.key)}"


def _keys(entity: Entity) -> list[Document]:
    return [
        {"name": n, "in": "path", "required": True, "schema": _scalar(c.type), **_described(c.doc)}
        for n, c in entity.key.items()
    ]


def _why_operation(entity: Entity) -> Document:
    numbers = (("depth", MAX_DEPTH, 1, "The number of views to trace through."), ("rows", MAX_ROWS, ROWS, _SHOWN))
    words = [_whole_number(*n) for n in numbers]
    doc = f"The rows that the row of {entity.name} with this key was computed from, by relation."
    found = _operation(f"why_{entity.field}", entity.name, doc, [*_keys(entity), *words])
    lists = {n: {"type": "array", "items": {"type": "object"}} for n in ("reads", "dropped", "late", "inputs")}
    row = {
        "view": {"type": "string"},
        "sql": {"type": "string"},
        "row": _reference(entity.type_name),
        **lists,
        "since": SINCE,
    }
    return _documented(found, row, "The rows it was computed from.")


def _why_not_operation(entity: Entity) -> Document:
    words = [_word("and"), _word("or"), _whole_number("limit", MAX_ROWS, ROWS, _SHOWN)]
    doc = f"The operators that drop the rows which would have made a row of {entity.name} with these filters."
    found = _operation(f"why_not_{entity.field}", entity.name, doc, [*_filters(entity), *words])
    return _documented(found, WHY_NOT, "Where they vanish.")


def _whole_number(name: str, most: int, otherwise: int, doc: str) -> Document:
    schema = {"type": "integer", "minimum": 1, "maximum": most, "default": otherwise}
    return {"name": name, "in": "query", "description": doc, "schema": schema}


def _documented(found: Document, answer: Document, doc: str) -> Document:
    """Add a 200 answer, an object with these properties, to an operation and return it."""
    content = {JSON: {"schema": {"type": "object", "required": list(answer), "properties": answer}}}
    errors = {status: {"$ref": f"#/components/responses/Error{status}"} for status in _ERRORS if status != "406"}
    found["responses"] = {
        "200": {"description": doc, "content": content},
        **errors,
        "default": {"$ref": "#/components/responses/Error"},
    }
    return found


def _template_operation(template: Template, model: Model, limits: Limits) -> Document:
    words = [_word("select"), _limit(limits), _word("offset")]
    if template.rows is not None and not template.rows.to_one:
        target = model.entities[template.rows.target]
        words += [_word(n) for n in ("order", "and", "or")]
        words += [_filter(n, c, False) for n, c in target.columns.items() if n not in (*OF_ROOTS, "and", "or")]
    words = [w for w in words if w["name"] not in template.parameters]
    own = [_argument(n, p) for n, p in template.parameters.items() if p.metadata is None]
    doc = template.template.doc or template.template.sql
    operation = _operation(f"list_{template.field}", name_of(template), doc, [*own, *words])
    operation["responses"] = _answers(_list(template.type_name))
    return operation


def _operation(name: str, tag: str, doc: str | None, parameters: Iterable[Document]) -> Document:
    return {"operationId": name, "tags": [tag], **_described(doc), "parameters": list(parameters)}


def _answers(schema: Document) -> Document:
    one = schema.get("items", schema)
    content = {JSON: {"schema": schema}, CSV: {"schema": {"type": "string"}}, OBJECT: {"schema": one}}
    answer = {"headers": {n: {"$ref": f"#/components/headers/{n}"} for n in _HEADERS}, "content": content}
    return {
        "200": {"description": "The rows.", **answer},
        "206": {"description": "A part of the rows, with `Prefer: count=exact`.", **answer},
        "304": {"description": "Not modified: the client has the answer of the last epoch."},
        **{status: {"$ref": f"#/components/responses/Error{status}"} for status in _ERRORS},
        "default": {"$ref": "#/components/responses/Error"},
    }


# parameters


def _word(name: str) -> Document:
    schema, doc = _PARAMETERS[name]
    return {"name": name, "in": "query", "description": doc, "schema": schema}


def _limit(limits: Limits) -> Document:
    schema = {"type": "integer", "minimum": 0, "maximum": limits.most_rows, "default": limits.rows}
    return {"name": "limit", "in": "query", "description": "The maximum number of rows.", "schema": schema}


def _filter(name: str, column: Column, needed: bool) -> Document:
    """Return the parameter that filters by a column."""
    own = operators_of(column)
    value = _TEXTS.get(scalar_of(column.type).name, ".*")
    compared = "|".join(o for o in own if o not in ("in", "is"))
    parts = [rf"({compared})\.{value}"] if compared else []
    parts += [r"in\.\(.*\)"] if "in" in own else []
    parts.append(rf"is\.(null|not_null{'|true|false|unknown' if pa.types.is_boolean(column.type) else ''})")
    doc = f"{column.doc} " if column.doc else ""
    return {
        "name": name,
        "in": "query",
        "required": needed,
        "description": f"{doc}An operator and a value: {', '.join(own)}; `not.` before it negates it.",
        "schema": {"type": "string", "pattern": f"^(not\\.)?({'|'.join(parts)})$"},
    }


def _is_needed(entity: Entity, column: Column) -> bool:
    return any(needed and c.name == column.name for c, needed in entity.arguments.values())


def _argument(name: str, parameter: Parameter) -> Document:
    schema = _scalar(parameter.type)
    if parameter.default is not None:
        schema["default"] = parameter.default
    needed = parameter.default is None and not parameter.nullable
    return {"name": name, "in": "query", "required": needed, "schema": schema}


# schemas


def _row(entity: Entity, model: Model) -> Document:
    row = _object(entity.columns, entity.doc)
    for name, relation in entity.relations.items():
        row["properties"][name] = _related(relation, model.entities[relation.target])
    return row


def _related(relation: RelationshipField, target: Entity) -> Document:
    own = f"Parameters: {', '.join(relation.parameters)}." if relation.parameters else ""
    said = " ".join(filter(None, (relation.doc, "A relationship; present only if selected.", own)))
    if relation.to_one:
        return {"anyOf": [_reference(target.type_name), {"type": "null"}], "description": said}
    return {**_list(target.type_name), "description": said}


def _object(columns: Mapping[str, Column], doc: str | None) -> Document:
    """Return the schema of rows with these columns. None is required, since `select` chooses them."""
    return {"type": "object", **_described(doc), "properties": {n: _column(c) for n, c in columns.items()}}


def _column(column: Column) -> Document:
    schema = _scalar(column.type)
    nullable = column.nullable or pa.types.is_floating(column.type)  # NaN and infinities are shown as null
    if nullable and "type" in schema:
        schema["type"] = [schema["type"], "null"]
    return schema | _described(column.doc)


def _scalar(type_: pa.DataType) -> Document:
    """Return the schema of a value."""
    if pa.types.is_nested(type_):
        return _nested(type_)
    return dict(_SCALARS.get(scalar_of(type_).name, {}))


def _nested(type_: pa.DataType) -> Document:
    """Return the schema of a value of a nested type, or of one in it. Any value may be null; NaN and infinities are
    strings."""
    if pa.types.is_struct(type_):
        return {"type": "object", "properties": {f.name: _inner(f.type) for f in type_}}
    if pa.types.is_map(type_):
        if has_text_keys(type_):
            return {"type": "object", "additionalProperties": _inner(type_.item_type)}
        return {"type": "array", "items": {"type": "array"}}
    return {"type": "array", "items": _inner(type_.value_type)} if is_list(type_) else {}


def _inner(type_: pa.DataType) -> Document:
    if pa.types.is_floating(type_):
        return {"anyOf": [_SCALARS["Float"], {"enum": ["NaN", "Infinity", "-Infinity"]}, {"type": "null"}]}
    if pa.types.is_time(type_) or pa.types.is_timestamp(type_):
        return {"type": ["string", "null"]}
    schema = _scalar(type_)
    return schema | {"type": [schema["type"], "null"]} if "type" in schema else schema


def _with_long_texts(schema: Any) -> Any:
    """Return a schema in which 64-bit integers are strings."""
    if isinstance(schema, list):
        return [_with_long_texts(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "int64" and "integer" in schema["type"]:
        return schema | {"type": ["string", "null"] if isinstance(schema["type"], list) else "string"}
    return {n: _with_long_texts(s) for n, s in schema.items()}


def _list(type_name: str) -> Document:
    return {"type": "array", "items": _reference(type_name)}


def _reference(type_name: str) -> Document:
    return {"$ref": f"#/components/schemas/{type_name}"}


def _described(doc: str | None) -> Document:
    return {"description": doc} if doc else {}


# errors


def _errors() -> Mapping[str, str]:
    return {**_ERRORS, "": "Another error: no valid token, or too many requests."}


def _error(text: str, schema: str) -> Document:
    return {"description": text, "content": {PROBLEM: {"schema": _reference(schema)}}}
