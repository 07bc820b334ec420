"""Every type comes back exactly as it went in, in both forms; the forms sort as the values do."""

from __future__ import annotations

import decimal
import math
import sqlite3
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from belvedere.errors import BelvedereError
from belvedere.schema import PACKED, TIMESTAMP, Column, Schema
from belvedere.store import Store, StoredTable
from belvedere.store.dialects import DIALECTS
from belvedere.store.dialects.codec import form, scalar
from belvedere.store.dialects.sqlite.sqlite_decimals import DecimalForm, decimal_form, decimal_to_text_sql
from belvedere.store.read.typed_sql import NameBindings, TypedSql, alike
from tests.depth import examples
from tests.store.samples import code, delta, epoch

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["\0", "a\0\x01\x02", "\x01\x01", "ü\U0001f600"]
)
DOUBLE = st.floats() | st.sampled_from([-0.0, 0.0, math.inf, -math.inf, math.nan, 5e-324])
INSTANT = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    context = decimal.Context(prec=76)
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-scale, context)) | st.just(
        Decimal(0).scaleb(-scale)
    )


INNER = pa.struct([
    ("text", pa.string()), ("double", pa.float64()), ("decimal", pa.decimal128(30, 10)), ("at", TIMESTAMP),
    ("day", pa.date32()),
    ("bytes", pa.binary()), ("yes", pa.bool_()), ("count", pa.int64()), ("long", pa.duration("us")),
    ("clock", pa.time64("us")),
])  # fmt: skip
INNER_VALUES = st.fixed_dictionaries({
    "text": st.none() | TEXT, "double": st.none() | DOUBLE, "decimal": st.none() | decimals(30, 10),
    "at": st.none() | INSTANT,
    "day": st.none() | st.dates(), "bytes": st.none() | st.binary(max_size=4), "yes": st.none() | st.booleans(),
    "count": st.none() | st.integers(-(2**63), 2**63 - 1),
    "long": st.none() | st.timedeltas(timedelta(-9999), timedelta(9999)),
    "clock": st.none() | st.times(),
})  # fmt: skip

DEEP = st.lists(
    st.fixed_dictionaries({"x": st.none() | st.lists(st.lists(st.integers(-9, 9), max_size=2), max_size=2)}), max_size=2
)

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": (pa.bool_(), st.booleans()),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "short": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "unsigned": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), DOUBLE),
    "decimal_5_0": (pa.decimal128(5, 0), decimals(5, 0)),
    "decimal_10_2": (pa.decimal128(10, 2), decimals(10, 2)),
    "decimal_18_18": (pa.decimal128(18, 18), decimals(18, 18)),
    "decimal_19_0": (pa.decimal128(19, 0), decimals(19, 0)),
    "decimal_38_10": (pa.decimal128(38, 10), decimals(38, 10)),
    "decimal_38_38": (pa.decimal128(38, 38), decimals(38, 38)),
    "string": (pa.string(), TEXT),
    "large_string": (pa.large_string(), TEXT),
    "binary": (pa.binary(), st.binary(max_size=8)),
    "date": (pa.date32(), st.dates()),
    "timestamp": (TIMESTAMP, INSTANT),
    "local": (pa.timestamp("us"), st.datetimes()),
    "seconds": (pa.timestamp("s"), st.datetimes().map(lambda d: d.replace(microsecond=0))),
    "clock": (pa.time64("us"), st.times()),
    "clock_seconds": (pa.time32("s"), st.times().map(lambda t: t.replace(microsecond=0))),
    "duration": (pa.duration("us"), st.timedeltas(timedelta(-99999), timedelta(99999))),
    "interval": (pa.month_day_nano_interval(), st.tuples(*[st.integers(-999, 999)] * 3).map(pa.MonthDayNano)),
    "nothing": (pa.null(), st.none()),
    "list": (pa.list_(pa.float64()), st.lists(st.none() | DOUBLE, max_size=3)),
    "packed": (PACKED, st.lists(DOUBLE, max_size=3)),
    "struct": (INNER, INNER_VALUES),
    "map": (pa.map_(pa.string(), INNER), st.dictionaries(TEXT, st.none() | INNER_VALUES,
                                                         max_size=2).map(lambda d: list(d.items()))),
    "deep": (pa.list_(pa.struct([("x", pa.list_(pa.list_(pa.int64())))])), DEEP),
}  # fmt: skip

