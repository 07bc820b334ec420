"""Missing rows of a join: the side that has matching rows, the side that has none, and the near matches.

In: a join and the tests of its missing rows. Out: the operators that drop them. Requirements on one side follow from
the other: an equality with a column of one value becomes a test of the other side. If one side has few rows, so do
their values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from belvedere.errors import counted
from belvedere.plan.expression_text import expression_text
from belvedere.plan.expressions import columns_of, conjuncts, replace_columns
from belvedere.plan.operators.nodes import Expr, Join, JoinKind
from belvedere.provenance.constants import constant, fixed_columns, is_impossible
from belvedere.provenance.findings import FoundRows, PruningKind, PruningOperator
from belvedere.provenance.found_rows import relations_of
from belvedere.provenance.narrowing import narrowed
from belvedere.provenance.row_predicates import RowPredicate, matching
from belvedere.provenance.why.join_traces import partner_condition
from belvedere.provenance.why_not.pruning import CountedRows, Descent, DescentPath, condition_text, pruning_step, untold

Sides = tuple[RowPredicate, RowPredicate]


def pruned_by_join(
    descent: Descent, node: Join, requested: RowPredicate, way: DescentPath
) -> Iterator[PruningOperator]:
    """Yield the operators at which a join's rows are dropped."""
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        yield from _existence(descent, node, requested, way)
        return
    requested = requested if node.there is None else requested.over({node.there: exp.true()})
    left, rest = requested.split(node.left.schema.names)
    right, mixed = rest.split(node.right.schema.names)
    way = way.without(mixed, "the join")
    alone = [n for n, own in enumerate((left, right)) if n in _optional(node) and _is_without(own)]
    if alone:
        yield from _has_partner(descent, node, (left, right), 1 - alone[0], way)
        return
    needed = [n for n, own in enumerate((left, right)) if n not in _optional(node) or own]
    if len(needed) == 1:
        (number,) = needed
        yield from descent.below(node.inputs[number], (left, right)[number], way)
        return
    yield from _pairs(descent, node, (left, right), way)


def _optional(node: Join) -> tuple[int, ...]:
    """Return the sides that may have no row in a row of the join."""
    sides = {JoinKind.LEFT: (1,), JoinKind.RIGHT: (0,), JoinKind.FULL: (0, 1)}
    return sides.get(node.kind, ())


def _is_without(own: RowPredicate) -> bool:
    """Return whether a side is only required to have NULL columns, as if it had no row."""
    return bool(own.tests) and all(isinstance(t, exp.Is) and isinstance(t.expression, exp.Null) for t in own.tests)


def join_text(node: Join) -> str:
    """Return a readable text of a join."""
    return "the join" if node.condition is None else f"the join by {expression_text(node.condition)}"


def _has_partner(descent: Descent, node: Join, own: Sides, number: int, way: DescentPath) -> Iterator[PruningOperator]:
    """Yield findings on rows of one side that have a partner but should have none."""
    side, partner = node.inputs[number], node.inputs[1 - number]
    names = descent.name(side), descent.name(partner)

    def dropped(there: FoundRows) -> Iterator[PruningOperator]:
        (partners,) = descent.look(
            CountedRows(partner, _partners(descent, node, number, there, own[number]), "their partners")
        )
        words = f"{join_text(node)}: a row of {names[0]} has a partner, so no column of {names[1]} is missing"
        yield pruning_step(way, PruningKind.JOIN, words, own[number], [(side, there), (partner, partners)])

    yield from descent.reached(side, own[number], way, "have a partner", dropped)


def _pairs(descent: Descent, node: Join, own: Sides, way: DescentPath) -> Iterator[PruningOperator]:
    implied = (_implied(node, own[1], 1), _implied(node, own[0], 0))
    known = (own[0] + implied[0], own[1] + implied[1])
    looks = descent.look(*(CountedRows(s, w, f"of {descent.name(s)}") for s, w in zip(node.inputs, known, strict=True)))
    if any(r.untold for r in looks):
        yield from untold(way, own[0] + own[1], *looks)
        return
    there = [n for n in (0, 1) if looks[n].count]
    if not there:
        for number in (0, 1):
            yield from descent.below(node.inputs[number], known[number], way.by(join_text(node)))
    elif len(there) == 1 and own[1 - there[0]] and not implied[1 - there[0]]:
        (number,) = there  # the missing row is searched on that side alone
        yield from descent.below(node.inputs[1 - number], known[1 - number], way.by(join_text(node)))
    elif len(there) == 1:
        (number,) = there
        yield from _without_partner(descent, node, number, looks[number], known[1 - number], way)
    else:
        yield from _unpaired(descent, node, known, looks, way)


