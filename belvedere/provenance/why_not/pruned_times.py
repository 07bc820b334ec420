"""Missing rows of operators over time: event-time windows, EMIT and SELECT STREAM that wait, windows over sequences.

In: an operator and the tests of its missing rows. Out: the operators that drop them, with the awaited watermark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from belvedere.plan.bound_rules import Bounds
from belvedere.plan.bounds import bounds_of
from belvedere.plan.expressions import column
from belvedere.plan.monotone import FOREVER, NEVER
from belvedere.plan.operators.emit import Emit
from belvedere.plan.operators.in_order import InOrder
from belvedere.plan.operators.nodes import Expr, Node
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_join import SplJoin
from belvedere.plan.operators.time_window import TimeWindow
from belvedere.provenance.findings import FoundRows, PruningKind, PruningOperator
from belvedere.provenance.found_rows import relations_of
from belvedere.provenance.row_predicates import RowPredicate
from belvedere.provenance.why.historic import emitted, has_row_of, in_order, spl_sides
from belvedere.provenance.why.time_windows import in_window
from belvedere.provenance.why_not.pruning import CountedRows, Descent, DescentPath, pruning_step, untold
from belvedere.time.event_time import Clocks, bounds_by_input
from belvedere.values.instants import instant, microseconds


def pruned_by_time_window(
    descent: Descent, node: TimeWindow, requested: RowPredicate, way: DescentPath
) -> Iterator[PruningOperator]:
    """Yield findings on the rows in the window. If the tests do not fix a window, show the windows of the rows."""
    own, left = requested.split(node.input.schema.names)
    window = in_window(node, requested)
    below = way if window is not None else way.without(left, node.kind.upper())
    others = partial(_other_windows, descent, node, own, requested, left, way=way)
    yield from descent.reached(node.input, own + (window or RowPredicate()), below, "reached it", others)


def _other_windows(
    descent: Descent,
    node: TimeWindow,
    own: RowPredicate,
    requested: RowPredicate,
    left: RowPredicate,
    there: FoundRows,
    *,
    way: DescentPath,
) -> Iterator[PruningOperator]:
    (windows,) = descent.look(CountedRows(node, own, "are in other windows"))
    reason = "they are in other windows" if windows.count else f"their `{node.time}` is NULL, which is in no window"
    found = way.without(left, node.kind.upper())
    yield pruning_step(
        found, PruningKind.WINDOW, f"{node.kind.upper()}: {reason}", requested, [(node, windows), (node.input, there)]
    )


def pruned_by_emit(
    descent: Descent, node: Emit, requested: RowPredicate, way: DescentPath
) -> Iterator[PruningOperator]:
    """Yield existing groups that wait for the watermark, or for their delay."""
    left = requested.split(node.input.schema.names)[1]

    def waits(there: FoundRows) -> Iterator[PruningOperator]:
        reasons = [_waits(descent, node.input, there, "EMIT AFTER WATERMARK")] if node.watermark else []
        if node.delay is not None:
            delay = timedelta(microseconds=node.delay)
            reasons.append(
                f"EMIT AFTER DELAY: a group is emitted {delay} after the first of its changes, "
                "by the clock of the epochs"
            )
        words = "; ".join(reasons) or "EMIT: its changes were emitted earlier, with other values"
        yield pruning_step(way.without(left, "EMIT"), PruningKind.EMIT, words, requested, [(node.input, there)])

    yield from descent.reached(node.input, emitted(node, requested), way, "wait", waits)


def pruned_in_order(
    descent: Descent, node: InOrder, requested: RowPredicate, way: DescentPath
) -> Iterator[PruningOperator]:
    """Yield rows that wait until no earlier one can arrive."""

    def waits(there: FoundRows) -> Iterator[PruningOperator]:
        if node.within is None:
            words = _waits(descent, node.input, there, "SELECT STREAM", node.time)
        else:
            within = timedelta(microseconds=node.within)
            reported = f"a row is emitted once a row whose `{node.time}` is {within} greater has arrived"
            words = f"ORDER BY WITHIN: {reported}; later ones are dropped"
        yield pruning_step(way, PruningKind.EMIT, words, requested, [(node.input, there)])

    yield from descent.reached(
        node.input, in_order(node, requested), way, "wait, or arrived too late for their position", waits
    )


def pruned_by_sequence(
    descent: Descent, node: SplAggregate | PredicateWindow, requested: RowPredicate, way: DescentPath
) -> Iterator[PruningOperator]:
    """Yield the rows of the sequence that produced no window. Other tests of a window cannot be followed."""
    mapping: dict[str, Expr]
    if isinstance(node, SplAggregate):
        words, reported = "the SPL window", "it has not fired with these values"
        mapping = {i.name: i.expr for i in (*node.partition, *node.groups)}
    else:
        words, reported = "WINDOW BY", "no window of its rows has these values"
        mapping = {n: column(k) for n, k in zip(node.partition, node.spec.keys, strict=True)}
    own, left = requested.split(mapping)
    way = way.without(left, words)

    def dropped(there: FoundRows) -> Iterator[PruningOperator]:
        yield pruning_step(
            way, PruningKind.WINDOW, f"{words}: the rows are there, but {reported}", requested, [(node.input, there)]
        )

    yield from descent.reached(node.input, own.over(mapping), way, "are in its sequence", dropped)


def pruned_by_spl_join(
    descent: Descent, node: SplJoin, requested: RowPredicate, way: DescentPath
) -> Iterator[PruningOperator]:
    """Yield the rows of both sides. It is not known which of them were in their windows at the same time."""
    sides = spl_sides(node, requested)
    # if a side is optional, a result may have a row of the other side alone
    needed = [n for n in (0, 1) if has_row_of(node.inputs[n], requested) or not node.outer[1 - n]] or [0, 1]
    looks = descent.look(*(CountedRows(node.inputs[n], sides[n], "are there") for n in needed))
    if any(r.untold for r in looks):
        yield from untold(way, requested, *looks)
        return
    missing = [n for n, r in zip(needed, looks, strict=True) if not r.count]
    for number in missing:
        yield from descent.below(node.inputs[number], sides[number], way.by("the join of SPL windows"))
    if not missing:
        why = "both sides have such rows, but they were not in the windows at the same time"
        if len(needed) == 1:
            why = "there is such a row, but it had a match or is still in its window"
        words = f"the join of SPL windows: {why}"
        yield pruning_step(
            way, PruningKind.WINDOW, words, requested, [(node.inputs[n], r) for n, r in zip(needed, looks, strict=True)]
        )


def _waits(descent: Descent, node: Node, there: FoundRows, word: str, only: str | None = None) -> str:
    """Return the watermark that the rows wait for, and how far it has come."""
    bounds = _bounds(descent, node)
    shows = all(map(descent.shows, relations_of(node)))
    reported = [
        _wait(n, b, there.rows, shows) for n, b in bounds.items() if b < FOREVER and (only is None or n == only)
    ]
    words = "; ".join(t for t in reported if t)
    if not words:
        return (
            f"{word}: no column of them has a watermark"
            if not bounds
            else f"{word}: they are complete, and the next epoch emits them"
        )
    return f"{word}: they wait: {words}"


def _wait(name: str, bound: int, rows: tuple[Mapping[str, Any], ...], shows: bool) -> str:
    """Return the condition that one column waits for; `shows`: whether its values may be shown."""
    times = [t for r in rows if (t := r.get(name)) is not None]
    if bound == NEVER:
        return f"there is no watermark of `{name}` yet"
    waiting = [t for t in times if microseconds(t) >= bound]
    if not waiting:
        return ""
    at, least = (t.isoformat(" ") for t in (instant(bound), min(waiting)))
    return f"the watermark of `{name}` is {at}, and must pass {least if shows else 'theirs'}"


def _bounds(descent: Descent, node: Node) -> Bounds:
    """Return the bounds of an operator's columns in the epoch that was read."""
    row = descent.epoch
    if row is None:
        return {}
    known: dict[str, Bounds | None] = dict(
        bounds_by_input(descent.query_runner.catalog, Clocks.of_document(row.bounds))
    )
    for id_, view in descent.query_runner.catalog.views.items():  # a view reads earlier ones
        known[id_] = bounds_of(view.plan, known.get)
    return bounds_of(node, known.get)
