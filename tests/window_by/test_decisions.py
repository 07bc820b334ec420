"""One fixture for each decision where the paper is silent: its number, a query, and its results or the code that
refuses it.

The numbers are those of the list in docs/reference/window-by.md. Each query is answered by the interpreter and, where
they know it, by the kernels.
"""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.errors import BelvedereError
from belvedere.schema import Column, Schema
from belvedere.sqlpp.check import check_window_query
from belvedere.sqlpp.parser import parse_window_query
from tests.window_by.interpreter.interpret_query import compile_query
from tests.window_by.without_spark import TYPES, run

ROWS: list[dict[str, Any]] = [
    {"id": id_, "k": k, "o": o, "v": v, "x": None, "s": None}
    for id_, k, o, v in [(1, 0, 1, 1), (2, 0, 2, 3), (3, 0, 3, 2), (4, 0, 4, 5), (5, 1, 1, 4), (6, 1, 2, None)]
]
HEAD = "FROM rows AS r WINDOW BY w PARTITION BY r.k ORDER BY r.o TYPE "
FIRST = "START AS s WHEN s.v >= 1 "
SAME = "FROM [{'a': 7}, {'a': 7}] AS r WINDOW BY w ORDER BY r.a TYPE SLIDING "
TIED = "FROM [{'o': 1, 'x': 1}, {'o': 1, 'x': 2}] AS r WINDOW BY w ORDER BY r.o, r.x TYPE SLIDING "
ANY_ORDER = "FROM rows AS r WINDOW BY w TYPE SLIDING ORDER BY r.o PARTITION BY r.k "
LABEL = "SLIDING LABEL AS l AT lp WHEN "
FAR = HEAD + LABEL + "l.v = 1 START AT sp WHEN lp - sp = 10 "
GROUPS = "FROM rows AS r GROUP BY r.k AS k GROUP AS g WINDOW BY w ORDER BY k TYPE TUMBLING "
LAST = "SLIDING START AS s WHEN s.v = 5 END "
DECISIONS: list[tuple[int, str, list[tuple[Any, ...]] | str]] = [
    (1, "FROM rows AS r WINDOW BY w ORDER BY r.k TYPE SLIDING START AS s END SELECT s.id", [(n,) for n in range(1, 7)]),
    (2, HEAD + "TUMBLING " + FIRST + "END AS e WHEN e.v = 2 SELECT s.id, e.id AS e", [(1, 3), (4, None), (5, None)]),
    (3, HEAD + "TUMBLING START AS s WHEN s.v < 3 END AS e WHEN e.v = 2 SELECT s.id, e.id AS e", [(1, 3)]),
    (4, HEAD + "SLIDING START AS s WHEN s.v = 3 END AS e WHEN e.v = 3 SELECT s.id, e.id AS e, LEN(w) AS n",
     [(2, 2, 1)]),
    (5, HEAD + LAST + "NEXT AS n WHEN n.v > 0 SELECT n IS MISSING AS m, LEN(w) AS n", [(True, 2)]),
    (5, HEAD + LAST + "AS e NEXT AS n WHEN n.v > 0 OR n IS MISSING SELECT e.id, LEN(w) AS n", [(4, 1)]),
    (6, HEAD + "SLIDING START AS s WHEN s.v > 3 END SELECT s.id", [(4,), (5,)]),
    (7, HEAD + "SLIDING START AS s NEXT AS n WHEN NOT (n.v = 3) END SELECT s.id", [(2,), (3,)]),
    (8, HEAD + LAST + "AS e AT p WHEN e.v = 9 SELECT e IS MISSING AS m, p IS MISSING AS p, LEN(w) AS n",
     [(True, True, 2)]),
    (9, HEAD + LAST + "AS e WHEN e.v = 9 SELECT STRICT_COUNT(w[*].v) AS a, ARRAY_COUNT(w[*].v) AS b", [(2, 1)]),
    (9, HEAD + LAST + "AS e WHEN e.v = 9 SELECT STRICT_AVG(w[*].v) AS a, w[-1] IS MISSING AS b, w[*].v AS c",
     [(None, True, [5, None])]),
    (9, HEAD + LAST + "AS e WHEN e.v = 9 SELECT (FROM w AS x WHERE x IS MISSING SELECT VALUE 1) AS a", [([1],)]),
    (10, HEAD + LABEL + "l.v = 1 START AT sp WHEN lp - sp = 1 ONLY END AT e WHEN e = 2 SELECT sp IS MISSING AS m, e",
     [(True, 2)]),
    (11, HEAD + "TUMBLING " + FIRST + "ONLY END AS e WHEN e.v = 2 SELECT s.id", [(1,)]),
    (11, HEAD + "TUMBLING START AS s WHEN s.v < 3 ONLY END AS e WHEN e.v = 9 SELECT s.id", []),
    (12, HEAD + "SLIDING START AS s WHEN s.v = 3 ONLY END UNBOUNDED SELECT LEN(w) AS n, w[-1].id AS last", [(3, 4)]),
    (13, HEAD + "SLIDING START UNBOUNDED END UNBOUNDED SELECT w[*].id AS ids", [([1, 2, 3, 4],), ([5, 6],)]),
    (13, HEAD + "TUMBLING START UNBOUNDED END AS e WHEN e.v = 2 SELECT w[*].id AS ids",
     [([1, 2, 3],), ([5, 6, None],)]),
    (14, HEAD + "SLIDING START AS s END AS e SELECT s.id, e.id AS e", [(n, n) for n in range(1, 7)]),
    (15, HEAD + "SLIDING END AS e WHEN e.v = 5 HAVING e IS NOT MISSING SELECT LEN(w) AS n", [(4,), (3,), (2,), (1,)]),
    (15, HEAD + "TUMBLING START AS s WHEN s.v < 3 SELECT s.id, LEN(w) AS n", [(1, 2), (3, 2)]),
    (15, HEAD + "SLIDING START AS s SELECT s.id", "B1601"),
    (16, HEAD + LABEL + "l.v = 5 START AS s WHEN l.o - s.o <= 2 END AT e WHEN e = lp SELECT s.id, LEN(w) AS n",
     [(2, 3)]),
    (17, HEAD + LABEL + "l.v = 5 START AT sp WHEN sp = 1 END AT e WHEN e >= 1 SELECT lp, e", [(4, 1)]),
    (18, FAR + "END AT e WHEN lp - e = 5 SELECT w[*].v AS vs", [([None, 1, 3, 2, 5, None],)]),
    (18, FAR + "ONLY END AT e WHEN lp - e = 5 SELECT w[*].id AS ids", []),
    (19, HEAD + "TUMBLING LABEL AS l AT lp START AT sp WHEN lp - sp = 1 END AT e WHEN e = lp SELECT l.id",
     [(1,), (3,), (5,)]),
    (20, SAME + "LABEL AS l AT lp START UNBOUNDED END AS e AT ep WHEN e = l SELECT lp, ep", [(1, 1), (2, 1)]),
    (20, HEAD + "SLIDING LABEL AS l START UNBOUNDED END AS e WHEN e = l SELECT l.id", "B3615"),
    (21, "FROM rows AS r LET z = r.v + 1 WHERE r.id = 1 WINDOW BY w ORDER BY r.o TYPE SLIDING START AS s END SELECT "
         "s.r.id, s.z", [(1, 2)]),
    (22, HEAD + "SLIDING START AS s END SELECT r.k", "B2601"),
    (23, HEAD + "SLIDING START AS s WHEN r.v > 1 END SELECT s.id", "B2607"),
    (24, HEAD + "SLIDING START AS s END SELECT AVG(s.v) AS a", "B3605"),
    (25, HEAD + "SLIDING START AS s END AS e WHEN e.v = 5 LET n = LEN(w) HAVING n > 3 SELECT s.id", [(1,)]),
    (26, GROUPS + "START AS s SELECT s.k, LEN(s.g) AS n", [(0, 4), (1, 2)]),
    (27, HEAD + "SLIDING START AT p AS s END SELECT s.id", "B1601"),
    (27, HEAD + "SLIDING START AS s NEXT AS n PREV AS p END SELECT s.id", "B1601"),
    (28, ANY_ORDER + "START AS s WHEN s.v = 5 END SELECT s.id", [(4,)]),
    (29, HEAD + "SLIDING START AS s AT p WHEN s.v = 3 END SELECT p, w[0].id AS first", [(2, 2)]),
    (30, HEAD + "SLIDING START AS s WHEN s.id = 1 END NEXT AS n WHEN n.o - s.o > 2 SELECT LEN(w) AS n", [(3,)]),
    (31, TIED + "START AS s END NEXT AS n WHEN n.o - s.o > 0 OR n IS MISSING SELECT s.x, LEN(w) AS n",
     [(1, 2), (2, 1)]),
    (32, HEAD + "SLIDING START AS s WHEN s.v IN (FROM rows AS q WHERE q.k = 1 SELECT VALUE q.v + 1) END SELECT s.id",
     [(4,)]),
    (33, HEAD + "TUMBLING START END AS e WHEN SUM(w.v) > 3 SELECT e.id, SUM(w.v) AS t",
     [(2, 4), (4, 7), (5, 4), (None, None)]),
    (33, HEAD + "SLIDING START AS s WHEN s.v = 3 END AS e WHEN SUM(w.v) > 4 SELECT w[*].id AS ids", [([2, 3],)]),
    (33, HEAD + "SLIDING START UNBOUNDED END AS e WHEN COUNT(w.v) = 2 SELECT w[*].id AS ids",
     [([1, 2],), ([5, 6, None],)]),
    (33, HEAD + LABEL + "l.v = 2 START AT sp WHEN sp = 9 END AS e WHEN SUM(w.v) > 5 SELECT w[*].id AS ids",
     [([None, 1, 2, 3],)]),
    (33, HEAD + "SLIDING START WHEN SUM(w.v) > 3 END SELECT w", "B2606"),
    (34, HEAD + "SLIDING START AS s END AS e WHEN e.v = 5 WITHIN 1 SELECT s.id, e.id AS e",
     [(1, 2), (2, 3), (3, 4), (4, 4), (5, None), (6, None)]),
    (34, HEAD + "TUMBLING END WITHIN 2 SELECT w[*].id AS ids", [([1, 2, 3],), ([4, None],), ([5, 6, None],)]),
    (34, HEAD.replace("r.o ", "r.o DESC ") + "TUMBLING START AS s END WITHIN 2 SELECT w[*].id AS ids",
     [([4, 3, 2],), ([1, None],), ([6, 5, None],)]),
    (34, HEAD + "SLIDING ONLY END AS e WHEN SUM(w.v) > 4 WITHIN 1 HAVING SUM(w.v) > 4 SELECT w[0].id AS s, e.id AS e",
     [(2, 3), (3, 4), (4, 4)]),
    (34, HEAD + "SLIDING START UNBOUNDED END WITHIN 2 SELECT w", "B1601"),
    (34, HEAD + "SLIDING START WITHIN 2 END SELECT w", "B1601"),
    (34, HEAD + "SLIDING START END WITHIN 'a' SELECT w", "B3607"),
    (34, HEAD.replace("r.o ", "r.s ") + "SLIDING START END WITHIN 2 SELECT w", "B3606"),
]  # fmt: skip