def _unpaired(
    descent: Descent, node: Join, known: Sides, looks: list[FoundRows], way: DescentPath
) -> Iterator[PruningOperator]:
    """Explain that both sides have rows, but no pair: search the side without other tests for partners of the other
    side."""
    free = [n for n in (1, 0) if not known[n]]
    if free:
        number = 1 - free[0]
        tests = _partners(descent, node, number, looks[number], known[number])
        (partners,) = descent.look(CountedRows(node.inputs[free[0]], tests))
        if not partners.count and not partners.untold:
            yield from _without_partner(descent, node, number, looks[number], tests, way)
            return
    words = f"{join_text(node)}: both sides have such rows, but no pair meets the condition"
    near = list(zip(node.inputs, looks, strict=True))
    yield pruning_step(way, PruningKind.JOIN, words, known[0] + known[1], near)


def _without_partner(
    descent: Descent, node: Join, number: int, there: FoundRows, tests: RowPredicate, way: DescentPath
) -> Iterator[PruningOperator]:
    """Explain rows of one side without a partner: either something drops the partners, or they do not exist."""
    side, partner = node.inputs[number], node.inputs[1 - number]
    at = PruningKind.EXISTS if node.kind is JoinKind.SEMI else PruningKind.JOIN
    near = (side, replace(there, words="have no partner"))
    null = next((t for t in tests.tests if is_impossible(t)), None)
    if null is not None:
        words = f"{join_text(node)}: a row of {descent.name(side)} is there, but {expression_text(null)} never holds"
        yield pruning_step(way, at, words, tests, [near])
        return
    step = f"{join_text(node)}: {descent.name(side)} has rows, which look for {condition_text(tests)}"
    found = list(descent.below(partner, tests, way.by(step)))
    if any(f.at not in (PruningKind.INPUT, PruningKind.RECURSION) for f in found):
        yield from found
        return
    rows = counted(there.count, "row")
    words = (
        f"{join_text(node)}: {descent.name(side)} has {rows}, {descent.name(partner)} none with {condition_text(tests)}"
    )
    answer = pruning_step(way, at, words, tests, [near])
    yield replace(answer, near=(*answer.near, *(r for f in found for r in f.near)))


def _implied(node: Join, own: RowPredicate, number: int) -> RowPredicate:
    """Return tests of the other side that follow if tests of one side, by its number, fix columns of the join
    condition."""
    values = fixed_columns(own.tests)
    read = any(columns_of(p) & values.keys() for p in conjuncts(node.condition))
    return RowPredicate(_over_values(node, values, number)) if read else RowPredicate()


def _over_values(node: Join, values: Mapping[str, Expr], number: int) -> tuple[Expr, ...]:
    """Return the conjuncts that read the other side alone, after values replace one side's columns."""
    names = set(node.inputs[1 - number].schema.names)
    parts = (replace_columns(p, values) for p in conjuncts(node.condition))
    return tuple(p for p in parts if columns_of(p) <= names)


def _partners(descent: Descent, node: Join, number: int, there: FoundRows, own: RowPredicate) -> RowPredicate:
    """Return the predicate on the partners of these rows of one side.

    It tests their values if they are equal and may be shown; otherwise it is a match.
    """
    side = node.inputs[number]
    names = [n for n in side.schema.names if any(n in columns_of(p) for p in conjuncts(node.condition))]
    if there.count == len(there.rows) and all(map(descent.shows, relations_of(side))):
        values = [{n: constant(r[n], side.schema[n].type) for n in names} for r in there.rows]
        first = values[0]
        if all(v == first for v in values) and all(v is not None for v in first.values()):
            return RowPredicate(_over_values(node, {n: v for n, v in first.items() if v is not None}, number))
    rows = narrowed(side, own, descent.query_runner.definition)
    return matching(rows, *partner_condition(node.condition, side))


def _existence(descent: Descent, node: Join, requested: RowPredicate, way: DescentPath) -> Iterator[PruningOperator]:
    def dropped(there: FoundRows) -> Iterator[PruningOperator]:
        tests = _partners(descent, node, 0, there, requested)
        if node.kind is JoinKind.SEMI:
            yield from _without_partner(descent, node, 0, there, tests, way)
            return
        (partners,) = descent.look(CountedRows(node.right, tests, "exist, and must not"))
        words = f"NOT EXISTS drops them: {descent.name(node.right)} has rows with {condition_text(tests)}"
        yield pruning_step(way, PruningKind.EXCEPT, words, requested, [(node.left, there), (node.right, partners)])

    yield from descent.reached(node.left, requested, way, "reached it", dropped)
