"""The reason that Spark cannot read a JSON text as a row of a table: the column that does not fit.

In: the text and the table's columns. Out: a reason. Spark has already decided that the text does not fit. This module
searches for a value that is certainly of another type, and only then for a time whose format Spark may not know.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from belvedere.connectors.reading.misfits import misfit_of
from belvedere.schema import MONTHS, Column
from belvedere.values.rejections import Reason, RejectionKind

FLOATS = ("nan", "infinity", "+infinity", "-infinity", "inf", "+inf", "-inf")
MAX_VALUE_LENGTH = 200
T = pa.types


def explain_json(text: str, columns: Sequence[Column]) -> Reason:
    """Return the reason that `text` is not a row of these columns."""
    try:
        value = json.loads(text)
    except RecursionError:
        return Reason("is nested too deeply")
    except ValueError as error:
        return Reason(f"is not JSON: {error}", RejectionKind.NOT_JSON, "is not JSON")
    if not isinstance(value, dict):
        return Reason("is not a JSON object", RejectionKind.NOT_JSON)
    for fits in (_may_fit, _fits):
        for c in columns:
            member = value.get(c.name)
            if member is not None and not fits(member, c.type):
                return misfit_of(c, _shown(member))
    return Reason("does not match the types of its table")


def _shown(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)[:MAX_VALUE_LENGTH]
    except RecursionError:
        return "a deeply nested value"


def _may_fit(value: Any, type_: pa.DataType) -> bool:
    """Return whether a value may be of the type; True for every text that may be a time."""
    if type_ == MONTHS:
        return isinstance(value, str) and re.fullmatch(r"[+-]?\d+-\d+", value.strip()) is not None
    if T.is_duration(type_):
        return isinstance(value, str)
    if T.is_timestamp(type_) or T.is_date(type_):
        return isinstance(value, str) or _is_whole(value)
    return _fits(value, type_, _may_fit)


def _fits(value: Any, type_: pa.DataType, inner: Callable[[Any, pa.DataType], bool] | None = None) -> bool:
    """Return whether a value is of the type; times must be in ISO 8601."""
    inner = inner or _fits
    if T.is_list(type_):
        return isinstance(value, list) and all(v is None or inner(v, type_.value_type) for v in value)
    if T.is_struct(type_):
        return isinstance(value, dict) and all(value.get(f.name) is None or inner(value[f.name], f.type) for f in type_)
    if T.is_map(type_):
        return isinstance(value, dict) and all(v is None or inner(v, type_.item_type) for v in value.values())
    if T.is_integer(type_):
        return _is_whole(value) and -(1 << type_.bit_width - 1) <= value < 1 << type_.bit_width - 1
    if T.is_floating(type_):
        return _is_number(value) or (isinstance(value, str) and value.casefold() in FLOATS)
    if T.is_decimal(type_):
        return _is_decimal(value, type_)
    if T.is_boolean(type_):
        return isinstance(value, bool)
    if T.is_binary(type_):
        return isinstance(value, str) and _parses(lambda text: base64.b64decode(text, validate=True), value)
    if T.is_timestamp(type_):
        return _is_whole(value) or _parses(datetime.fromisoformat, value)
    if T.is_date(type_):
        return _is_whole(value) or _parses(lambda text: date.fromisoformat(text[:10]), value)
    return True


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_decimal(value: Any, type_: pa.DataType) -> bool:
    if not (_is_number(value) or isinstance(value, str)):
        return False
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return False
    return number.is_finite() and (not number or number.adjusted() < type_.precision - type_.scale)


def _parses(parse: Callable[[str], Any], value: Any) -> bool:
    try:
        parse(value)
    except (ValueError, TypeError):
        return False
    return True
