"""Aggregates of endpoints and relationships, against what Python computes of the rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader

from belvedere.api.failures import RequestError
from belvedere.api.graphql.api import Api, execute_graphql
from belvedere.api.limits import Limits

CATALOG = example.catalog()
THINGS = [t | {"wide": t["wide"] if t["wide"] is None else Decimal(f"{t['wide']:.3f}")} for t in example.things()]
COLUMNS = {"id": "id", "flag": "flag", "small": "small", "big": "big", "price": "price", "wide": "wide", "name": "name",
           "at": "at",
           "day": "day", "address_city": "address.city"}  # fmt: skip


def ask(reader: Any, text: str, **variables: Any) -> Any:
    answer = execute_graphql(CATALOG, None, reader, text, variables)
    assert "errors" not in answer, answer
    return answer["data"]


def known(column: str, rows: Iterable[dict[str, Any]] = THINGS) -> list[Any]:
    return [r[column] for r in rows if r[column] is not None]


def shown(value: Any) -> Any:
    """A value as the API shows it."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        text = value.astimezone(UTC).replace(tzinfo=None).isoformat()
        return text + "Z"
    return value.isoformat() if hasattr(value, "isoformat") else value


def mean(values: list[Decimal], scale: int) -> Decimal:
    with localcontext(prec=100):
        return (sum(values) / len(values)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)


def extreme(choose: Callable[[Any], Any], column: str) -> Any:
    return shown(choose(known(column)))


def test_one_group_of_all_rows(reader: Any) -> None:
    names = " ".join(COLUMNS)
    data = ask(reader, f"{{ thingsAggregate {{ count countOf {{ {names} raw tags info ratio }} countDistinct {{ "
                       f"{names} raw }} min {{ {names} }} max {{ {names} }} }} }}")  # fmt: skip
    (found,) = data["thingsAggregate"]
    assert found["count"] == len(THINGS)
    columns = COLUMNS | {"raw": "raw", "tags": "tags", "info": "info", "ratio": "ratio"}
    assert found["countOf"] == {n: len(known(c)) for n, c in columns.items()}
    assert found["countDistinct"] == {n: len(set(known(c))) for n, c in (COLUMNS | {"raw": "raw"}).items()}
    assert found["min"] == {n: extreme(min, c) for n, c in COLUMNS.items()}
    assert found["max"] == {n: extreme(max, c) for n, c in COLUMNS.items()}
    assert len(reader.statements) == 1


def test_sums_and_averages(reader: Any) -> None:
    data = ask(reader, "{ thingsAggregate { sum { id small big price wide } avg { id small big price wide } } }")
    (found,) = data["thingsAggregate"]
    with localcontext(prec=100):
        sums = {n: shown(sum(known(n))) for n in ("id", "small", "big", "price", "wide")}
    assert found["sum"] == sums
    assert found["avg"]["price"] == shown(mean(known("price"), 6))
    assert found["avg"]["wide"] == shown(mean(known("wide"), 7))
    for name in ("id", "small", "big"):
        assert found["avg"][name] == pytest.approx(sum(known(name)) / len(known(name)))


def test_doubles_with_nan_and_infinities(reader: Any) -> None:
    """NaN is the largest; it and infinities are null in answers."""
    text = """query($f: ThingsFilter) {
      thingsAggregate(filter: $f) { countOf { ratio } sum { ratio } min { ratio } max { ratio } avg { ratio } } }"""
    cases: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
        "NaN alone": ({"id": {"eq": 3}}, (1, None, None, None)),
        "NaN and a number": ({"id": {"in": [1, 3]}}, (2, None, 0.1 + 0.2, None)),
        "an infinity and a number": ({"id": {"in": [1, 4]}}, (2, None, 0.1 + 0.2, None)),
        "infinities": ({"id": {"in": [4, 5]}}, (2, None, None, None)),
        "a number": ({"id": {"in": [1, 2]}}, (1, 0.1 + 0.2, 0.1 + 0.2, 0.1 + 0.2)),
        "none": ({"id": {"eq": 2}}, (0, None, None, None)),
    }
    for title, (condition, (number, total, least, most)) in cases.items():
        (found,) = ask(reader, text, f=condition)["thingsAggregate"]
        values = [found[f]["ratio"] for f in ("countOf", "sum", "avg", "min", "max")]
        average = None if total is None else total / number
        assert values == [number, total, average, least, most], title


def test_of_nothing(reader: Any) -> None:
    condition = 'filter: {name: {eq: "nobody ☃"}}'
    values = "count sum { id price wide ratio } avg { wide } max { name at } countDistinct { day }"
    text = f"{{ thingsAggregate({condition}) {{ {values} }} }}"
    assert ask(reader, text)["thingsAggregate"] == [
        {"count": 0, "sum": {"id": None, "price": None, "wide": None, "ratio": None}, "avg": {"wide": None},
         "max": {"name": None, "at": None}, "countDistinct": {"day": 0}}
    ]  # fmt: skip
    assert ask(reader, f"{{ thingsAggregate({condition}) {{ by {{ name }} count }} }}")["thingsAggregate"] == []


