"""The rows of a `WindowBlock` over present rows of its relations: for the batch answer and for incremental maintenance.

In: the node and a DataFrame per relation. Out: DataFrames. Pure: the same rows give the same windows in whatever order and batches they
come, so old output of the same partitions can be replaced by key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from belvedere.engine.identity import key_text
from belvedere.functions.types import quote, type_text
from belvedere.lang.window_by.chain import tuples_of, windowed_of
from belvedere.lang.window_by.groups import over_groups
from belvedere.lang.window_by.joins import over_join
from belvedere.lang.window_by.parser import parse_window_query
from belvedere.lang.window_by.ranges import reaches
from belvedere.lang.window_by.resume import AFTER, FROM, LABEL, TO, extents
from belvedere.lang.window_by.tree import Block, Query
from belvedere.plan.window_by import GROUPS, JOIN, Ranges, Resume, WindowBlock
from belvedere.schema import KEY, Schema
from belvedere.spark.window_by.relation import Result, Table, output_columns
from belvedere.spark.window_by.runner import QueryRunner
from belvedere.spark.window_by.tuples import Spread


def window_rows(spark: SparkSession, block: WindowBlock, rows: Sequence[DataFrame], small: bool = False) -> DataFrame:
    """The block's rows over `rows`, one DataFrame per relation in their order, with hidden columns.

    Where `block.partition` is not empty, all rows of some partitions are enough for the windows of these. `small` where a single task
    is enough.
    """
    query = _query(block)
    if query.limit is None and query.offset is None:
        query = replace(query, order=())  # a view has no order
    result = _run(spark, block, rows, query, small)
    shown = zip(output_columns(result.value), block.columns, strict=True)
    named = [column.cast(type_text(wanted.type)).alias(wanted.name) for column, wanted in shown]
    added = block.schema.columns[len(block.columns) :]
    own = [F.expr(quote(c)).alias(wanted.name) for c, wanted in zip(result.identity, added, strict=False)]
    if block.identity is not None:
        return result.frame.select(*named, *own)
    counted = (*block.columns, *added[:-1])
    content = key_text(Schema(counted, tuple(c.name for c in counted)))
    copy = F.expr(f"row_number() OVER (PARTITION BY {content} ORDER BY 1)").cast("bigint").alias(added[-1].name)
    return result.frame.select(*named, *own).select("*", copy)


def window_extents(spark: SparkSession, block: WindowBlock, rows: Sequence[DataFrame], resume: Resume) -> DataFrame:
    """How far each window reaches, dropped ones too: the times LABEL (or of its start), FROM, TO, AFTER, and its partition `$by0`, ...

    With LABEL there is one for every tuple (`reaches`).
    """
    query = windowed_of(_query(block))
    reach = extents(query)
    if resume.labelled:
        assert block.ranges is not None
        reach = reaches(query, block.ranges)
    result = _run(spark, block, rows, reach, True, query.blocks[0])
    found = dict(zip((i.name for i in reach.blocks[0].select.items), output_columns(result.value), strict=True))
    found[LABEL] = found.get(LABEL, found[FROM])
    nothing = F.when(F.lit(False), found[FROM])
    named = [found.get(n, nothing).alias(n) for n in (LABEL, FROM, TO, AFTER)]
    return result.frame.select(*named, *_parts(block, result))


def tuple_times(spark: SparkSession, block: WindowBlock, rows: Sequence[DataFrame]) -> DataFrame:
    """The time FROM of every row that WHERE keeps, and its partition `$by0`, ..."""
    query = _query(block)
    window = windowed_of(query).blocks[0].window
    assert window is not None
    result = _run(spark, block, rows, tuples_of(query, window.order[0].expr), True)
    return result.frame.select(output_columns(result.value)[0].alias(FROM), *_parts(block, result))


def _parts(block: WindowBlock, result: Result) -> list[Column]:
    by = zip(result.identity, block.partition, strict=False)  # the identity begins with the partition
    return [F.expr(quote(c)).alias(f"$by{place}") for place, (c, _) in enumerate(by)]


def window_reach(spark: SparkSession, block: WindowBlock, rows: Sequence[DataFrame], ranges: Ranges, small: bool) -> DataFrame:
    """How far windows reach (`reaches`): the order keys LABEL, FROM, TO and AFTER, and the `_key` of the row at the label or start."""
    query = windowed_of(_query(block))
    reach = reaches(query, ranges)
    result = _run(spark, block, rows, reach, small, query.blocks[0])
    found = [c.alias(i.name) for c, i in zip(output_columns(result.value), reach.blocks[0].select.items, strict=True)]
    hidden = block.schema.columns[len(block.columns) :]
    own = [F.expr(quote(c)).alias(wanted.name) for c, wanted in zip(result.identity, hidden, strict=True)]
    frame = result.frame.select(*found, *own)
    return frame.select(*frame.columns[: len(found)], F.expr(key_text(block.schema)).alias(KEY))


def _query(block: WindowBlock) -> Query:
    query = parse_window_query(block.text)
    if block.over == GROUPS:
        return over_groups(query)
    return over_join(query) if block.over == JOIN else query


def _run(
    spark: SparkSession, block: WindowBlock, rows: Sequence[DataFrame], query: Query, small: bool, like: Block | None = None
) -> Result:
    hidden = block.carried
    names = tuple(f"$at{place}" for place in range(len(hidden)))
    tables = {}
    for (relation, node), frame in zip(block.relations, rows, strict=True):
        visible = [F.col(quote(c.name)) for c in node.schema.visible]
        beside = [F.col(quote(n)).alias(inner) for n, inner in zip(hidden, names, strict=True)]
        tables[relation] = Table(frame.select(*visible, *beside), names)
    return QueryRunner(spark, tables, spread=Spread.SINGLE if small else Spread.HASHED, like=like).run(query)
