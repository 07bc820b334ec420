"""How far windows reach is found over tied rows in the order in which the query itself has them."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from belvedere.plan.operators.nodes import Scan
from belvedere.plan.operators.predicate_window import FROM, TO, reach_of
from belvedere.schema import Column, Schema
from belvedere.sqlpp.lower import lower_window_query
from tests.window_by.without_spark import found_windows, window_of

SCHEMA = Schema((*(Column(n, pa.int64(), False) for n in ("id", "o")), *(Column(n, pa.int64()) for n in "vx")), ("id",))
HEAD = "FROM T AS t WINDOW BY w ORDER BY t.o TYPE "
FRAME = (
    " START AS s WHEN s.x > 1 END AS e NEXT AS n WHEN n.v > e.v + 2 SELECT s.o AS since, e.o AS until, "
    "ARRAY_SUM(w[*].x) AS x"
)


@pytest.mark.parametrize("text", [HEAD + "SLIDING" + FRAME, HEAD + "TUMBLING" + FRAME])
def test_ties_are_as_in_the_query(text: str) -> None:
    window = window_of(lower_window_query(text, {"T": Scan("T", SCHEMA)})[0])
    assert window.ranges is not None
    whole = reach_of(window, None, window.ranges.column)
    reach = reach_of(window, window.ranges, window.ranges.column)
    (key,) = window.schema.key or ()
    for seed in range(2):
        random = Random(seed)
        rows = [
            {"id": n, "o": random.randrange(12), "v": random.randrange(6), "x": random.randrange(4)} for n in range(40)
        ]
        table = {"T": pa.Table.from_pylist(rows, SCHEMA.arrow)}
        requested, found = (
            [(r[key], r[FROM], r[TO]) for r in found_windows(w, table).to_pylist()] for w in (whole, reach)
        )
        starts = [
            f for f in found if rows[f[0]]["x"] > 1
        ]  # an END that closes all windows is looked for from every tuple
        assert sorted(starts) == sorted(requested)
