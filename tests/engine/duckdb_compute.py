"""The protocol `Compute` on DuckDB: epochs, rules and batch answers without a JVM, on an engine other than Spark.

In: what the engine asks of Spark (`belvedere.engine.compute`), in Spark's SQL. Out: the rows that DuckDB finds. What
depends on how rows change, which of them an operator reads again and what the store holds is the same on both; what a
function of Spark answers is not proved here. Functions of a project, quarantined views and executors are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

from belvedere.engine.arrow_copy import _hashed
from belvedere.engine.epoch import Engine
from belvedere.engine.errors.quarantine import StageFailure
from belvedere.engine.query_batching import QueryBatching, Task
from belvedere.engine.rows.epoch_rows import Memory, Rows, conform
from belvedere.engine.sql.plan_sql import order_text
from belvedere.engine.sql.staged_operators import WindowOperator
from belvedere.engine.store_folders import open_state
from belvedere.errors import Diagnostic
from belvedere.functions.spark_types import quote
from belvedere.kernels.windows import window_tables

SEED = 42
"""Of Spark's xxhash64."""


class Frame:
    """Rows that the engine passes on without a look at them."""

    def __init__(self, table: pa.Table):
        self.table = table

    def toArrow(self) -> pa.Table:
        return self.table

    def count(self) -> int:
        return int(self.table.num_rows)


class DuckDBCompute:
    """Views and queries in a database of its own."""

    def __init__(self, _session: Any = None, prefix: str = "duckdb", small: int = 20_000, memory: int = 1 << 30):
        self.prefix, self.small, self.memory = prefix, small, Memory(memory)
        self.database = duckdb.connect(config={"threads": 1})
        words = ["BIGINT", "BIGINT"]
        self.database.create_function(  # type: ignore[call-overload]
            "hash_word", _hash_words, words, "BIGINT", type="arrow", null_handling="special"
        )
        self._batching: QueryBatching[Any, Any] = QueryBatching(lambda queries: [self._answer(*q) for q in queries])

    def view_name(self, name: str) -> str:
        return f"{self.prefix}_{name}"

    def put(self, name: str, rows: Rows) -> None:
        table = rows.table
        self.database.register(
            self.view_name(name), table.cast(pa.schema([f.with_type(_local(f.type)) for f in table.schema]))
        )

    def keep(self, rows: pa.RecordBatchReader) -> Rows:
        table = rows.read_all()
        return self.memory.hold(Rows(table), table.nbytes)

    def compute(self, sql: str, schema: pa.Schema | None = None, ordered: bool = False) -> Rows:
        return Rows(self._answer(sql, schema))

    def _answer(self, sql: str, schema: pa.Schema | None) -> pa.Table:
        found = self.database.sql(in_duckdb(sql)).to_arrow_table()
        return found if schema is None else conform(found, schema)

    def defer(self, sql: str, schema: pa.Schema) -> Rows:
        return self.compute(sql, schema)

    def collect_all(self, queries: Sequence[tuple[str, pa.Schema]]) -> list[pa.Table]:
        return [self._answer(*query) for query in queries]

    def windows(self, windows: WindowOperator, few: bool) -> Rows:
        node = windows.node
        order = ", ".join([*(f"{quote(k)} ASC NULLS FIRST" for k in node.spec.keys), *map(order_text, node.order)])
        rows = self._answer(f"SELECT * FROM ({windows.text}) AS i ORDER BY {order}", node.input.schema.arrow)
        found = pa.concat_tables(window_tables(rows, node.spec))
        return Rows(frame=Frame(found), schema=node.schema.arrow)

    def spreads(self, rows: int) -> bool:
        return False

    def near(self, rows: Rows) -> Rows:
        return rows

    @contextmanager
    def explaining(self, prepared: Any, catalog: Any) -> Iterator[None]:
        try:
            yield
        except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
            reported = Diagnostic("B7040", f'view "{prepared.owner}" failed: {error}', reason=str(error))
            raise StageFailure(prepared.output.name, reported) from error

    def run_batched(self, tasks: Sequence[Task]) -> None:
        self._batching.run(tasks)

    def rest(self) -> None: ...

    def sweep(self) -> None: ...

    def discard(self) -> None: ...

    def close(self) -> None:
        self.database.close()


@cache
def in_duckdb(sql: str) -> str:
    """A query of Spark's SQL in DuckDB's."""
    for own, like in ((" AS VOID)", " AS STRING)"), ("MAKE_VALID_UTF8(", "(")):
        sql = sql.replace(own, like)
    query = sqlglot.parse_one(sql, read="spark")
    for node in reversed(list(query.walk())):  # inner calls first
        if (changed := _rewritten(node)) is not node:
            node.replace(changed)
    return query.sql("duckdb")


