"""A role's condition on rows, as in the project file: `tenant = claim('tenant')`.

In: the text, the columns of the rows, and the text's position. Out: a `RowCondition` over the columns, whose
placeholders are claims of the caller's token; or a diagnostic at its position. A claim has the type of the value that
it is compared with, or of the CAST around it, else STRING.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.access import RowCondition
from belvedere.catalog.inputs import Metadata, MetadataKind
from belvedere.catalog.templates import Parameter
from belvedere.errors import BelvedereError, Diagnostic, Span, fail
from belvedere.functions.spark_types import Typed, a_type, arrow_type
from belvedere.lang.endpoints.parameters import compared_with
from belvedere.lang.names.definitions import Definitions
from belvedere.lang.names.resolve import Resolver
from belvedere.lang.select.query_frame import Frame, StatementContext, named_source
from belvedere.plan.expressions import column, map_columns
from belvedere.plan.operators.nodes import Expr, Scan
from belvedere.schema import Schema
from belvedere.syntax.parse import parse_script
from belvedere.syntax.statement_tree import DefineView

BEFORE = "c := SELECT * FROM r WHERE "
CLAIM = "claim"
_PLAIN = {"kind", "expressions", "from_", "where"}


def row_condition(text: str, schema: Schema, name: str, place: Span | None) -> RowCondition:
    """Return the condition on rows of `name`.

    `place` is the position of the text, or of its key. Raises a diagnostic if it is wrong.
    """
    try:
        return _ConditionReader(schema, name).read(text)
    except BelvedereError as error:
        raise BelvedereError(_placed(d, text, place) for d in error.diagnostics) from None


def _placed(found: Diagnostic, text: str, place: Span | None) -> Diagnostic:
    """Return the diagnostic with its position in the project file."""
    if place is None or place.end - place.start != len(text):
        return replace(found, span=place, labels=(), fix=None)
    start, end = (
        (0, len(text)) if found.span is None else (found.span.start - len(BEFORE), found.span.end - len(BEFORE))
    )
    start = min(max(start, 0), len(text))
    span = Span(place.file, place.start + start, place.start + min(max(end, start), len(text)))
    return replace(found, span=span, labels=(), fix=None)


class _ConditionReader:
    """Reads conditions over one relation."""

    def __init__(self, schema: Schema, name: str):
        self._name, self._schema = name, schema
        self._context = StatementContext(Definitions(), "", [], _no_query, _no_query)
        self._frame = Frame(self._context)
        self._frame.plan, source = named_source(Scan(name, schema), "r", self._context.names)
        self._frame.scope.sources.append(source)
        self._columns = {c.internal: c.name for c in source.columns}
        self._claims: dict[str, Parameter] = {}

    def read(self, text: str) -> RowCondition:
        """Return the condition; its columns are those of the relation."""
        written = self._parsed(text)
        for call in sorted(written.find_all(exp.Anonymous), key=lambda c: c.meta.get("start", 0)):
            if call.name.casefold() == CLAIM:
                written = self._with_claim(written, call)
        self._context.parameters.update({p.name: Typed(p.type, True) for p in self._claims.values()})
        resolved = Resolver(self._frame).resolve(written)
        self._frame.check_condition(resolved, written, "a condition on rows")
        condition = map_columns(resolved, lambda c: column(self._columns[c.name]))
        return RowCondition(condition, self._schema, tuple(self._claims.values()))

    def _parsed(self, text: str) -> Expr:
        script = parse_script(BEFORE + text)
        if script.diagnostics:
            raise BelvedereError(script.diagnostics)
        statement = script.statements[0] if len(script.statements) == 1 else None
        query = statement.query if isinstance(statement, DefineView) else None
        clauses = {k for k, v in query.args.items() if v} if isinstance(query, exp.Select) else set()
        if query is None or "where" not in clauses or not clauses <= _PLAIN:
            raise fail(
                "B9107",
                f"the rows of `{self._name}` need exactly one condition",
                hint="write a condition as after WHERE",
            )
        found: Expr = query.args["where"].this
        for kind, what in ((exp.Query, "a subquery"), (exp.Placeholder, "a parameter"), (exp.Parameter, "a parameter")):
            inner = found.find(kind)
            if inner is not None:
                hint = "compare columns of the row with literals and claims: tenant = claim('tenant')"
                raise self._context.fail("B9107", f"{what} is not allowed in a condition on rows", inner, hint)
        return found

    def _with_claim(self, written: Expr, call: exp.Anonymous) -> Expr:
        """Return the condition with a placeholder for one call of claim(...)."""
        path = self._path(call)
        cast = call.parent if isinstance(call.parent, exp.Cast) else None
        type_ = self._type(call, cast)
        name = f"{CLAIM} {'.'.join(path)} {type_}"
        metadata = Metadata(MetadataKind.CLAIM, path)
        self._claims[name] = Parameter(name, type_, nullable=True, metadata=metadata)
        replaced = cast or call
        placeholder = exp.Placeholder(this=name)
        placeholder.meta.update(replaced.meta)
        if replaced is written:
            return placeholder
        replaced.replace(placeholder)
        return written

    def _path(self, call: exp.Anonymous) -> tuple[str, ...]:
        """Return the path of a claim: `claim('a.b')` is the member `b` of the claim `a`. Dots in a claim whose name is
        a URI do not separate."""
        given = call.expressions[0] if len(call.expressions) == 1 else None
        text = given.name if isinstance(given, exp.Literal) and given.is_string else ""
        path = (text,) if "://" in text else tuple(text.split("."))
        if not all(path):
            raise self._context.fail(
                "B9107", "claim(...) takes the name of a claim as a string", call, "write claim('tenant')"
            )
        return path

    def _type(self, call: exp.Anonymous, cast: exp.Cast | None) -> pa.DataType:
        found = self._cast_type(cast) if cast is not None else self._compared_type(call)
        if pa.types.is_nested(found) or pa.types.is_binary(found):
            raise self._context.fail(
                "B3002", f"a claim is not {a_type(found)}", call, "compare it with a text, a number or a boolean"
            )
        return found

    def _cast_type(self, cast: exp.Cast) -> pa.DataType:
        found = arrow_type(cast.args["to"])
        if found is None:
            raise self._context.fail("B3003", f"type {cast.args['to'].sql()} is not supported", cast)
        return found

    def _compared_type(self, call: exp.Anonymous) -> pa.DataType:
        inner: Expr = call
        while isinstance(inner.parent, exp.Paren | exp.Tuple):
            inner = inner.parent
        parent = inner.parent
        if (
            parent is None
            or isinstance(parent, exp.And | exp.Or | exp.Not)
            or (isinstance(parent, exp.If) and parent.this is inner)
        ):
            return pa.bool_()
        sides = (parent.this, parent.expression) if isinstance(parent, exp.Add | exp.Sub | exp.Mul) else ()
        for other in (*compared_with(parent), *(s for s in sides if s is not inner)):
            if not any(a.name.casefold() == CLAIM for a in other.find_all(exp.Anonymous)):
                return self._frame.inference().typed(Resolver(self._frame).resolve(other)).type
        return pa.string()


def _no_query(query: exp.Expr, context: StatementContext, *_: object, **__: object) -> NoReturn:
    raise context.fail("B9107", "a subquery is not allowed in a condition on rows", query)
