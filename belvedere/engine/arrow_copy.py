"""Rows that Arrow copies unchanged.

A projection of plain columns whose key and access paths are integers or times needs no Spark.

In: a plan, a relation. Out: the rows of the relation, with `_key` and hashes equal to those of Spark's SQL
(`belvedere.engine.sql.row_identity`). The hash of a path is Spark's `xxhash64`: XXH64 of each value as eight bytes,
seeded with the hash of the previous value; a NULL leaves it unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from belvedere.engine.relation import Path, Relation
from belvedere.engine.rows.epoch_rows import combined
from belvedere.engine.sql.row_identity import NULL_MARK
from belvedere.plan.operators.nodes import Node, Project, Scan
from belvedere.plan.rewrites.rewrite import plain_columns
from belvedere.schema import KEY, TIMESTAMP, Schema

Words = npt.NDArray[np.uint64]
_SEED = 42
_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)


def moved_columns(plan: Node) -> dict[str, str] | None:
    """Return the scan column behind each column of a plan that only selects and renames, or None for other plans."""
    if isinstance(plan, Scan):
        return {n: n for n in plan.schema.names}
    if not isinstance(plan, Project) or (below := moved_columns(plan.input)) is None:
        return None
    plain = plain_columns(plan)
    return {name: below[own] for name, own in plain.items()} if len(plain) == len(plan.items) else None


def is_identified(relation: Relation, paths: Sequence[Path] | None = None) -> bool:
    """Return whether `_key` and the hashes of a relation's paths (all paths by default) depend only on integers and
    times."""
    schema, key = relation.schema, relation.schema.key or ()
    types = {c.name: c.type for c in schema}
    chosen = relation.paths if paths is None else paths
    hashed = ((e, t) for p in chosen for e, t in zip(p.exprs, p.types, strict=True))
    if not all(isinstance(e, exp.Column) and e.name in types and _is_word(types[e.name], t) for e, t in hashed):
        return False
    return bool(key) and all(pa.types.is_integer(types[n]) for n in key)


def _is_word(type_: pa.DataType, hashed_as: pa.DataType) -> bool:
    both = (type_, hashed_as)
    return all(map(pa.types.is_signed_integer, both)) or both == (TIMESTAMP, TIMESTAMP)


def identified(
    table: pa.Table, relation: Relation, extra: Sequence[str] = (), paths: Sequence[Path] | None = None
) -> pa.Table:
    """Return the relation's columns of a table, with `_key`, the hashes of paths, and the `extra` columns."""
    schema: Schema = relation.schema
    texts = [pc.fill_null(table[n].cast(pa.string()), NULL_MARK) for n in schema.key or ()]
    key = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "|")
    fields = [*schema.arrow, pa.field(KEY, pa.string(), nullable=False)]
    columns = [*(table[n] for n in schema.names), key]
    for path in relation.paths if paths is None else paths:
        columns.append(pa.array(hashes([combined(table[e.name]) for e in path.exprs], table.num_rows)))
        fields.append(pa.field(path.name, pa.int64(), nullable=False))
    for name in extra:
        columns.append(table[name])
        fields.append(table.schema.field(name))
    return pa.table(columns, schema=pa.schema(fields))


def hashes(columns: Sequence[pa.Array], size: int) -> npt.NDArray[np.int64]:
    """Return Spark's `xxhash64` of integers and times."""
    found = np.full(size, _SEED if columns else 0, np.uint64)
    for column in columns:
        whole = column.cast(pa.int64())
        values = whole.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
        mixed = _hashed(values, found)
        found = np.where(whole.is_valid().to_numpy(zero_copy_only=False), mixed, found) if whole.null_count else mixed
    return found.view(np.int64)


def hashes_with_number(
    first: npt.NDArray[np.int64], values: npt.NDArray[np.int64], is_first: bool
) -> npt.NDArray[np.int64]:
    """Return the `xxhash64` of the columns behind these hashes followed by an integer.

    `is_first`: of the integers alone.
    """
    seed = np.full(len(first), _SEED, np.uint64) if is_first else first.view(np.uint64)
    return _hashed(values.view(np.uint64), seed).view(np.int64)


def _hashed(values: Words, seed: Words) -> Words:
    found = seed + _P5 + np.uint64(8)
    found = _turned(found ^ (_turned(values * _P2, 31) * _P1), 27) * _P1 + _P4
    found = (found ^ (found >> np.uint64(33))) * _P2
    found = (found ^ (found >> np.uint64(29))) * _P3
    mixed: Words = found ^ (found >> np.uint64(32))
    return mixed


def _turned(values: Words, bits: int) -> Words:
    turned: Words = (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
    return turned
