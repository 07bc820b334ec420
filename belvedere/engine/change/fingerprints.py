"""Fingerprints of relations: of the definition of their rows, and of their access paths.

In: a pipeline. Out: texts that differ if stored rows are no longer valid. A stage's fingerprint includes only those
columns of an input that it reads, so an additional column does not change views that do not read it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from belvedere.engine.pipeline import Pipeline
from belvedere.engine.relation import Relation
from belvedere.engine.sql.plan_sql import print_expression
from belvedere.engine.stage import Stage
from belvedere.functions.spark_types import type_text
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.rewrites.prune_columns import columns_read
from belvedere.plan.rewrites.rewrite import replace_scans
from belvedere.schema import Column, Schema
from belvedere.state.fingerprint import DIGEST


def definition_fingerprints(pipeline: Pipeline, as_if: Mapping[str, Schema] | None = None) -> dict[str, str]:
    """Return a fingerprint per relation: of its rule, its plan and all its inputs.

    A change therefore affects all relations above.

    `as_if` are columns of inputs, and of histories, that replace those of the pipeline.
    """
    found: dict[str, str] = {}
    bases: dict[str, str] = {}
    """Definitions of inputs, without their columns."""
    for stage, relation in _as_if(pipeline, as_if or {}):
        if stage.is_input:
            narrow = replace(stage, plan=Scan(stage.output, Schema(())))
            bases[stage.output] = _digest(*_content(narrow, relation))
            read = {}
        else:
            read = _read(stage, bases.keys())
        below = (bases.get(s.relation, found.get(s.relation, "")) for s in stage.slots)
        own = [relation.schema, *(pipeline.relations[n].schema for n in stage.states)]
        content = _content(_narrowed(stage, read), relation)
        digest = _digest(*content, *(t for s in own for t in _columns(s)), *below, *_read_text(read))
        found |= dict.fromkeys((stage.output, *stage.states), digest)
    return found


def _as_if(pipeline: Pipeline, as_if: Mapping[str, Schema]) -> Iterable[tuple[Stage, Relation]]:
    """Yield the stages with their relations, with some columns replaced."""
    for stage in pipeline.stages:
        relation = pipeline.relations[stage.output]
        if stage.output not in as_if:
            yield stage, relation
            continue
        schema = as_if[stage.output]
        plan = Scan(stage.output, schema)
        if not stage.is_input:  # the history of an input
            (slot,) = stage.slots
            plan = Scan(slot.name, as_if[slot.relation])
        yield replace(stage, plan=plan), replace(relation, schema=schema)


def _read(stage: Stage, inputs: Iterable[str]) -> dict[str, tuple[Column, ...]]:
    """Return the columns of inputs that a stage reads, by the name of its slot."""
    slots = {s.name for s in stage.slots if s.relation in set(inputs)}
    if not slots:
        return {}
    plans = [value for f in fields(stage) if isinstance(value := getattr(stage, f.name), Node)]
    names: dict[str, frozenset[str]] = {}
    schemas: dict[str, Schema] = {}
    for plan in plans:
        schemas |= {n.relation: n.relation_schema for n in plan.walk() if isinstance(n, Scan)}
        for name, read in columns_read(plan).items():
            names[name] = names.get(name, frozenset()) | read
    kept = {n: names[n].union(schemas[n].key or ()) for n in slots & names.keys()}
    return {n: tuple(c for c in schemas[n] if c.name in kept[n]) for n in sorted(kept)}


def _narrowed(stage: Stage, read: Mapping[str, tuple[Column, ...]]) -> Stage:
    """Return the stage over only the columns that it reads."""
    if not read:
        return stage

    def narrow(scan: Scan) -> Scan:
        columns = read.get(scan.relation)
        return (
            scan if columns is None else replace(scan, relation_schema=replace(scan.relation_schema, columns=columns))
        )

    plans = {f.name: value for f in fields(stage) if isinstance(value := getattr(stage, f.name), Node)}
    narrowed: dict[str, Any] = {n: replace_scans(plan, narrow) for n, plan in plans.items()}
    return replace(stage, **narrowed)


def _content(stage: Stage, relation: Relation) -> list[str]:
    return [stage.rule, *stage.definition, str(relation.schema.key), str(relation.keep), relation.serves]


def _columns(columns: Iterable[Column]) -> list[str]:
    return [f"{c.name} {type_text(c.type)} {c.nullable}" for c in columns]


def _read_text(read: Mapping[str, tuple[Column, ...]]) -> list[str]:
    return [f"{name}: {', '.join(_columns(columns))}" for name, columns in read.items()]


def path_print(relation: Relation) -> str:
    """Return a fingerprint of the stored access paths and range columns."""
    paths = [f"{p.name} {[print_expression(e) for e in p.exprs]} {p.types}" for p in relation.paths if p.stored]
    return _digest(*paths, *relation.ranges, *(["by path"] if relation.by_path else []))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGEST]