def _local(type_: pa.DataType) -> pa.DataType:
    """A type without time zones: the session's is UTC, and DuckDB by itself knows no other."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us")
    if pa.types.is_list(type_):
        return pa.list_(_local(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(_local(f.type)) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(_local(type_.key_type), _local(type_.item_type))
    return type_


def _rewritten(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.DataType) and node.this in (exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ):
        return exp.DataType.build("timestamp")
    if isinstance(node, exp.TryCast) and not node.args.get("safe"):  # CAST fails, as Spark's does under ANSI rules
        return exp.Cast(this=node.this, to=node.args["to"])
    if isinstance(node, exp.Dot) and isinstance(
        node.this, exp.ArraySort
    ):  # a field of an array of rows is an array of the field
        each = exp.Lambda(
            this=exp.Dot(this=exp.to_identifier("r"), expression=node.expression), expressions=[exp.to_identifier("r")]
        )
        return exp.Anonymous(this="list_transform", expressions=[node.this, each])
    if isinstance(node, exp.Anonymous) and str(node.this).lower() in _CALLS:
        return _CALLS[str(node.this).lower()](node)
    return node


def _hash(call: exp.Anonymous) -> exp.Expr:
    """Spark's hash of whole numbers and times, which the driver computes, too; of other values any will do."""
    found: exp.Expr = exp.Literal.number(SEED)
    for value in call.expressions:
        found = exp.func("hash_word", _word(value), found)
    return found


def _word(value: exp.Expr) -> exp.Expr:
    if isinstance(value, exp.Cast) and value.is_type("bigint"):
        return value
    if isinstance(value, exp.Cast) and value.is_type("timestamp"):
        return exp.func("epoch_us", value)
    hashed = exp.cast(exp.Anonymous(this="hash", expressions=[value.copy()]), "hugeint")
    number = exp.cast(exp.paren(exp.Mod(this=hashed, expression=exp.Literal.number(2**63 - 1))), "bigint")
    return exp.case().when(exp.Is(this=value.copy(), expression=exp.Null()), exp.Null()).else_(number)


def _tried(sign: str, call: exp.Anonymous) -> exp.Expr:
    return sqlglot.parse_one(f"TRY(a {sign} b)").transform(_with(dict(zip("ab", call.expressions, strict=True))))


_CALLS: dict[str, Callable[[exp.Anonymous], exp.Expr]] = {
    "xxhash64": _hash,
    "octet_length": lambda call: exp.Anonymous(this="strlen", expressions=call.expressions),
    "pmod": lambda call: sqlglot.parse_one("((a % b) + b) % b").transform(
        _with(dict(zip("ab", call.expressions, strict=True)))
    ),
    **{
        f"try_{n}": partial(_tried, sign)
        for n, sign in {"add": "+", "subtract": "-", "multiply": "*", "mod": "%"}.items()
    },
    "timestamp_micros": lambda call: exp.Anonymous(this="make_timestamp", expressions=call.expressions),
    "unix_micros": lambda call: exp.func("epoch_us", *call.expressions),
}


def _with(values: dict[str, exp.Expr]) -> Callable[[exp.Expr], exp.Expr]:
    """Puts values for the columns of these names."""
    return lambda node: exp.paren(values[node.name].copy()) if isinstance(node, exp.Column) else node


def _hash_words(values: pa.Array, seeds: pa.Array) -> pa.Array:
    values, seeds = (a.combine_chunks() if isinstance(a, pa.ChunkedArray) else a for a in (values, seeds))
    before = seeds.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    words = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    mixed = np.where(values.is_valid().to_numpy(zero_copy_only=False), _hashed(words, before), before)
    return pa.array(mixed.view(np.int64))


def use_duckdb(monkeypatch: pytest.MonkeyPatch, kind: type[DuckDBCompute] = DuckDBCompute) -> None:
    """Workbenches that are given no session of Spark run on DuckDB; `kind`: how epochs do."""
    from belvedere.connectors.exporting.exports import Exports
    from belvedere.spark import batch
    from belvedere.workbench import workbench

    def opened(_: Any, catalog: Any, pipeline: Any, store: Any, sinks: Any, memory: int, state: Any) -> Engine:
        compute = kind(memory=memory)
        at = open_state(store, state, compute.memory.chunk)
        return Engine(compute, catalog, pipeline, store, at, Exports(catalog, sinks or {}, store), frozenset())  # type: ignore[arg-type]

    monkeypatch.setattr(workbench, "local_session", lambda: None)
    monkeypatch.setattr(workbench, "is_cluster", lambda _: False)
    monkeypatch.setattr(workbench, "open_engine", opened)
    monkeypatch.setattr(batch, "SparkCompute", DuckDBCompute)
    monkeypatch.setattr(batch, "register_functions", lambda *_: None)
