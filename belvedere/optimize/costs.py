"""Costs of an operator, maintained by epochs or computed by requests.

In: rows, changed rows per epoch and requests per second, measured or estimated. Out: seconds of processor time. The
formulas are linear in rows; `belvedere calibrate` measures their coefficients, else rough defaults are used: the
compared costs differ by far more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlglot import exp

from belvedere.errors import fail
from belvedere.optimize.indexes import stored_columns
from belvedere.plan.operators.emit import Emit
from belvedere.plan.operators.in_order import InOrder
from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Expr,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    SetOperation,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
)
from belvedere.plan.operators.observed import Observed
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.recursion import Last, Recursion
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_join import SplJoin
from belvedere.plan.operators.time_window import TimeWindow
from belvedere.plan.plan_properties import is_linear

PAGE = 100.0
"""Rows per request if unknown: the API's own limit."""
PASSED = 1 / 3
"""Share of rows that pass a filter if nothing is known."""


@dataclass(frozen=True)
class Coefficients:
    """Cost coefficients, in seconds of processor time."""

    stage: float = 0.04
    """A stage of an epoch with changes."""
    joined: float = 0.1
    """A stage that joins."""
    linear: float = 0.000_000_2
    """A changed row through a filter, a projection or a union."""
    changed: float = 0.000_001
    """A changed row that any other operator reads, or that a join produces."""
    made: float = 0.000_012
    """A changed row of an operator's result: found by key in the state, computed, and written to the state."""
    write: float = 0.000_004
    """A changed row written to a table of the database."""
    indexed: float = 0.000_002
    """A changed row written to an index of such a table."""
    kept: float = 0.000_000_000_2
    """A second of storing one more row in the state: merges, indexes, copies."""
    request: float = 0.000_01
    """An operator of a request's query."""
    projected: float = 0.000_000_025
    """A row that passes through a request's query unchanged, or with other columns."""
    read: float = 0.000_000_04
    """A row that a request reads and tests."""
    grouped: float = 0.000_000_2
    """A row that a request sorts or groups."""
    matched: float = 0.000_000_4
    """A row of either side of a join."""


def keep_coefficients(costs: Coefficients, path: Path) -> None:
    """Store measured coefficients. Raises B7068 if the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(costs), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        hint = "give this user the right to write there, or free some space"
        raise fail("B7068", f"{path} cannot be written", detail=str(error), hint=hint) from None


def known_coefficients(path: Path) -> Coefficients | None:
    """Return the coefficients measured on this machine; None if there are none.

    Raises B7068 for a file not written by `keep_coefficients`.
    """
    try:
        return Coefficients(**{n: float(v) for n, v in json.loads(path.read_text(encoding="utf-8")).items()})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        message = f"{path} does not contain costs written by `belvedere calibrate`"
        raise fail("B7068", message, detail=str(error), hint="remove it, or run `belvedere calibrate`") from None


@dataclass(frozen=True)
class Workload:
    """Figures of the relations and requests of a store, by id."""

    rows: Mapping[str, float] = field(default_factory=dict)
    changed: Mapping[str, float] = field(default_factory=dict)
    """Rows inserted or deleted in an epoch."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of an epoch for a view that is maintained now."""
    requests: Mapping[str, float] = field(default_factory=dict)
    """Requests per second that read a view."""
    latency: Mapping[str, float] = field(default_factory=dict)
    """Maximum seconds for a request to compute a view or a query template."""
    templates: Mapping[str, float] = field(default_factory=dict)
    """Requests per second for a query template."""
    pause: float = 1.0
    """Seconds from one epoch to the next."""
    distinct: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Number of distinct values of a relation's column."""


@dataclass
class Sizes:
    """Rows of plans, and changed rows per epoch.

    Those of relations are known, others are estimated from their inputs.
    """

    workload: Workload
    plans: Mapping[str, Node] = field(default_factory=dict)
    """The plans of public views, by id."""
    _rows: dict[Node, float] = field(default_factory=dict)
    _changed: dict[Node, float] = field(default_factory=dict)

    def rows(self, node: Node) -> float:
        """Return the number of rows of a plan."""
        return self._find(node, self._rows, self.workload.rows, self._estimated)

    def changed(self, node: Node) -> float:
        """Return the number of a plan's rows that are inserted or deleted in an epoch."""
        return self._find(node, self._changed, self.workload.changed, self._moved)

    def _find(
        self, node: Node, made: dict[Node, float], measured: Mapping[str, float], estimate: Callable[[Node], float]
    ) -> float:
        if node not in made:
            name = node.relation if isinstance(node, Scan) else self._names.get(node, "")
            plan = self.plans.get(name) if isinstance(node, Scan) else None
            if name in measured:
                made[node] = measured[name]
            else:
                made[node] = estimate(node) if plan is None else self._find(plan, made, measured, estimate)
        return made[node]

    @cached_property
    def _names(self) -> dict[Node, str]:
        """Return the relations that hold the rows of a plan."""
        return {plan: id_ for id_, plan in self.plans.items()}

    def _estimated(self, node: Node) -> float:
        below = [self.rows(i) for i in node.inputs]
        cost = COSTS.get(type(node))
        return max(below, default=0.0) if cost is None else cost.rows(self, node, below)

    def groups(self, below: Node, keys: Iterable[Expr]) -> float:
        """Return the number of groups: the number of combined values of the keys, if they are columns with counted
        values."""
        rows, count = self.rows(below), 1.0
        for key in keys:
            stored = stored_columns(below, key.name) if isinstance(key, exp.Column) else ()
            known = [self.workload.distinct[s] for s in stored if s in self.workload.distinct]
            if not known:
                return min(rows, max(count, float(rows**0.75)))
            count *= max(1.0, *known)
        return float(max(1.0, min(rows, count)))

    def _moved(self, node: Node) -> float:
        below = [self.changed(i) for i in node.inputs]
        cost = COSTS.get(type(node))
        return sum(below) if cost is None else cost.changed(self, node, below)


