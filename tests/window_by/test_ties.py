"""How far windows reach is found over tied rows in the order in which the query itself has them."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from belvedere.lang.window_by.lower import lower_window_query
from belvedere.lang.window_by.resume import FROM, TO
from belvedere.plan.nodes import Scan
from belvedere.schema import KEY, Column, Schema

pytestmark = pytest.mark.spark
SCHEMA = Schema((*(Column(n, pa.int64(), False) for n in ("id", "o")), *(Column(n, pa.int64()) for n in "vx")), ("id",))
HEAD = "FROM T AS t WINDOW BY w ORDER BY t.o TYPE "
FRAME = (
    " START AS s WHEN s.x > 1 END AS e NEXT AS n WHEN n.v > e.v + 2 SELECT s.o AS since, e.o AS until, ARRAY_SUM(w[*].x) AS x"
)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "SLIDING" + FRAME,
        HEAD + "TUMBLING" + FRAME + ", (SELECT VALUE y.v FROM w AS y WHERE y.v > s.x + LEN(w)) AS more",  # by the interpreter
    ],
)
def test_ties_are_as_in_the_query(spark: Any, text: str) -> None:
    maintain = pytest.importorskip("belvedere.spark.window_by.maintain")
    block = lower_window_query(text, {"T": Scan("T~1", SCHEMA)})[0]
    assert block.ranges is not None
    for seed in range(2):
        random = Random(seed)
        rows = [{"id": n, "o": random.randrange(12), "v": random.randrange(6), "x": random.randrange(4)} for n in range(40)]
        frame = spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA.arrow))
        wanted = [(w.since, w.until) for w in maintain.window_rows(spark, block, [frame], True).collect()]
        found = maintain.window_reach(spark, block, [frame], block.ranges, True).toArrow().to_pylist()
        starts = [
            f for f in found if rows[int(f[KEY])]["x"] > 1
        ]  # an END that closes all windows is looked for from every tuple
        assert sorted(((f[FROM], f[TO]) for f in starts), key=str) == sorted(wanted, key=str)
