"""`Name(1, city => 'Ulm')`: a call of a query template, expanded to its query.

In: the text of a call, the statements that define templates. Out: the statement of the query, with the parameters
replaced by arguments of the parameters' types. It resolves nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from belvedere.errors import BelvedereError, counted, fail
from belvedere.functions.spark_types import arrow_type, is_interval
from belvedere.lang.endpoints.parameters import literal_of
from belvedere.lang.types.leaf_types import parameter_name
from belvedere.spark_sql.dialect import SparkSql
from belvedere.syntax.statement_tree import DefineTemplate, TemplateParameter
from belvedere.syntax.wording import did_you_mean

_CALL = re.compile(r"\s*`?(\w+)`?\s*(\(.*\))\s*;?\s*", re.DOTALL)


def called_template(text: str, templates: Mapping[str, DefineTemplate]) -> DefineTemplate | None:
    """Return the query of a call; None if the text is not a call of a template in `templates` (by folded name). Raises
    B9126."""
    found = _CALL.fullmatch(text)
    template = templates.get(found[1].casefold()) if found else None
    if found is None or template is None:
        return None
    given = _arguments(found[2], template)
    query = template.query.copy()
    for placeholder in list(query.find_all(exp.Placeholder)):
        value = given.get(parameter_name(placeholder).casefold())
        if value is not None:
            placeholder.replace(value.copy())
    return replace(template, path=None, parameters=(), query=query, hints=())


def form_of_call(template: DefineTemplate) -> str:
    """Return the signature of a template: `Near(city STRING, most INT = 5)`. Claims of the caller's token are not
    arguments."""
    assert template.path is not None
    return f"{template.path.text}({', '.join(map(_written, _asked(template).values()))})"


def _asked(template: DefineTemplate) -> dict[str, TemplateParameter]:
    """Return the parameters that a call passes, by folded name."""
    return {p.name.text.casefold(): p for p in template.parameters if p.metadata is None}


def _written(parameter: TemplateParameter) -> str:
    default = f" = {parameter.default.sql('spark')}" if parameter.default is not None else ""
    return f"{parameter.name.text} {parameter.type.sql('spark')}{default}"


def _arguments(brackets: str, template: DefineTemplate) -> dict[str, exp.Expr]:
    """Return the values of all parameters by folded name."""
    try:
        call = sqlglot.parse_one(f"SELECT f{brackets}", dialect=SparkSql).expressions[0]
    except (ParseError, TokenError) as error:
        raise _wrong(template, "cannot be read as a call") from error
    asked, given = _asked(template), dict[str, exp.Expr]()
    for argument in call.expressions:
        is_named = isinstance(argument, exp.Kwarg | exp.EQ)
        name = argument.this.name.casefold() if is_named else next((n for n in asked if n not in given), "")
        if name in given:
            raise _wrong(template, f"gives `{asked[name].name.text}` twice")
        if name not in asked:
            takes = f"takes {counted(len(asked), 'argument')}"
            said = f"has no parameter `{argument.this.name}`" if is_named else takes
            raise _wrong(
                template, said, did_you_mean(name, [p.name.text for p in asked.values()]) if is_named else None
            )
        given[name] = _value(argument.expression if is_named else argument, asked[name], template)
    for name, parameter in asked.items():
        if name not in given and parameter.default is not None:
            given[name] = _value(parameter.default, parameter, template)
        elif name not in given:
            raise _wrong(template, f"needs a value of `{parameter.name.text}`")
    return given


def _value(written: exp.Expr, parameter: TemplateParameter, template: DefineTemplate) -> exp.Expr:
    """Return a literal as an expression of the parameter's type."""
    type_ = arrow_type(parameter.type)
    value = literal_of(written, type_) if type_ is not None and not is_interval(type_) else None
    if value is None or type_ is None or value in (math.inf, -math.inf):
        raise _wrong(template, f"takes a literal of {parameter.type.sql('spark')} for `{parameter.name.text}`")
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if pa.types.is_string(type_):
        return exp.Literal.string(str(value))
    if pa.types.is_int32(type_):
        return exp.Literal.number(value)
    return exp.Cast(this=_literal(value, type_), to=parameter.type.copy())


def _literal(value: float | str, type_: pa.DataType) -> exp.Expr:
    if isinstance(value, int):
        return exp.Literal.number(value)
    if pa.types.is_floating(type_):
        text = repr(float(value))
        return exp.Literal(this=text if "e" in text else text + "e0", is_string=False)
    return exp.Literal(this=value, is_string=not pa.types.is_decimal(type_))


def _wrong(template: DefineTemplate, said: str, hint: str | None = None) -> BelvedereError:
    form = form_of_call(template)
    return fail("B9126", f"the call of `{form.partition('(')[0]}` {said}", hint=hint or f"it is `{form}`")
