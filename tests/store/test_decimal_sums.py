"""Sums and averages of decimals in SQLite are exact for all 38 digits, against Python's."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.store.dialects import DIALECTS
from belvedere.store.dialects.codec import form
from belvedere.store.dialects.dialect import Made
from belvedere.store.dialects.sqlite.python_sqlite import library as sqlite
from belvedere.store.dialects.sqlite.sqlite_decimal_sums import mean_of_decimals, sum_of_decimals
from tests.depth import examples

SQLITE = DIALECTS["sqlite"]


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.DataType, list[Decimal | None]]:
    digits = draw(st.integers(1, 38))
    type_ = pa.decimal128(digits, draw(st.integers(0, digits)))
    most = 10 ** draw(st.integers(0, digits)) - 1
    numbers = st.integers(draw(st.sampled_from([-most, 0])), most).map(lambda n: Decimal(n).scaleb(-type_.scale))
    return type_, draw(st.lists(st.one_of(st.none(), numbers, numbers, numbers), max_size=8))


def stored(
    type_: pa.DataType, values: list[Decimal | None], make: Callable[[str, pa.DataType], Made]
) -> tuple[Any, str]:
    """What SQLite makes of a column: the stored value, and as the API shows it."""
    how = form(SQLITE, type_)
    pieces, value = make("v", type_)
    names = tuple(f"a{n}" for n in range(len(pieces)))
    inner = ",".join(f"{sql} AS {name}" for sql, name in zip(pieces, names, strict=True))
    result = made_type(type_, make)
    with sqlite.connect(":memory:") as connection:
        connection.execute(f"CREATE TABLE x (v {how.sql})")
        connection.executemany(
            "INSERT INTO x VALUES (?)", [(v,) for v in how.encode(pa.array(values, type_)).to_pylist()]
        )
        text = SQLITE.json_text("r", result)
        found, shown = connection.execute(
            f"SELECT r,{text} FROM (SELECT {value(names)} AS r FROM (SELECT {inner} FROM x))"
        ).fetchone()
    connection.close()
    back = form(SQLITE, result)
    return back.decode(pa.array([found], back.flat))[0].as_py(), shown


def made_type(type_: pa.DataType, make: Callable[[str, pa.DataType], Made]) -> pa.DataType:
    digits, behind = (10, 0) if make is sum_of_decimals else (4, 4)
    return pa.decimal128(min(38, type_.precision + digits), min(38, type_.scale + behind))


def exact(values: list[Decimal], scale: int, mean: bool) -> Decimal | None:
    with localcontext(prec=120):
        total = sum(values, Decimal(0)) / (len(values) or 1 if mean else 1)
        return total.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP) if values else None


@pytest.mark.parametrize("make", [sum_of_decimals, mean_of_decimals])
@settings(max_examples=examples(200), deadline=None)
@given(column=columns())
def test_sums_and_averages(
    make: Callable[[str, pa.DataType], Made], column: tuple[pa.DataType, list[Decimal | None]]
) -> None:
    type_, values = column
    result, known = made_type(type_, make), [v for v in values if v is not None]
    expected = exact(known, result.scale, make is mean_of_decimals)
    total = exact(known, type_.scale, mean=False)
    summed = made_type(type_, sum_of_decimals)
    fits = all(
        v is None or abs(v) < Decimal(10) ** (t.precision - t.scale) for v, t in ((expected, result), (total, summed))
    )
    if not fits:
        with pytest.raises(sqlite.OperationalError, match="integer overflow"):
            stored(type_, values, make)
        return
    found, shown = stored(type_, values, make)
    assert found == expected
    assert shown == ("null" if expected is None else f'"{expected:f}"'.replace("-0.", "-0." if expected else "0."))


def test_a_sum_beyond_its_type_is_no_unknown_error() -> None:
    wide = [Decimal("9" * 38)] * 2
    with pytest.raises(sqlite.OperationalError) as error:
        stored(pa.decimal128(38, 0), list(wide), sum_of_decimals)
    assert SQLITE.fault(error.value, "sqlite:///shop.db").diagnostics[0].code == "B7088"