Estimate = Callable[[Sizes, Any, list[float]], float]
"""Function that estimates the rows, or changed rows, of an operator from those of its inputs."""


def _sum(sizes: Sizes, node: Node, below: list[float]) -> float:
    return sum(below)


def _most(sizes: Sizes, node: Node, below: list[float]) -> float:
    return max(below, default=0.0)


def _passed(sizes: Sizes, node: Node, below: list[float]) -> float:
    return below[0] * PASSED


def _made_again(sizes: Sizes, node: Node, below: list[float]) -> float:
    """Estimate the changes of an operator in which a changed row deletes an old row of the result and inserts a new
    one."""
    return min(2 * sum(below), 2 * sizes.rows(node))


def _joined(sizes: Sizes, node: Join, below: list[float]) -> float:
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return below[0] * PASSED
    return below[0] * below[1] if node.condition is None else max(below)


def _joined_again(sizes: Sizes, node: Join, below: list[float]) -> float:
    rows = sizes.rows(node)
    return sum(b * max(1.0, rows / max(1.0, sizes.rows(i))) for b, i in zip(below, node.inputs, strict=True))


def _first_rows(sizes: Sizes, node: TopK, below: list[float]) -> float:
    most = PAGE if node.limit is None else float(node.limit)
    return min(below[0], most if not node.partition else below[0] ** 0.75 * most)


@dataclass(frozen=True)
class OperatorCost:
    """Estimates of an operator for which nothing was measured."""

    rows: Estimate = _most
    changed: Estimate = _sum


COSTS: Mapping[type[Node], OperatorCost] = {
    Values: OperatorCost(lambda sizes, node, below: float(len(node.rows))),
    Filter: OperatorCost(_passed, _passed),
    Join: OperatorCost(_joined, _joined_again),
    Aggregate: OperatorCost(
        lambda sizes, node, below: sizes.groups(node.input, [k.expr for k in node.keys]), _made_again
    ),
    Distinct: OperatorCost(
        lambda sizes, node, below: sizes.groups(node.input, [exp.column(n) for n in node.schema.names]), _made_again
    ),
    SetOperation: OperatorCost(changed=_made_again),
    TopK: OperatorCost(_first_rows, _made_again),
    Union: OperatorCost(_sum),
    Unnest: OperatorCost(lambda sizes, node, below: below[0] * 4),
}
"""Costs by the class of an operator."""
NOT_COSTED: dict[type[Node], str] = {
    Scan: "measured, or that of the view's plan",
    Project: "a row for each row",
    Window: "a row for each row",
    TimeWindow: "of the order of its input: the number of windows around a time is small",
    PredicateWindow: "of the order of its input: no more windows than rows",
    Recursion: "unknown: levels are not foreseen",
    Last: "no plan has it once it is lowered",
    Emit: "a row for each row, later",
    InOrder: "a row for each row, later",
    Observed: "an event for each change",
    SplAggregate: "of the order of its input: at most a firing for each row",
    SplJoin: "of the order of its greater input",
}
"""Reasons why the other operators have no estimate of their own.

They count as having the rows and changes of their inputs.
"""


def maintaining(node: Node, sizes: Sizes, costs: Coefficients) -> float:
    """Return the seconds of an epoch for an operator whose input is maintained too."""
    moved = sum(sizes.changed(i) for i in node.inputs)
    if moved == 0:
        return 0.0
    if is_linear(node):
        return costs.linear * moved
    if isinstance(node, Join):
        return costs.joined + costs.changed * (moved + sizes.changed(node))
    return costs.stage + costs.changed * moved + costs.made * sizes.changed(node)


def storing(node: Node, sizes: Sizes, costs: Coefficients) -> float:
    """Return the seconds of an epoch for writing an operator's changes to the database.

    Linear operators need a stage of their own for that.
    """
    changed = sizes.changed(node)
    return costs.write * changed + (costs.stage / 2 if changed and _has_no_stage(node) else 0.0)


def _has_no_stage(node: Node) -> bool:
    """Return whether all operators of a plan are linear.

    They have no stage of their own unless their rows are stored.
    """
    return all(is_linear(n) or isinstance(n, Scan) for n in node.walk())


def computing(node: Node, sizes: Sizes, costs: Coefficients, share: float) -> float:
    """Return the seconds of a request for an operator of whose result it needs a `share`."""
    read = sum(sizes.rows(i) for i in node.inputs) * share
    simple = is_linear(node) or (
        isinstance(node, TopK) and not node.partition
    )  # the first few rows are found in one pass
    row = costs.projected if isinstance(node, Project | Union) else costs.read if simple else costs.grouped
    row = costs.matched if isinstance(node, Join) else row
    return costs.request + row * read


def passed_share(node: Node, share: float) -> float:
    """Return the share of an operator's input that a request reads for a share of its result.

    Indexes find rows through simple operators.
    """
    return share if is_linear(node) or isinstance(node, Join | Union) else 1.0


def first_share(node: Node, sizes: Sizes) -> float:
    """Return the share of a view that a request reads."""
    return min(1.0, PAGE / max(1.0, sizes.rows(node)))
