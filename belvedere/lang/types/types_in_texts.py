"""Types given by a text argument: `from_json(x, 'a INT')`, `to_number(x, '99.9')`, `variant_get(v, '$.a', 'int')`.

In: a call. Out: its type, or a diagnostic if the text is not a constant or not a type.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ParseError

from belvedere.functions import spark_types as t
from belvedere.functions.function_table import function_name, shown_name
from belvedere.functions.spark_types import Typed
from belvedere.lang.types.constant_checks import is_constant
from belvedere.lang.types.json_schemas import schema_of
from belvedere.lang.types.typing_scope import TypeScope, children
from belvedere.schema import VARIANT

_NUMBER_FORMAT = re.compile(r"(?i)(?:MI|S)?[$L]?(?P<whole>[09,G]*)(?:[.D](?P<fraction>[09]*))?[$L]?(?:MI|S|PR)?")


def from_text(scope: TypeScope, expr: Any) -> Typed:
    """Return the type of `from_json(text, 'a INT, b STRING')`, `from_csv` and `from_xml`: the schema text gives it."""
    name = shown_name(expr)
    arguments = children(expr)
    schema = arguments[1] if len(arguments) > 1 else None
    scope.typed(arguments[0])
    found = _schema(schema)
    requested = pa.types.is_nested(found) or found == VARIANT if found is not None and name == "from_json" else None
    if found is None or not (pa.types.is_struct(found) if requested is None else requested):
        raise scope.fail("B3003", f"{name} needs a constant schema", expr, f"write {name}(x, 'a INT, b STRING')")
    return Typed(found, True)


def _schema(schema: exp.Expr | None) -> pa.DataType | None:
    if isinstance(schema, exp.Literal) and schema.is_string:
        return _type_of(schema.name) or _type_of(f"STRUCT<{schema.name}>")
    if isinstance(schema, exp.Anonymous) and schema.name.lower() == "schema_of_json" and len(schema.expressions) == 1:
        sample = schema.expressions[0]
        return schema_of(sample.name) if isinstance(sample, exp.Literal) and sample.is_string else None
    return None


def _type_of(text: str) -> pa.DataType | None:
    try:
        found = t.arrow_type(exp.DataType.build(text, dialect="spark"))
    except (ParseError, ValueError):
        return None
    empty = (
        found is not None and pa.types.is_struct(found) and not found.num_fields
    )  # sqlglot drops the parts that it cannot parse
    return None if empty else found


OPTIONS = {
    **dict.fromkeys(("FromJson", "from_json", "from_csv", "from_xml"), 2),
    **dict.fromkeys(("JSONFormat", "to_csv", "to_xml", "schema_of_json", "schema_of_csv", "schema_of_xml"), 1),
}
"""Index, from 0, of the argument of a function that holds options."""


def check_options(scope: TypeScope, call: exp.Expr) -> None:
    """Check that options are a map of constant texts, such as `map('mode', 'FAILFAST')`."""
    place = OPTIONS.get(function_name(call))
    given = children(call) if place is not None else []
    if place is None or len(given) <= place:
        return
    options = given[place]
    texts = [e for array in children(options) for e in array.expressions] if isinstance(options, exp.VarMap) else []
    if not texts or not all(is_constant(e) and scope.type(e) == t.STRING for e in texts):
        hint = "write map('name', 'value', ...)"
        raise scope.fail("B3002", f"the options of `{shown_name(call)}` must be a map of strings", options, hint)


def to_number(scope: TypeScope, expr: Any) -> Typed:
    """Return the type of `to_number(text, '$99.9')`: a decimal with the digits of the format."""
    text, written = children(expr)
    if scope.type(text) not in (t.STRING, t.NULL):
        raise scope.fail(
            "B3002", f"`{shown_name(expr)}` takes a string, not {t.a_type(scope.type(text))}", text, "remove it"
        )
    found = _NUMBER_FORMAT.fullmatch(written.name) if isinstance(written, exp.Literal) and written.is_string else None
    digits = [len(re.sub("[^09]", "", part or "")) for part in found.groups()] if found is not None else [0, 0]
    if not 0 < sum(digits) <= t.MAX_PRECISION:
        raise scope.fail(
            "B3003", f"`{shown_name(expr)}` needs a format of digits", written, "write a string such as '999.99'"
        )
    return Typed(pa.decimal128(sum(digits), digits[1]), True)


def variant_get(scope: TypeScope, expr: Any) -> Typed:
    """Return the type of `variant_get(v, '$.a', 'int')`: the given type, or VARIANT by default."""
    value, _, *rest = children(expr)
    if scope.type(value) not in (VARIANT, t.NULL):
        hint = "write variant_get(parse_json(text), '$.a', 'int'), or get_json_object(text, '$.a')"
        raise scope.fail("B3002", f"a VARIANT is needed here, not {t.a_type(scope.type(value))}", value, hint)
    found = VARIANT if not rest else _type_of(rest[0].name) if isinstance(rest[0], exp.Literal) else None
    if found is None:
        raise scope.fail(
            "B3003",
            "the type of the part must be a constant string",
            rest[0],
            "write 'int', 'string', 'array<int>', ...",
        )
    return Typed(found, True)