def codes(text: str) -> list[str]:
    try:
        found = check_window_query(text, {"rows": Schema(tuple(Column(n, t) for n, t in TYPES.items()))})
    except BelvedereError as error:
        found = error.diagnostics
    return [d.code for d in found]


@pytest.mark.parametrize(("number", "text", "expected"), DECISIONS, ids=lambda v: str(v) if isinstance(v, int) else "")
def test_decision(number: int, text: str, expected: list[tuple[Any, ...]] | str) -> None:
    if isinstance(expected, str):
        assert expected in codes(text)
        return
    assert [c for c in codes(text) if c != "B3615"] == []
    for rows in (ROWS, ROWS[::-1]):  # no order of arrival shows
        found = compile_query(parse_window_query(text))({"rows": rows})
        names = [i.name or "" for i in parse_window_query(text).blocks[0].select.items]
        assert [tuple(row.get(n) for n in names) for row in found] == expected
        if not text.startswith("FROM rows AS r WINDOW BY") or "HAVING" in text or number in (9, 32):
            continue  # only Spark has the higher-order functions that 9 and 32 need
        assert [tuple(row[n] for n in names) for row in run(text, rows)] == expected


def test_a_field_that_no_tuple_has_is_compared_with_nothing() -> None:
    """On either side, or on both: the end is not found."""
    for when in ("e.v.z > s.v.z", "e.v.z > s.v", "e.v > s.v.z", "e.v.z > s.v.z AND e.v > 2"):
        text = f"{HEAD}SLIDING START AS s END AS e WHEN {when} SELECT s.id AS id, LEN(w) AS n"
        requested = compile_query(parse_window_query(text))({"rows": ROWS})
        assert run(text, ROWS) == requested, when


def test_what_the_kernels_do_not_aggregate_is_aggregated_over_the_array() -> None:
    for result in (
        "w[*].zz",
        "LEN(w[*].zz)",
        "ARRAY_AVG(w[*].zz)",
        "ARRAY_SUM(w[*].s)",
        "ARRAY_SORT(w[*].zz)",
        "STRICT_COUNT(w[*].zz)",
    ):
        text = f"{HEAD}SLIDING START AS s END NEXT AS n WHEN n.v > s.v SELECT {result} AS a"
        assert run(text, ROWS) == compile_query(parse_window_query(text))({"rows": ROWS}), result


def test_every_decision_has_a_fixture() -> None:
    assert {number for number, _, _ in DECISIONS} == set(range(1, 35))
