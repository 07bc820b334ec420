"""The reason that a row exists: its input rows, relation by relation, down to the inputs.

In: a store that answers queries, a view, the values of a key. Out: a tree of findings. It has for each view the row,
its definition, the rows that it read (a count and a sample), and the rows dropped on the way. Findings are computed on
request; all of one level are of one epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.errors import Diagnostic, fail
from belvedere.plan.operators.nodes import Node, Scan, TopK
from belvedere.plan.rewrites.rewrite import replace_scans
from belvedere.provenance.column_labels import shown
from belvedere.provenance.findings import FoundRows, Why
from belvedere.provenance.found_rows import SAMPLE, Question, answered, not_stored, sample_order
from belvedere.provenance.narrowing import narrowed
from belvedere.provenance.plan_queries import QueryRunner
from belvedere.provenance.row_predicates import RowPredicate
from belvedere.provenance.trees import why_text
from belvedere.provenance.why.backward import trace
from belvedere.provenance.why.input_rows import grouped, root_predicate, rows_named
from belvedere.provenance.why.since import goes_by_arrival, since, with_histories
from belvedere.provenance.why.traces import Backward, Dropped, Traced
from belvedere.provenance.why.versions import rows_of_inputs
from belvedere.provenance.why_not.pruned_inputs import late_rows
from belvedere.provenance.why_not.pruning import condition_text
from belvedere.schema import Schema
from belvedere.syntax.wording import did_you_mean


def find_row(query_runner: QueryRunner, id_: str, requested: RowPredicate) -> tuple[Mapping[str, Any], int | None]:
    """Return the one row of a relation that satisfies the predicate, with hidden columns, and its epoch.

    Raises B8111 if there is none, and B8112 if there are several.
    """
    scan = Scan(id_, query_runner.catalog.schema_of(id_))
    name = query_runner.catalog.name_of(id_)
    top = TopK(narrowed(scan, requested, query_runner.definition), (), 2)
    answers = query_runner.ask([top])
    rows = _reported(answers.rows[0])
    condition = f" with {condition_text(requested)}" if requested else ""
    if not rows.num_rows:
        raise fail(
            "B8111", f'"{name}" has no row{condition}', hint="`belvedere why-not` explains why there is no such row"
        )
    if rows.num_rows > 1:
        raise fail("B8112", f'"{name}" has several rows{condition}', hint=_how_to_name_one(scan.schema))
    return rows.to_pylist()[0], answers.epoch.epoch if answers.epoch else None


def _how_to_name_one(schema: Schema) -> str | None:
    """Return a hint on identifying one row: by its key, or by all visible columns if key columns are hidden.

    A nested table's parent key is hidden, for example.
    """
    key = schema.key or ()
    if key and not any(schema[n].hidden for n in key):
        return f"identify one by its key: {', '.join(key)}"
    names = ", ".join(c.name for c in schema.visible)
    return f"add conditions on more columns: {names}" if names else None


def relation_named(catalog: Catalog, name: str) -> str:
    """Return the id of a relation, by its name, if its rows can be explained.

    Raises B8115 for a query template, and B2001 if the script does not define the name.
    """
    id_ = catalog.find(name)
    if id_ is not None:
        return id_
    template = next((t for t in catalog.templates.values() if t.name.casefold() == name.casefold()), None)
    if template is not None:
        read = dict.fromkeys(f"`{catalog.name_of(n.relation)}`" for n in template.plan.walk() if isinstance(n, Scan))
        hint = f"ask for rows of the relations that it reads: {', '.join(read)}" if read else None
        raise fail("B8115", f"{template.title} stores no rows", hint=hint)
    names = tuple(i for i in (*catalog.views, *catalog.inputs, *catalog.subscriptions) if "~" not in i)
    raise fail("B2001", f'the script defines no "{name}"', hint=did_you_mean(name, names))


def _reported(answer: pa.Table | Diagnostic) -> pa.Table:
    """Return the rows. Raises B8110 if they are not available."""
    if isinstance(answer, Diagnostic):
        hint = answer.hint or "use `belvedere why`, which can also use Spark"
        raise fail("B8110", f"this cannot be answered here: {answer.message}", hint=hint)
    return answer


def why(
    query_runner: QueryRunner,
    id_: str,
    row: Mapping[str, Any],
    epoch: int | None,
    *,
    depth: int = 1,
    size: int = SAMPLE,
) -> Why:
    """Return the input rows of a view's row; with a greater depth also those of the sampled rows of views.

    `row` has all of the stored columns and is of epoch `epoch`. With `depth` 1, only the relations in the view's own
    query are returned.
    """
    past = with_histories(query_runner)
    answer = _level(past, id_, row, epoch, depth, size, is_asked=True)
    return replace(answer, since=since(past, id_, row, answer.inputs, size=size))


def _level(
    query_runner: QueryRunner,
    id_: str,
    row: Mapping[str, Any],
    epoch: int | None,
    depth: int,
    size: int,
    *,
    is_asked: bool = False,
) -> Why:
    """Return the input rows of one row, and the levels below.

    The rows of the inputs are returned once for all levels, with the requested row.
    """
    view = query_runner.catalog.views.get(id_)
    if view is None:
        return Why(query_runner.catalog, why_text, id_, "", row, epoch)
    back = Backward(query_runner.definition)
    ways = list(trace(back, view.plan, root_predicate(view.plan, row)))
    traces = [w for w in ways if isinstance(w, Traced)]
    inputs = rows_of_inputs(query_runner, view, row) if is_asked else []
    with_last = is_asked and goes_by_arrival(query_runner, id_)
    questions = (
        [
            _question(query_runner, g, "; ".join(g[0].words))
            for g in grouped(traces, lambda r: (r.relation.relation, r.words))
        ],
        [_of_dropped(w) for w in ways if isinstance(w, Dropped)],
        list(_late_questions(query_runner, traces)),
        [replace(_question(query_runner, g, ""), with_last=with_last) for g in inputs],
    )
    epoch_row, found = answered(query_runner, [q for part in questions for q in part], size)
    read_in = epoch_row.epoch if epoch_row is not None else None
    answers = iter(found)
    reads, dropped, late, of_inputs = (tuple(next(answers) for _ in part) for part in questions)
    return Why(
        query_runner.catalog,
        why_text,
        id_,
        view.sql,
        row,
        read_in,
        tuple(_followed(query_runner, r, read_in, depth, size) for r in reads if r.count or r.untold),
        tuple(shown(q.rows, r) for q, r in zip(questions[1], dropped, strict=True) if r.count and q.rows),
        tuple(r for r in late if r.count),
        tuple(r for r in of_inputs if r.count or r.untold),
    )


def _question(query_runner: QueryRunner, traces: Sequence[Traced], words: str) -> Question:
    relation = traces[0].relation
    read = FoundRows(relation.relation, words, order=sample_order(relation.schema))
    if not query_runner.is_there(relation.relation):
        return Question(not_stored(query_runner, read), None)
    return Question(read, rows_named(query_runner, traces))


def _of_dropped(dropped: Dropped) -> Question:
    relation = next((n.relation for n in dropped.rows.walk() if isinstance(n, Scan)), "")
    order = sample_order(dropped.rows.schema)
    return Question(FoundRows(relation, dropped.words, order=order, between=dropped.between), dropped.rows)


def _followed(query_runner: QueryRunner, read: FoundRows, epoch: int | None, depth: int, size: int) -> FoundRows:
    if depth <= 1 or read.relation not in query_runner.catalog.views:
        return read
    return replace(read, below=tuple(_level(query_runner, read.relation, r, epoch, depth - 1, size) for r in read.rows))


def _late_questions(query_runner: QueryRunner, traces: Sequence[Traced]) -> Iterator[Question]:
    """Yield questions on late rows that would otherwise have been input rows."""
    for traced in traces:
        late = query_runner.catalog.late_of(traced.relation.relation)
        if late is None or late.id not in query_runner.tables:
            continue
        rows = narrowed(traced.relation, traced.requested, lambda _: None)
        over = replace_scans(rows, partial(_late_for, traced.relation, Scan(late.id, late.schema)))
        yield Question(FoundRows(late.id, "arrived late", order=sample_order(over.schema)), over)


def _late_for(relation: Scan, late: Scan, scan: Scan) -> Node:
    return late_rows(relation, late) if scan.relation == relation.relation else scan