TABLE = StoredTable(
    "All types", Schema(tuple(Column(name, type_) for name, (type_, _) in TYPES.items())), fingerprint="types"
)


def exact(value: Any) -> Any:
    """A value as something whose equality tells -0.0 from 0.0 and finds NaN equal to NaN."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("d", value)
    if isinstance(value, dict):
        return {k: exact(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [exact(v) for v in value]
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC)
    return value


@pytest.mark.deep
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_each_type_round_trips(dialect: str, data: st.DataObject) -> None:
    for type_, values in TYPES.values():
        array = pa.array(data.draw(st.lists(st.none() | values, max_size=3)), type_)
        how = form(DIALECTS[dialect], type_)
        flat = how.encode(array)
        assert flat.type == how.flat
        back = how.decode(flat)
        assert back.type == type_
        assert exact(back.to_pylist()) == exact(array.to_pylist())


@pytest.mark.deep
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_all_types_round_trip_through_the_store(store: Store, data: st.DataObject) -> None:
    store.drop([TABLE.name])
    store.create([TABLE])
    one = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in TYPES.items()})
    rows = [{**r, "_key": str(i)} for i, r in enumerate(data.draw(st.lists(one, max_size=4)))]
    batch = pa.Table.from_pylist(rows, TABLE.arrow)
    transaction = store.begin()
    transaction.append(TABLE.name, batch.to_reader())
    found = transaction.lookup(TABLE.name).read_all()
    assert found.schema == TABLE.arrow
    assert exact(found.to_pylist()) == exact(batch.to_pylist())
    transaction.apply(TABLE.name, delta([(r, w) for r in rows for w in (-1, 1)], TABLE))
    again = sorted(transaction.lookup(TABLE.name).read_all().to_pylist(), key=lambda r: str(r["_key"]))
    assert exact(again) == exact(batch.to_pylist())
    last = store.last_epoch()
    transaction.commit(epoch(last.epoch + 1 if last else 1))
    reader = store.reader()
    assert exact(reader.rows(TABLE).to_pylist()) == exact(batch.to_pylist())
    reader.close()


@pytest.mark.parametrize(("precision", "scale"), [(5, 2), (18, 0), (18, 18), (19, 0), (38, 10), (38, 38), (38, 0)])
@pytest.mark.deep
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_decimals_sort_and_print_in_sqlite_as_numbers(precision: int, scale: int, data: st.DataObject) -> None:
    type_ = pa.decimal128(precision, scale)
    values = data.draw(st.lists(decimals(precision, scale), min_size=1, max_size=6))
    flat = form(DIALECTS["sqlite"], type_).encode(pa.array(values, type_)).to_pylist()
    assert [v for _, v in sorted(zip(flat, values, strict=True))] == sorted(values)
    how = decimal_form(type_)
    context = decimal.Context(prec=76)
    assert [how.encode(int(v.scaleb(scale, context))) for v in values] == flat
    with sqlite3.connect(":memory:") as connection:
        texts = [connection.execute(f"SELECT {decimal_to_text_sql('?1', type_)}", (f,)).fetchone()[0] for f in flat]
    assert texts == [format(abs(v) if v == 0 else v, "f") for v in values]


SIZES = st.one_of(
    st.sampled_from([pa.int8(), pa.int32(), pa.int64()]),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: pa.decimal128(p, s))),
)


@pytest.mark.deep
@settings(max_examples=examples(120), deadline=None)
@given(types=st.tuples(SIZES, SIZES), data=st.data())
def test_decimals_of_any_two_sizes_compare_in_sqlite_as_numbers(
    types: tuple[pa.DataType, pa.DataType], data: st.DataObject
) -> None:
    values = [data.draw(_numbers(type_)) for type_ in types]
    near = data.draw(st.booleans())
    if near and pa.types.is_decimal(types[1]):  # the same number, where the other type has it
        values[1] = _as(values[0], types[1]) or values[1]
    sides = [TypedSql(f"?{n + 1}", type_) for n, type_ in enumerate(types)]
    left, right = alike(exp.true(), *sides, NameBindings(DIALECTS["sqlite"], lambda column: sides[0]))
    stored = [
        form(DIALECTS["sqlite"], type_).encode(pa.array([v], type_)).to_pylist()[0]
        for v, type_ in zip(values, types, strict=True)
    ]
    with sqlite3.connect(":memory:") as connection:
        (found,) = connection.execute(
            f"SELECT (({left.sql})<({right.sql}))||(({left.sql})=({right.sql}))", stored
        ).fetchall()
    assert found[0] == f"{int(values[0] < values[1])}{int(values[0] == values[1])}"


def _numbers(type_: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_decimal(type_):
        return decimals(type_.precision, type_.scale)
    return st.integers(-(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1) - 1)


def _as(value: Any, type_: pa.DataType) -> decimal.Decimal | None:
    try:
        return pa.scalar(Decimal(value)).cast(type_).as_py()  # type: ignore[no-any-return]
    except pa.ArrowInvalid:
        return None


@pytest.mark.parametrize("precision", [5, 38])
def test_a_decimal_beyond_its_type_sorts_beyond_all(precision: int) -> None:
    how, most = DecimalForm(precision, 0), 10**precision - 1
    low, high = how.encode(-most), how.encode(most)
    assert how.encode(-most - 1) < low < high < how.encode(most + 1)  # type: ignore[operator]
    assert how.never not in (low, high)


def test_nan_sorts_after_all_numbers_in_sqlite() -> None:
    with sqlite3.connect(":memory:") as connection:
        found = connection.execute("SELECT column1 FROM (VALUES ('NaN'), (9e999), (-9e999), (1)) ORDER BY 1").fetchall()
    assert [f[0] for f in found] == [-math.inf, 1, math.inf, "NaN"]


def test_more_doubles_than_bits(store: Store) -> None:
    wide = StoredTable("wide", Schema(tuple(Column(f"c{i}", pa.float64()) for i in range(130))))
    values = {f"c{i}": math.nan if i % 3 == 0 else None if i % 3 == 1 else float(i) for i in range(130)}
    store.create([wide])
    transaction = store.begin()
    transaction.append("wide", pa.Table.from_pylist([{**values, "_key": "a"}], wide.arrow).to_reader())
    found = transaction.lookup("wide").read_all().to_pylist()
    assert exact(found) == exact([{**values, "_key": "a"}])
    transaction.rollback()


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_single_values(dialect: str) -> None:
    at = datetime(2020, 1, 1, tzinfo=UTC)
    assert scalar(DIALECTS["sqlite"], TIMESTAMP, at) == 1577836800000000
    assert scalar(DIALECTS["postgres"], TIMESTAMP, at) == at
    assert scalar(DIALECTS["sqlite"], pa.date32(), date(1970, 1, 2)) == 1
    assert scalar(DIALECTS["sqlite"], pa.decimal128(5, 2), Decimal("1.5")) == 150
    assert scalar(DIALECTS[dialect], pa.time64("us"), time(0, 0, 1)) == 1_000_000
    with pytest.raises(BelvedereError) as error:
        scalar(DIALECTS[dialect], pa.int64(), "many")
    assert code(error.value) == "B7012"


@pytest.mark.parametrize("type_", [pa.uint64(), pa.decimal256(50, 2), pa.dictionary(pa.int8(), pa.string())])
@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_other_types_are_refused(dialect: str, type_: pa.DataType) -> None:
    with pytest.raises(BelvedereError) as error:
        form(DIALECTS[dialect], type_)
    assert code(error.value) == "B7012"
