"""Several queries over few rows combined into one, since a Spark job costs about 50 ms even for few rows.

In: queries with the schemas of their rows. Out: one query, and its result in parts. Each query is one part of a UNION
ALL with a column for each query, in which its rows are arrays of one struct and all other rows are NULL. (Plain structs
are not possible: Arrow has no NULL for a struct with a NOT NULL field.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from belvedere.functions.spark_types import quote


def one_query(queries: Sequence[tuple[str, pa.Schema]], few: bool) -> tuple[str, pa.Schema]:
    """Return one query for all, and the schema of its rows.

    Over `few` rows it is one task. Each task of a job first reads the plans of all parts, which takes longer than such
    parts do.
    """
    parts = (_part(n, sql, schema, len(queries)) for n, (sql, schema) in enumerate(queries))
    whole = " UNION ALL ".join(parts)
    if few:
        whole = f"SELECT /*+ COALESCE(1) */ * FROM ({whole})"
    rows = [pa.field(f"q{n}", pa.list_(pa.struct(list(schema)))) for n, (_, schema) in enumerate(queries)]
    return whole, pa.schema(rows)


def _part(number: int, sql: str, schema: pa.Schema, count: int) -> str:
    row = f"array(struct({', '.join(map(quote, schema.names))}))"
    columns = (f"{row if n == number else 'NULL'} AS q{n}" for n in range(count))
    return f"SELECT {', '.join(columns)} FROM ({sql})"


def parted(table: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of each query."""
    for column in table.columns:
        rows = [pa.RecordBatch.from_struct_array(chunk.flatten()) for chunk in column.chunks]
        yield pa.Table.from_batches(rows, pa.schema(list(column.type.value_type)))
