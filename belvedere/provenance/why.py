"""Why a row is there: the rows that it was made of, relation by relation, down to the inputs.

In: a store that can be asked, a view, the values of a key. Out: a tree of findings: at each view the row, its definition, the rows that
it read, with a count and a sample, and what was dropped on the way. Computed when asked; all of one level is of one epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog import Catalog
from belvedere.errors import Diagnostic, fail
from belvedere.plan.expressions import column
from belvedere.plan.historic import HISTORIC
from belvedere.plan.keys import item_of, keep_columns
from belvedere.plan.nodes import Aggregate, Item, Node, Order, Project, Scan, TopK, Union
from belvedere.plan.rewrite import replace_scans
from belvedere.plan.text import expression_text
from belvedere.provenance.asking import Asker
from belvedere.provenance.backward import Backward, Dropped, Reading, Trail
from belvedere.provenance.constants import row_tests
from belvedere.provenance.wanted import Wanted, matching, narrowed, same
from belvedere.schema import Column, Schema

SAMPLE = 5
"""How many rows are shown of each relation."""
COUNT = "n"


@dataclass(frozen=True)
class Read:
    """Rows of one relation that a row was made of: how many, and the first of them by key."""

    relation: str
    """The relation's id; of what was dropped on the way, that of the operator's first input."""
    words: str
    count: int = 0
    rows: tuple[Mapping[str, Any], ...] = ()
    order: tuple[str, ...] = ()
    """The columns by which the sample is the first rows."""
    untold: str = ""
    """Why its rows cannot be told."""
    below: tuple[Why, ...] = ()
    """For rows of views that were followed: what they were made of."""


@dataclass(frozen=True)
class Why:
    """A row of a view, and what it was made of."""

    view: str
    sql: str
    row: Mapping[str, Any]
    epoch: int | None
    reads: tuple[Read, ...] = ()
    dropped: tuple[Read, ...] = ()
    late: tuple[Read, ...] = ()
    inputs: tuple[Read, ...] = ()
    """The rows of each input that it comes from, through all views between."""


@dataclass(frozen=True)
class Ways:
    """All ways from one row to the relations that it was made of."""

    readings: tuple[Reading, ...] = ()
    dropped: tuple[Dropped, ...] = ()


def find_row(asker: Asker, id_: str, wanted: Wanted) -> tuple[Mapping[str, Any], int | None]:
    """The one row of a relation that fulfils the tests, hidden columns too, with its epoch.

    Raises B8111 where there is none, and B8112 where there are several.
    """
    scan = Scan(id_, asker.catalog.schema_of(id_))
    name = asker.catalog.name_of(id_)
    top = TopK(narrowed(scan, wanted, asker.definition), (), 2)
    answers = asker.ask([top])
    rows = _told(answers.rows[0])
    condition = " AND ".join(map(expression_text, wanted.tests)) or "TRUE"
    if not rows.num_rows:
        hint = "`belvedere query` shows the rows that there are"
        raise fail("B8111", f'"{name}" has no row with {condition}', hint=hint)
    if rows.num_rows > 1:
        key = ", ".join(n for n in scan.schema.key or () if not scan.schema[n].hidden)
        raise fail("B8112", f'"{name}" has several rows with {condition}', hint=f"name one by its key: {key}" if key else None)
    return rows.to_pylist()[0], answers.epoch.epoch if answers.epoch else None


def key_tests(catalog: Catalog, id_: str, key: Mapping[str, Any]) -> Wanted:
    """That a row has these values, by its columns' names. Raises B2002 for a column that there is not."""
    schema, name = catalog.schema_of(id_), catalog.name_of(id_)
    found: dict[str, Any] = {}
    for given, value in key.items():
        known = schema.find(given)
        if known is None:
            hint = f"it has {', '.join(c.name for c in schema.visible)}"
            raise fail("B2002", f'"{name}" has no column "{given}"', hint=hint)
        found[known.name] = _typed(known, value)
    return Wanted(row_tests(found, {n: schema[n].type for n in found}))