def test_groups_and_their_order(reader: Any) -> None:
    def asked(order: str = "", more: str = "") -> list[Any]:
        given = f"({', '.join(p for p in (order and f'order: {order}', more) if p)})" if order or more else ""
        text = f"{{ thingsAggregate{given} {{ by {{ small }} count sum {{ price }} }} }}"
        return [(g["by"]["small"], g["count"], g["sum"]["price"]) for g in ask(reader, text)["thingsAggregate"]]

    by_key = [(None, 2, "-0.05"), (-5, 1, "12.30"), (7, 2, "12.31")]
    assert asked() == by_key
    assert asked("[{by: {small: DESC}}]") == by_key[::-1]
    assert asked("[{count: DESC}]") == [by_key[0], by_key[2], by_key[1]]
    assert asked("[{count: ASC}, {by: {small: DESC}}]") == [by_key[1], by_key[2], by_key[0]]
    assert asked("[{sum: {price: DESC}}]") == [by_key[2], by_key[1], by_key[0]]
    assert asked("[{avg: {wide: ASC_NULLS_LAST}}, {max: {name: DESC}}]") == [by_key[1], by_key[0], by_key[2]]
    assert asked("[{sum: {price: DESC}}]", "limit: 1, offset: 1") == [by_key[1]]
    assert asked("{count: null}", "limit: 0") == []


def test_an_order_in_a_variable(reader: Any) -> None:
    text = (
        "query($o: [ThingsAggregateOrder!], $d: SortOrder) { thingsAggregate(order: $o) { by { small } } other: "
        "thingsAggregate(order: {by: {small: $d}}) { by { small } } }"
    )
    for direction, expected in (("ASC", [None, -5, 7]), ("DESC", [7, -5, None]), ("ASC_NULLS_LAST", [-5, 7, None])):
        data = ask(reader, text, o=[{"by": {"small": direction}}], d=direction)
        assert [g["by"]["small"] for g in data["thingsAggregate"]] == expected
        assert data["other"] == data["thingsAggregate"]


def test_groups_by_every_type(reader: Any) -> None:
    for name, column in (COLUMNS | {"raw": "raw"}).items():
        data = ask(reader, f"{{ thingsAggregate {{ by {{ {name} }} count }} }}")["thingsAggregate"]
        values = [t[column] for t in THINGS]
        expected = {json.dumps(v.hex() if isinstance(v, bytes) else shown(v)): values.count(v) for v in values}
        assert {json.dumps(g["by"][name]): g["count"] for g in data} == expected, name
    ratios = ask(reader, "{ thingsAggregate { by { ratio } count } }")["thingsAggregate"]
    assert [(g["by"]["ratio"], g["count"]) for g in ratios] == [
        (None, 1),
        (None, 1),
        (0.1 + 0.2, 1),
        (None, 1),
        (None, 1),
    ]


def test_of_relationships(reader: Any) -> None:
    text = """{ monitoringGroup { groupid
      hourReadingAggregate(filter: {avg_temp: {gte: 20}}) { count avg { avg_temp } max { time_hour max_temp } }
      lastHoursAggregate { count sum { avg_temp } }
      machinesAggregate(order: [{by: {machineName: DESC}}]) { by { machineName } count }
    } }"""
    rows = example.rows()
    for group in ask(reader, text)["monitoringGroup"]:
        hours = [h for h in rows["MonitoringGroup.hourReading"] if h["groupid"] == group["groupid"]]
        warm = [h for h in hours if h["avg_temp"] >= 20]
        (found,) = group["hourReadingAggregate"]
        assert found["count"] == len(warm)
        if warm:
            assert found["avg"]["avg_temp"] == pytest.approx(sum(h["avg_temp"] for h in warm) / len(warm))
            assert found["max"] == {
                "time_hour": shown(max(h["time_hour"] for h in warm)),
                "max_temp": max(h["max_temp"] for h in warm),
            }
        latest = sorted(hours, key=lambda h: h["time_hour"])[-3:]
        assert group["lastHoursAggregate"][0]["count"] == len(latest)
        assert group["lastHoursAggregate"][0]["sum"]["avg_temp"] == (
            pytest.approx(sum(h["avg_temp"] for h in latest)) if latest else None
        )
        machines = [m["machineName"] for m in rows["MonitoringGroup.machines"] if m["groupid"] == group["groupid"]]
        assert [m["by"]["machineName"] for m in group["machinesAggregate"]] == sorted(
            machines, key=lambda n: n or "", reverse=True
        )
    assert len(reader.statements) == 1


def test_aliases_and_typenames(reader: Any) -> None:
    text = """{ a: thingsAggregate { __typename n: count m: count key: by { __typename s: small }
      low: min { __typename x: id y: id } high: max { id } sum { __typename } } }"""
    first = ask(reader, text)["a"][0]
    assert first == {
        "__typename": "ThingsAggregate", "n": 2, "m": 2, "key": {"__typename": "ThingsGroup", "s": None},
        "low": {"__typename": "ThingsExtremes", "x": 2, "y": 2}, "high": {"id": 3}, "sum": {"__typename": "ThingsSums"},
    }  # fmt: skip


def refused(text: str, limits: Limits | None = None) -> RequestError:
    with pytest.raises(RequestError) as found:
        Api(CATALOG, MemoryReader(), limits=limits).answer(text)
    return found.value


def test_mistakes_are_refused() -> None:
    assert (
        "which is not one of their columns"
        in refused("{ thingsAggregate(order: [{by: {small: ASC}}]) { count } }").message
    )
    assert refused("{ thingsAggregate(order: [{max: {raw: ASC}}]) { count } }").message == "there is no `max` of `raw`"
    for unknown in (
        "sum { name }",
        "min { tags }",
        "max { raw }",
        "by { tags }",
        "countDistinct { info }",
        "avg { at }",
        "sum { _secret }",
    ):
        assert refused(f"{{ thingsAggregate {{ {unknown} }} }}").code == "B8002"


def test_limits_count_aggregates() -> None:
    nested = "{ monitoringGroup(limit: 1000) { hourReadingAggregate { count avg { avg_temp } sum { avg_temp } } } }"
    assert "costs" in refused(nested, Limits(cost=100_000)).message
    assert "nested 2 levels deep" in refused(nested, Limits(depth=1)).message
    assert "1000" in refused("{ thingsAggregate(limit: 1001) { by { id } } }").message
