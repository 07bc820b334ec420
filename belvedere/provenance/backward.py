"""A plan read backwards: which rows of the relations that it scans the wanted rows of its result are made of.

In: a plan and what is wanted of its result. Out: a `Reading` for each way from the result to a scan. Each operator has one function in
`STEPS`, which says what is wanted of its inputs. What is named is enough: the plan over these rows alone gives the wanted rows again.
Nothing is computed here.

Source: Cui, Widom, Wiener, "Tracing the lineage of view data in a warehousing environment" (TODS 2000); an operator's rows without
a name of the input that they come from (the missing side of an outer join, NOT EXISTS) have no reading on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from belvedere.plan.expressions import column, columns_of, conjuncts
from belvedere.plan.nodes import (
    Aggregate,
    Distinct,
    Expr,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    SetKind,
    SetOperation,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
)
from belvedere.plan.recursion import Recursion
from belvedere.plan.spl_aggregate import SplAggregate
from belvedere.plan.spl_join import SplJoin
from belvedere.plan.text import expression_text
from belvedere.plan.time_nodes import Emit, InOrder, TimeWindow, TimeWindowKind
from belvedere.plan.window_by import PredicateWindow
from belvedere.provenance.constants import fixed_columns, is_impossible
from belvedere.provenance.historic import emitted, in_order, spl_contents, spl_sides
from belvedere.provenance.orders import ahead_of
from belvedere.provenance.passing import branch_wanted, partitions, passing
from belvedere.provenance.predicate_windows import window_rows
from belvedere.provenance.time_windows import in_window
from belvedere.provenance.wanted import Definition, Wanted, matching, narrowed, of_other, other, same, test


@dataclass(frozen=True)
class Trail:
    """What is known on the way down: the words for people, whether the row is surely there, whether others were in its group."""

    words: tuple[str, ...] = ()
    certain: bool = True
    """Whether the wanted row is one that exists: tests beside those of its key then hold, and its partners are there."""
    grouped: bool = False


@dataclass(frozen=True)
class Reading:
    """Rows of a relation that the wanted rows are made of."""

    relation: Scan
    wanted: Wanted
    words: tuple[str, ...]
    certain: bool
    """Whether it is known without a look that there are some."""


@dataclass(frozen=True)
class Dropped:
    """Rows that would have counted if an operator had not dropped them."""

    words: str
    rows: Node


@dataclass(frozen=True)
class Step:
    """What is wanted of one input of an operator."""

    input: int
    wanted: Wanted
    words: str = ""
    certain: bool = True


Found = Reading | Dropped


@dataclass(frozen=True)
class Backward:
    """Readers of plans that know which relations are stored: the others' plans are put in where rows must match."""

    definition: Definition

    def read(self, node: Node, wanted: Wanted, trail: Trail | None = None) -> Iterator[Found]:
        """The ways from a plan's wanted rows down to its scans."""
        trail = trail or Trail()
        if isinstance(node, Scan):
            yield Reading(node, wanted, trail.words, trail.certain)
            return
        steps = [s for s in STEPS[type(node)](self, node, wanted, trail) if not any(map(is_impossible, s.wanted.tests))]
        certain = trail.certain and all(s.certain for s in steps) and not _has_ways(steps)
        grouped = trail.grouped or isinstance(node, Aggregate | Distinct | SetOperation | TopK | Window)
        if trail.grouped:
            yield from self.dropped(node, wanted)
        for step in steps:
            words = (*trail.words, step.words) if step.words else trail.words
            yield from self.read(node.inputs[step.input], step.wanted, Trail(words, certain, grouped))

    def rows(self, node: Node, wanted: Wanted) -> Node:
        """The wanted rows of an operator as a plan over stored relations."""
        return narrowed(node, wanted, self.definition)

    def by_key(self, node: Node, child: Node, wanted: Wanted, trail: Trail) -> Wanted:
        """The rows of an input whose columns and key an operator passes on."""
        (passed, *_), left = passing(node, wanted)
        if not left or (trail.certain and is_fixed(passed, child.schema.key)):
            return passed
        return passed + matching(self.rows(node, wanted), *same(None, child.schema.key or child.schema.names))

    def dropped(self, node: Node, wanted: Wanted) -> Iterator[Dropped]:
        """Rows of a group that a filter, or the lack of a partner, keeps out."""
        if isinstance(node, Filter):
            failed = exp.Not(this=exp.paren(exp.NullSafeEQ(this=exp.paren(node.condition.copy()), expression=exp.true())))
            rows = self.rows(node.input, wanted + test(failed))
            yield Dropped(f"WHERE {expression_text(node.condition)}", rows)
        if isinstance(node, Join) and node.kind is JoinKind.INNER and node.condition is not None:
            for side, partner in ((node.left, node.right), (node.right, node.left)):
                own, rest = wanted.split(side.schema.names)
                if own and not rest:
                    lonely = without_partner(self.rows(partner, Wanted()), node.condition, partner)
                    yield Dropped(f"no partner by {expression_text(node.condition)}", self.rows(side, own + lonely))