def _typed(known: Column, value: Any) -> Any:
    """A value as its column has it. Raises B8113 where it does not fit."""
    try:
        if isinstance(value, str) and not pa.types.is_string(known.type):
            return pa.array([value]).cast(known.type)[0].as_py()
        return pa.array([value], known.type)[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise fail("B8113", f"`{known.name}` is {known.type}, not {value!r}", detail=str(error)) from None


def _told(answer: pa.Table | Diagnostic) -> pa.Table:
    """The rows. Raises B8110 where nobody can tell them."""
    if isinstance(answer, Diagnostic):
        hint = answer.hint or "`belvedere why` asks Spark where the database cannot say it"
        raise fail("B8110", f"this cannot be told here: {answer.message}", hint=hint)
    return answer


def root_wanted(plan: Node, row: Mapping[str, Any]) -> Wanted:
    """What finds a stored row in its view's plan: its key; where the plan depends on history all that can be compared."""
    historic = any(isinstance(n, HISTORIC) for n in plan.walk())
    key = plan.schema.key or ()
    names = [c.name for c in plan.schema if c.name in row] if historic or not key else key
    return Wanted(row_tests(row, {n: plan.schema[n].type for n in names}))


def ways_of(asker: Asker, id_: str, row: Mapping[str, Any], deep: bool = False) -> Ways:
    """The ways from a row of a view to the relations that its query reads; `deep`: to the inputs."""
    back = Backward(asker.definition)
    plan = asker.catalog.views[id_].plan
    found = list(back.read(plan, root_wanted(plan, row)))
    if deep:
        found = [f for one in found for f in (_deeper(asker, back, one) if isinstance(one, Reading) else [one])]
    readings = [f for f in found if isinstance(f, Reading)]
    return Ways(tuple(readings), tuple(f for f in found if isinstance(f, Dropped)))


def _deeper(asker: Asker, back: Backward, reading: Reading) -> Iterator[Reading | Dropped]:
    """A reading of a view followed to the inputs."""
    view = asker.catalog.views.get(reading.relation.relation)
    if view is None:
        yield reading
        return
    plan = keep_columns(view.plan, reading.relation.schema.names)
    for found in back.read(plan, reading.wanted, Trail((*reading.words, f"through {view.name}"), reading.certain)):
        if isinstance(found, Reading):
            yield from _deeper(asker, back, found)


def rows_named(asker: Asker, readings: Sequence[Reading]) -> Node:
    """The rows of one relation that any of the readings names, each once."""
    relation = readings[0].relation
    plans = [narrowed(relation, r.wanted, asker.definition) for r in readings]
    if len(plans) == 1:
        return plans[0]
    key = relation.schema.key or relation.schema.names
    keys = Union(tuple(keep_columns(p, key) for p in plans))
    return narrowed(relation, matching(keys, *same(None, key)), asker.definition)


def counted(rows: Node) -> Node:
    """How many rows there are."""
    return Aggregate(rows, (), (Item(COUNT, exp.Count(this=exp.Star()), pa.int64(), nullable=False),))


def sampled(rows: Node, order: tuple[str, ...], size: int) -> Node:
    """The first rows by key."""
    return TopK(rows, tuple(Order(column(n)) for n in order), size)


def sample_order(schema: Schema) -> tuple[str, ...]:
    """The key of a relation, as far as it can be ordered."""
    return tuple(n for n in schema.key or () if not pa.types.is_nested(schema[n].type))


@dataclass(frozen=True)
class _Question:
    """Rows that are to be counted and sampled."""

    read: Read
    rows: Node | None


def told(asker: Asker, questions: Sequence[_Question], size: int) -> list[Read]:
    """Count and sample the rows of each question, in one snapshot."""
    plans: list[Node] = []
    for question in questions:
        if question.rows is not None:
            plans += [counted(question.rows), sampled(question.rows, question.read.order, size)]
    answers = iter(asker.ask(plans).rows if plans else ())
    found = []
    for question in questions:
        if question.rows is None:
            found.append(question.read)
            continue
        count, rows = next(answers), next(answers)
        problem = next((a for a in (count, rows) if isinstance(a, Diagnostic)), None)
        if problem is not None:
            found.append(replace(question.read, untold=problem.message))
        else:
            found.append(replace(question.read, count=count[COUNT][0].as_py(), rows=tuple(rows.to_pylist())))  # type: ignore[union-attr,index]
    return found


def why(asker: Asker, id_: str, row: Mapping[str, Any], epoch: int | None, *, depth: int = 1, size: int = SAMPLE) -> Why:
    """What a row of a view was made of; with a greater depth also what the sampled rows of views were made of.

    Args: `row` has all of the stored columns. `depth` 1: only the relations that the view's own query reads.
    """
    view = asker.catalog.views.get(id_)
    if view is None:
        return Why(id_, "", row, epoch)
    ways = ways_of(asker, id_, row)
    questions = [_question(asker, group) for group in _by_relation_and_words(ways.readings)]
    reads = [_followed(asker, r, epoch, depth, size) for r in told(asker, questions, size)]
    dropped = [
        _Question(Read(_first_relation(d.rows), d.words, order=sample_order(d.rows.schema)), d.rows) for d in ways.dropped
    ]
    late = list(_late_questions(asker, ways.readings))
    return Why(
        id_,
        view.sql,
        row,
        epoch,
        tuple(r for r in reads if r.count or r.untold),
        tuple(r for r in told(asker, dropped, size) if r.count),
        tuple(r for r in told(asker, late, size) if r.count),
        tuple(inputs_of(asker, id_, row, size)),
    )


def inputs_of(asker: Asker, id_: str, row: Mapping[str, Any], size: int = SAMPLE) -> list[Read]:
    """The rows of each input that a row comes from, through all views between."""
    groups: dict[str, list[Reading]] = {}
    for reading in ways_of(asker, id_, row, deep=True).readings:
        groups.setdefault(reading.relation.relation, []).append(reading)
    return [r for r in told(asker, [_question(asker, g, words="") for g in groups.values()], size) if r.count or r.untold]


def _by_relation_and_words(readings: Sequence[Reading]) -> list[list[Reading]]:
    groups: dict[tuple[str, tuple[str, ...]], list[Reading]] = {}
    for reading in readings:
        groups.setdefault((reading.relation.relation, reading.words), []).append(reading)
    return list(groups.values())


def _question(asker: Asker, readings: Sequence[Reading], words: str | None = None) -> _Question:
    relation = readings[0].relation
    said = "; ".join(readings[0].words) if words is None else words
    read = Read(relation.relation, said, order=sample_order(relation.schema))
    if not asker.is_there(relation.relation):
        name = asker.catalog.name_of(relation.relation)
        return _Question(replace(read, untold=f"the rows of `{name}` are not stored: it is private"), None)
    return _Question(read, rows_named(asker, readings))


def _first_relation(rows: Node) -> str:
    return next((n.relation for n in rows.walk() if isinstance(n, Scan)), "")


def _followed(asker: Asker, read: Read, epoch: int | None, depth: int, size: int) -> Read:
    if depth <= 1 or read.relation not in asker.catalog.views:
        return read
    return replace(read, below=tuple(why(asker, read.relation, r, epoch, depth=depth - 1, size=size) for r in read.rows))


def _late_questions(asker: Asker, readings: Sequence[Reading]) -> Iterator[_Question]:
    """Late rows that would have been among those that were read."""
    for reading in readings:
        late = asker.catalog.late_of(reading.relation.relation)
        if late is None or late.id not in asker.tables:
            continue
        own = reading.relation.relation
        known = set(late.schema.names)
        items = tuple(
            item_of(c) if c.name in known else Item(c.name, exp.Null(), c.type, True, True)
            for c in reading.relation.schema.columns
        )
        rows = narrowed(reading.relation, reading.wanted, asker.definition)
        over = replace_scans(rows, lambda s, o=own, i=items, t=late: Project(Scan(t.id, t.schema), i) if s.relation == o else s)  # type: ignore[misc]
        yield _Question(Read(own, "came late", order=sample_order(over.schema)), over)
