"""`/*+ query_by_all(a) */` and `/*+ query_by_any(a) */`: arguments of an endpoint that columns equal."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import api_example as example
import pytest

from belvedere.api.failures import RequestError
from belvedere.api.graphql.api import Api
from belvedere.api.graphql.types import schema_of
from belvedere.api.limits import Limits
from belvedere.api.reads.entities import model_of
from belvedere.catalog.hints import Hints, QueryArgument
from belvedere.compiler import compile_script
from belvedere.optimize.indexes import read_indexes

ANY = {"Things": tuple(QueryArgument(c, False) for c in ("flag", "small", "price", "name", "at", "day", "ratio"))}
CATALOG = replace(example.catalog(), hints=Hints(query_by=ANY))


def asked(reader: Any, text: str, **variables: Any) -> Any:
    return json.loads(Api(CATALOG, reader).answer(text, variables))["data"]["x"]


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ("", [1, 2, 3, 4, 5]),
        ("small: 7", [4, 5]),
        ('small: 7, price: "12.31"', [5]),
        ('small: 7, name: "Ärger"', []),
        ('name: "Ärger"', [1]),
        ("flag: false", [3]),
        ('at: "2020-01-01T12:00:00.000005Z"', [1]),
        ('day: "2020-02-29"', [1]),
        ("ratio: 0.30000000000000004", [1]),
        ("small: null", [1, 2, 3, 4, 5]),
        ('small: 7, filter: {name: {eq: "ab"}}', [5]),
        ('small: 7, filter: {or: [{name: {eq: "ab"}}, {id: {eq: 4}}]}, order: [{id: DESC}], limit: 1', [5]),
    ],
)
def test_what_is_given_is_compared(reader: Any, arguments: str, ids: list[int]) -> None:
    text = f"{{ x: things({arguments}) {{ id }} }}".replace("()", "")
    assert [r["id"] for r in asked(reader, text)] == ids
    if "limit" not in arguments:
        page = f"{{ x: thingsPage({arguments}) {{ nodes {{ id }} }} }}".replace("()", "")
        assert [r["id"] for r in asked(reader, page)["nodes"]] == ids


def test_variables_that_are_null_or_absent_are_not_compared(reader: Any) -> None:
    text = "query($s: Int, $n: String) { x: things(small: $s, name: $n) { id } }"
    for variables, ids in (
        ({}, 5),
        ({"s": None, "n": None}, 5),
        ({"s": 7}, 2),
        ({"s": 7, "n": "ab"}, 1),
        ({"n": "ab"}, 1),
    ):
        assert len(asked(reader, text, **variables)) == ids


SCRIPT = """
CREATE TABLE T (id INT, place STRING, at TIMESTAMP, tags ARRAY<STRING>, filter INT, PRIMARY KEY (id)) KEEP 1 DAY;
/*+ query_by_all(PLACE, at), query_by_any(n) */
V := SELECT place, at, filter, max(id) AS id FROM T GROUP BY place, at, filter;
V.n := id + 1;
/** Of a place.
 */
/*+ query_by_any(`place`, filter) */
W := SELECT id, place, filter FROM T;
"""


def test_arguments_and_indexes_of_a_script() -> None:
    compiled = compile_script(SCRIPT)
    assert [d for d in compiled.diagnostics if d.code in ("B4033", "B4036")] == []
    model = model_of(compiled.catalog)
    query = schema_of(model, Limits()).query_type
    assert query is not None
    shown = {n: {a: str(t.type) for a, t in query.fields[n].args.items()} for n in ("v", "vPage", "w", "t", "wByKey")}
    assert list(shown["v"].items())[:3] == [("place", "String!"), ("at", "DateTime!"), ("n", "Int")]
    assert list(shown["vPage"])[:4] == ["place", "at", "n", "filter"]
    assert list(shown["w"])[:3] == ["place", "filter_2", "filter"]
    assert "place" not in shown["t"]
    assert list(shown["wByKey"]) == ["id"]
    assert query.fields["w"].args["place"].description == "Rows whose place equals this; null: all rows."
    found = read_indexes(compiled.catalog, "V")
    assert {("place", "at", "n"), ("at", "place", "n")} & set(found), found  # without n, too
    assert {("place",), ("filter",)} <= set(read_indexes(compiled.catalog, "W"))


def test_what_must_be_given_must_be_given(reader: Any) -> None:
    required = replace(
        CATALOG, hints=Hints(query_by={"Things": (QueryArgument("small", True), QueryArgument("name", True))})
    )
    api = Api(required, reader)
    assert json.loads(api.answer('{ things(small: 7, name: "ab") { id } }'))["data"]["things"] == [{"id": 5}]
    for text in ("{ things { id } }", "{ things(small: 7) { id } }", '{ things(small: null, name: "ab") { id } }'):
        with pytest.raises(RequestError) as error:
            api.answer(text)
        assert error.value.code == "B8002"


@pytest.mark.parametrize(
    ("script", "code", "place", "hint"),
    [
        ("/*+ query_by_all(plase) */\nV := SELECT * FROM T", "B4036", "query_by_all(plase)", "did you mean `place`?"),
        ("/*+ query_by_any(id, tags) */\nV := SELECT * FROM T", "B4036", "query_by_any(id, tags)", "number, text"),
        ("/*+ query_by_any() */\nV := SELECT * FROM T", "B4036", "query_by_any()", "query_by_any(column, ...)"),
        ("/*+ query_by_any */\nV := SELECT * FROM T", "B4036", "query_by_any", "query_by_any(column, ...)"),
        ("/*+ query_by_any(id) */\n_V := SELECT * FROM T", "B4033", "query_by_any(id)", "no_query"),
        ("/*+ no_query, query_by_any(id) */\nV := SELECT * FROM T", "B4033", "query_by_any(id)", "no_query"),
        ("/*+ query_by_any(id) */\nQ(i INT) := SELECT * FROM T WHERE id = :i", "B4033", "query_by_any(id)", "no_query"),
        ("/*+ cache(a) */\nV := SELECT * FROM T", "B4033", "cache(a)", "last epoch"),
        ("/*+ ttl(5 days) */\nV := SELECT * FROM T", "B4033", "ttl(5 days)", "KEEP"),
        ("/*+ primary_key(id) */\nV := SELECT * FROM T", "B4033", "primary_key(id)", "GROUP BY"),
        ("V := SELECT * FROM T /*+ OPTIONS('a.b' = 'c') */ t", "B4033", "OPTIONS('a.b' = 'c')", "belvedere.toml"),
        ("V := SELECT /*+ STATE_TTL('T' = '1d') */ * FROM T", "B4033", "STATE_TTL('T' = '1d')", "WATERMARK FOR"),
        ("V := SELECT * FROM (SELECT /*+ BROADCAST(t) */ * FROM T t) x", "B4033", "BROADCAST(t)", "remove it"),
        ("V := /*+ query_by_any(id) */ SELECT * FROM T", "B4033", "query_by_any(id)", "before a table or view"),
        ("V := SELECT * FROM T /*+ no_query */;", "B4033", "no_query", "before a table or view"),
        ("V := SELECT * FROM T;\n/*+ no_query */", "B4033", "no_query", "before a table or view"),
    ],
)
def test_hints_that_name_no_column_or_mean_nothing(script: str, code: str, place: str, hint: str) -> None:
    text = SCRIPT.split("/*+", maxsplit=1)[0] + script
    (found,) = [d for d in compile_script(text).diagnostics if d.code in ("B4033", "B4036")]
    assert found.span is not None
    assert (found.code, text[found.span.start : found.span.end]) == (code, place)
    assert hint in (found.hint or "")