def _has_ways(steps: list[Step]) -> bool:
    """Whether an input is read in several ways, of which perhaps only one has rows."""
    return len({s.input for s in steps}) < len(steps)


def is_fixed(wanted: Wanted, key: tuple[str, ...] | None) -> bool:
    """Whether tests give each column of a key one value."""
    return bool(key) and set(key or ()) <= set(fixed_columns(wanted.tests))


def partner_condition(condition: Expr | None, partner: Node) -> tuple[Expr, ...]:
    """A join's condition over one side's own columns and the marked ones of its partner."""
    names = partner.schema.names
    return tuple(of_other(part, names) for part in conjuncts(condition))


def without_partner(rows: Node, condition: Expr | None, partner: Node) -> Wanted:
    """Rows for which the other side of a join has none."""
    return matching(rows, *partner_condition(condition, partner), negated=True)


def _filter(back: Backward, node: Filter, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    if trail.certain and is_fixed(wanted, node.schema.key):
        yield Step(0, wanted)
    else:
        yield Step(0, wanted + test(*conjuncts(node.condition)))


def _passed(back: Backward, node: Project | Distinct, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    yield Step(0, passing(node, wanted)[0][0])


def _by_key(back: Backward, node: Unnest, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    yield Step(0, back.by_key(node, node.input, wanted, trail))


def _union(back: Backward, node: Union, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    live = [(n, branch_wanted(node, n, wanted)) for n in range(len(node.branches))]
    live = [(n, w) for n, w in live if not any(map(is_impossible, w.tests))]
    for number, branch in live:
        yield Step(number, branch, f"branch {number + 1} of UNION", certain=len(live) == 1)


def _set_operation(back: Backward, node: SetOperation, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    left, right = passing(node, wanted)[0]
    pairs = dict(zip(node.right.schema.names, map(column, node.left.schema.names), strict=True))
    there = matching(back.rows(node.right, right), *same(pairs), negated=node.kind is SetKind.EXCEPT)
    known = trail.certain and is_fixed(wanted, node.schema.key)
    yield Step(0, left if known else left + there)
    if node.kind is SetKind.INTERSECT:
        mirrored = dict(zip(node.left.schema.names, map(column, node.right.schema.names), strict=True))
        yield Step(1, right if known else right + matching(back.rows(node.left, left), *same(mirrored)))


def _aggregate(back: Backward, node: Aggregate, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    if node.grouping_sets is not None:
        yield from _grouping_sets(back, node, wanted)
        return
    (group,), left = passing(node, wanted)
    words = f"its group by {', '.join(k.name.rpartition('.')[2] for k in node.keys)}" if node.keys else "all rows"
    if node.keys and left and not (trail.certain and is_fixed(wanted, node.schema.key)):
        group = group + matching(back.rows(node, wanted), *same({k.name: k.expr for k in node.keys}))
    yield Step(0, group, words, certain=bool(node.keys))


def _grouping_sets(back: Backward, node: Aggregate, wanted: Wanted) -> Iterator[Step]:
    """Each set is a way of its own: keys that are not in it are NULL."""
    names = [k.name for k in node.keys]
    for members in node.grouping_sets or ():
        mapping: dict[str, Expr] = {k.name: k.expr if k.name in members else exp.Null() for k in node.keys}
        if node.grouping_id is not None:
            bits = "".join("0" if n in members else "1" for n in names)
            mapping[node.grouping_id] = exp.Literal.number(int(bits or "0", 2))
        group, left = wanted.split(mapping)
        words = f"its group by {', '.join(members)}" if members else "all rows"
        found = group.over(mapping)
        if left:
            there = [m for m in names if m in members]
            found = found + matching(back.rows(node, wanted), *same({m: mapping[m] for m in there}))
        yield Step(0, found, words, certain=False)


def _join(back: Backward, node: Join, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        yield from _existence(back, node, wanted, trail)
        return
    with_left, without_left = (
        wanted if node.there is None else wanted.over({node.there: value}) for value in (exp.true(), exp.false())
    )
    yield from _pairs(back, node, with_left, trail)
    if node.kind in (JoinKind.LEFT, JoinKind.FULL):
        yield from _alone(back, node, with_left, 0)
    if node.kind in (JoinKind.RIGHT, JoinKind.FULL):
        yield from _alone(back, node, without_left, 1)


def _existence(back: Backward, node: Join, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    anti = node.kind is JoinKind.ANTI
    there = matching(back.rows(node.right, Wanted()), *partner_condition(node.condition, node.right), negated=anti)
    known = trail.certain and is_fixed(wanted, node.schema.key)
    yield Step(0, wanted if known else wanted + there)
    if not anti:
        yield Step(
            1, matching(back.rows(node.left, wanted), *partner_condition(node.condition, node.left)), "what it exists by"
        )


def _alone(back: Backward, node: Join, wanted: Wanted, number: int) -> Iterator[Step]:
    """The rows of one side, by its number, for which the other has no partner."""
    side, partner = node.inputs[number], node.inputs[1 - number]
    nulls = wanted.over({n: exp.Null() for n in partner.schema.names})
    if any(map(is_impossible, nulls.tests)):
        return
    own, _ = nulls.split(side.schema.names)
    alone = without_partner(back.rows(partner, Wanted()), node.condition, partner)
    yield Step(number, own + alone, "without a partner")


def _pairs(back: Backward, node: Join, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    """The pairs of an inner join, of which the result has the wanted columns."""
    left, rest = wanted.split(node.left.schema.names)
    right, mixed = rest.split(node.right.schema.names)
    if any(_is_null_of(side, w) for side, w in ((node.left, left), (node.right, right))):
        return
    own = (left, right)
    words = f"joined by {expression_text(node.condition)}" if node.condition is not None else "joined with each row"
    for number, side, partner in ((0, node.left, node.right), (1, node.right, node.left)):
        known = trail.certain and is_fixed(own[number], side.schema.key) and is_fixed(wanted, node.schema.key)
        if known and not mixed:
            yield Step(number, own[number], words if number else "")
            continue
        rows = back.rows(partner, own[1 - number])
        conditions = partner_condition(node.condition, partner)
        mixed_tests = tuple(c for t in mixed.tests for c in partner_condition(t, partner))
        found = own[number] + matching(rows, *conditions, *mixed_tests)
        if mixed.matches:  # they read both sides: the wanted pairs are found whole, and this side's rows by their key
            found = found + matching(back.rows(node, wanted), *same(None, side.schema.key or side.schema.names))
        yield Step(number, found, words if number else "")


def _is_null_of(side: Node, wanted: Wanted) -> bool:
    """Whether a column that is never NULL must be."""
    fixed = fixed_columns(wanted.tests)
    return any(isinstance(v, exp.Null) and not side.schema[n].nullable for n, v in fixed.items() if side.schema.find(n))


def _window(back: Backward, node: Window, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    own = back.by_key(node, node.input, wanted, trail)
    yield Step(0, own, "the row itself")
    fixed = set(fixed_columns(own.tests))
    for partition in partitions(node):
        by = ", ".join(map(expression_text, partition))
        names = frozenset(n for e in partition for n in columns_of(e))
        if names <= fixed:
            known = Wanted(tuple(t for t in own.tests if columns_of(t) <= names and columns_of(t)))
            yield Step(0, known, f"its partition by {by}" if by else "all rows")
            continue
        pairs = [exp.NullSafeEQ(this=e.copy(), expression=of_other(e)) for e in partition]
        yield Step(0, matching(back.rows(node.input, own), *pairs), f"its partition by {by}")


def _top(back: Backward, node: TopK, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    own = passing(node, wanted)[0][0]
    key = node.input.schema.key or node.input.schema.names
    if not (trail.certain and is_fixed(own, node.input.schema.key)):
        own = own + matching(back.rows(node, wanted), *same(None, key))
    yield Step(0, own, "" if node.limit is None else "the row itself")
    if (node.limit or 0) > 1:
        first = back.rows(node, _partition(back, node, own))
        yield Step(0, matching(first, *same(None, key)), "the first of its rows")
    if node.number is not None or node.offset:
        partition = [exp.NullSafeEQ(this=column(n), expression=other(n)) for n in node.partition]
        yield Step(0, matching(back.rows(node.input, own), *partition, ahead_of(node)), "the rows ahead of it")


def _partition(back: Backward, node: TopK, own: Wanted) -> Wanted:
    """All rows of the partition of the wanted ones."""
    known = own.split(node.partition)[0]
    if set(node.partition) <= set(fixed_columns(known.tests)):
        return known
    return matching(back.rows(node.input, own), *same(None, node.partition))


def _time_window(back: Backward, node: TimeWindow, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    window = in_window(node, wanted)
    if window is not None:
        passed, left = wanted.split(node.input.schema.names)
        if not left.split((node.start, node.end))[1]:
            yield Step(0, passed + window, "in its window")
            return
    if node.kind is not TimeWindowKind.SESSION:
        yield Step(0, back.by_key(node, node.input, wanted, trail), "in its window")
        return
    time = column(node.time)
    bounds = (exp.GTE(this=time, expression=other(node.start)), exp.LT(this=time.copy(), expression=other(node.end)))
    yield Step(0, matching(back.rows(node, wanted), *same(None, node.partition), *bounds), "in its session")


def _nothing(back: Backward, node: Values, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    yield from ()


def _emit(back: Backward, node: Emit, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    yield Step(0, emitted(node, wanted), "what was emitted", certain=False)


def _in_order(back: Backward, node: InOrder, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    yield Step(0, in_order(node, wanted), certain=False)


def _spl_aggregate(back: Backward, node: SplAggregate, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    yield Step(0, *spl_contents(back.rows, node, wanted), certain=False)


def _spl_join(back: Backward, node: SplJoin, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    for number, side in enumerate(spl_sides(node, wanted)):
        yield Step(number, side, "in its window", certain=False)


def _predicate_window(back: Backward, node: PredicateWindow, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    yield Step(0, *window_rows(back.rows, node, wanted), certain=False)


def _whole(back: Backward, node: Node, wanted: Wanted, trail: Trail) -> Iterator[Step]:
    for number in range(len(node.inputs)):
        yield Step(number, Wanted(), "all rows: any may lead to it", certain=False)


STEPS: dict[type[Node], Callable[[Backward, Any, Wanted, Trail], Iterator[Step]]] = {
    Filter: _filter,
    Project: _passed,
    Distinct: _passed,
    Union: _union,
    SetOperation: _set_operation,
    Aggregate: _aggregate,
    Join: _join,
    Window: _window,
    TopK: _top,
    Unnest: _by_key,
    TimeWindow: _time_window,
    Values: _nothing,
    Emit: _emit,
    InOrder: _in_order,
    SplAggregate: _spl_aggregate,
    SplJoin: _spl_join,
    PredicateWindow: _predicate_window,
    Recursion: _whole,
}
"""How each operator's rows are traced to its inputs' rows."""
