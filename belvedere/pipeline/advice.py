"""Advice of the optimizer for a script over its store: for each view its present and its best placement, with reasons.

In: a catalog and a store's URL: the present choice, the figures of its epochs, the sizes of its relations. Out:
`Advice`. The rates and latencies of requests come from the script and the project file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.hints import Placement, Promise
from belvedere.engine.epoch_row.measurements import DOCUMENT as MEASURED
from belvedere.engine.epoch_row.measurements import Measured
from belvedere.errors import counted, fail
from belvedere.optimize.choice import Choice, cheapest, cost_of, epoch_seconds, next_choice, weighed
from belvedere.optimize.costs import Coefficients, Workload
from belvedere.optimize.greedy import greedy as greedy_choice
from belvedere.optimize.indexes import stored_columns
from belvedere.optimize.operators import Operators, operators_of, scaled
from belvedere.optimize.scans import ScanningTemplate, scanning_templates
from belvedere.pipeline.placement import DOCUMENT, PlacedView, PlacedViews, fingerprint_of, whole_plan, with_choice
from belvedere.plan.operators.nodes import Aggregate, Distinct, Node, Scan
from belvedere.project.setting_rules import seconds_in
from belvedere.store import open_store
from belvedere.store.identifiers import identifier
from belvedere.store.protocol import Store
from belvedere.store.read.computed_views import is_said, must_be_stored, why_maintained

RATE = 1.0
"""Requests per second assumed for a view without any information."""
MIN_RATE = 0.01
"""Requests per second assumed for a view without recent requests."""
ENOUGH = 10
"""Minimum number of epochs with changes before their means are used."""
SAMPLE = 1_000_000
"""Number of rows of a relation that are sampled to count distinct values."""
PART = "in part at read"


@dataclass(frozen=True)
class ViewAdvice:
    """A view's places: `maintained`, `at read`, `in part at read`.

    Costs are estimates in seconds of processor time per second.
    """

    name: str
    today: str
    best: str
    reason: str
    maintained_cost: float
    read_cost: float
    rows: float
    bytes: int
    """Bytes of its table in the database."""
    rate: float
    """Requests per second used in the calculation."""
    latency: float | None
    """Mean seconds of a request, measured by the API."""


@dataclass(frozen=True)
class Advice:
    """The views, the choice to store, and the total cost today and with that choice, in seconds of processor time per
    second."""

    views: tuple[ViewAdvice, ...]
    choice: PlacedViews
    cost_today: float
    cost: float
    pause: float
    """Seconds between epochs."""
    epoch: float
    """Estimated seconds of an epoch with that choice."""
    scanning: tuple[ScanningTemplate, ...] = ()
    """The query templates that should have no index of their own."""
    was_scanning: frozenset[str] = frozenset()
    freshness: float | None = None
    """The promised freshness in seconds. Half of it is for the epoch."""
    epochs: int = 0
    """Number of measured epochs, at most `ENOUGH`."""

    @property
    def changes(self) -> bool:
        """Return whether the choice differs from today's."""
        return any(v.today != v.best for v in self.views) or {t.name for t in self.scanning} != self.was_scanning

    def text(self, applied: bool) -> str:
        """Return the places of the views with the reasons, and the totals."""
        width = max((len(v.name) for v in self.views), default=4)
        lines = [f"{v.name:<{width}}  {v.today} -> {v.best}: {v.reason}" for v in self.views]
        lines += [t.text for t in self.scanning]
        saved = (self.cost_today - self.cost) * self.pause
        size = sum(v.bytes for v in self.views if v.today == "maintained" and v.best != "maintained")
        lines.append(f"estimated cost {self.cost_today:.3g} -> {self.cost:.3g} s of processor time per second")
        lines.append(f"saves {saved:.3g} s per epoch and {counted(size, 'byte')}")
        if self.freshness is not None and self.epoch > self.freshness / 2:
            lines.append(
                f"an epoch takes about {self.epoch:.3g} s, more than half of the freshness target of "
                f"{self.freshness:g} s: "
                "raise the freshness target, or give Spark more cores"
            )
        if self.epochs < ENOUGH:
            lines.append(
                f"changes were measured in {counted(self.epochs, 'epoch')} only: run this again after {ENOUGH} epochs"
            )
        if self.changes:
            lines.append(
                "the next start applies this choice"
                if applied
                else "add --apply to apply this choice at the next start"
            )
        return "\n".join(lines)


def advise(
    catalog: Catalog, url: str, expected: Mapping[str, Any], *, greedy: bool = False, costs: Coefficients | None = None
) -> Advice:
    """Return the advice for a script over its store.

    `expected` is `[optimize]` of the project file. Raises B7063 for a store without an epoch.
    """
    store = open_store(url)
    try:
        return advice_of(store, catalog, expected, greedy=greedy, costs=costs)
    finally:
        store.close()


def advice_of(
    store: Store,
    catalog: Catalog,
    expected: Mapping[str, Any],
    *,
    greedy: bool = False,
    costs: Coefficients | None = None,
) -> Advice:
    """Return the advice as `advise` does, for an open store."""
    last = store.last_epoch()
    if last is None:
        raise fail("B7063", "the store has no state yet", hint="run its script first: `belvedere run SCRIPT`")
    today = with_choice(catalog, PlacedViews.of_text(store.document(DOCUMENT)))
    sizes = _sizes(store, today)
    distinct = _distinct_values(store, today)
    measured = Measured.of_document(last.extra.get(MEASURED))
    fresh = seconds_in(expected.get("freshness", ""))
    workload = workload_of(today, measured, {n: rows for n, (rows, _) in sizes.items()}, expected)
    made = made_operators(catalog, replace(workload, distinct=distinct), costs)
    now = made.maintained_now({i: today.placement.part_paths.get(i, ()) for i in today.placement.at_read})
    if greedy:
        kept = greedy_choice(catalog, made.found, made.nodes)
        best = Choice(kept, cost_of(made.found, kept))
    else:
        chosen = next_choice(
            made.found if fresh is None else weighed(made.found, fresh / 2 / workload.pause), now
        ).maintained
        best = Choice(chosen, cost_of(made.found, chosen))
    scanning = scanning_templates(today, workload, costs or Coefficients())
    choice = replace(placed_views(catalog, made, best), scanning=frozenset(t.name for t in scanning))
    least = best if greedy else cheapest(made.found)
    views = tuple(
        _view(made, i, (now, best.maintained, least.maintained), sizes.get(i, (0, 0)), measured) for i in made.plans
    )
    epoch = epoch_seconds(made.found, best.maintained) * workload.pause
    return Advice(
        views,
        choice,
        cost_of(made.found, now),
        best.cost,
        workload.pause,
        epoch,
        scanning,
        today.placement.scanning,
        fresh,
        measured.epochs,
    )


def made_operators(catalog: Catalog, workload: Workload, costs: Coefficients | None = None) -> Operators:
    """Return the operators of a script's public views with their costs."""
    plans = {i: whole_plan(catalog, i) for i in catalog.views if i in catalog.public}
    stored: Callable[[str], bool] = lambda i: must_be_stored(catalog, i)  # noqa: E731
    said: Callable[[Node], bool] = lambda n: is_said(n, catalog.database)  # noqa: E731
    return scaled(operators_of(catalog, plans, workload, costs or Coefficients(), said, stored))


def placed_views(catalog: Catalog, made: Operators, choice: Choice) -> PlacedViews:
    """Return the views that requests compute under a choice, in the stored form.

    Placements that the script sets itself are left out.
    """
    found = {i: made.parts(i, choice.maintained) for i in made.plans if i not in catalog.hints.placed}
    return PlacedViews(
        {i: PlacedView(fingerprint_of(catalog, i), parts) for i, parts in found.items() if parts is not None}
    )


def choose(store: Store, catalog: Catalog, expected: Mapping[str, Any], costs: Coefficients | None) -> Advice | None:
    """Store the best choice for a start over a store, and return the advice.

    Return None if it is today's choice or too little is known.
    """
    if store.last_epoch() is None:
        return None
    advice = advice_of(store, catalog, expected, costs=costs)
    if not advice.changes or advice.epochs < ENOUGH:
        return None
    store.set_document(DOCUMENT, advice.choice.as_text())
    return advice


def keep_choice(url: str, choice: PlacedViews) -> None:
    """Store a choice; the next start uses it."""
    store = open_store(url)
    try:
        store.set_document(DOCUMENT, choice.as_text())
    finally:
        store.close()


def workload_of(
    catalog: Catalog, measured: Measured, rows: Mapping[str, float], expected: Mapping[str, Any]
) -> Workload:
    """Return the figures of the relations, and the expected requests.

    The script's figures take precedence over the API's counts, and these over `[optimize]`.
    """
    seconds: dict[str, float] = {}
    for name, value in measured.seconds.items():
        owner = name.partition("$")[0]
        if owner in catalog.views and owner not in catalog.placement.at_read:
            seconds[owner] = seconds.get(owner, 0.0) + value
    requests: dict[str, float] = {}
    latency: dict[str, float] = {}
    for id_ in (i for i in catalog.views if i in catalog.public):
        promise = catalog.hints.promises.get(id_, Promise())
        seen = max(MIN_RATE, measured.rate(id_)) if measured.requests else None
        requests[id_] = promise.rate or seen or expected.get("rate") or RATE
        latency |= _least(latency, id_, promise.latency or seconds_in(expected.get("latency", "")))
    templates: dict[str, float] = {}
    for template in catalog.templates.values():
        promise = catalog.hints.promises.get(template.name, Promise())
        seen = max(MIN_RATE, measured.rate(template.name)) if measured.requests else None
        templates[template.name] = promise.rate or seen or expected.get("rate") or RATE
        latency |= _least(latency, template.name, promise.latency or seconds_in(expected.get("latency", "")))
        for id_ in {n.relation for n in template.plan.walk() if isinstance(n, Scan)}:
            requests[id_] = requests.get(id_, 0.0) + (promise.rate or measured.rate(template.name))
            latency |= _least(latency, id_, promise.latency)
    return Workload(rows, measured.changed, seconds, requests, latency, templates, measured.pause or 1.0)


def _least(known: Mapping[str, float], id_: str, seconds: float | None) -> dict[str, float]:
    return {} if seconds is None else {id_: min(seconds, known.get(id_, seconds))}


def _sizes(store: Store, today: Catalog) -> dict[str, tuple[int, int]]:
    """Return rows and bytes of tables, and rows of views of the database."""
    found = dict(store.size())
    reader = store.reader()
    try:
        made = {t.name for t in store.tables() if t.query}
        for id_ in today.placement.at_read.keys() & made:
            found[id_] = (int(reader.execute(f"SELECT count(*) FROM {identifier(id_)}")[0][0]), 0)
    finally:
        reader.close()
    return found


def _distinct_values(store: Store, today: Catalog) -> dict[tuple[str, str], float]:
    """Return the numbers of distinct values of grouping columns. The database counts them now, so epochs need not."""
    plans = [whole_plan(today, i) for i in today.views if i in today.public]
    asked = {s for p in plans for n in p.walk() for c in _grouping_columns(n) for s in stored_columns(n.inputs[0], c)}
    stored, found = {t.name: t for t in store.tables() if not t.query}, dict[tuple[str, str], float]()
    sizes, reader = store.size(), store.reader()
    try:
        for relation, name in sorted(asked):
            if relation not in stored or pa.types.is_nested(stored[relation].schema[name].type):
                continue
            column, rows = identifier(name), min(sizes[relation][0], SAMPLE)
            sample = f"SELECT {column} FROM {identifier(relation)} LIMIT {SAMPLE}"
            count = int(reader.execute(f"SELECT count(DISTINCT {column}) FROM ({sample}) AS sample")[0][0])
            grows = count * 10 > rows  # nearly a key: the number of values grows with the rows
            found[relation, name] = count * sizes[relation][0] / max(1, rows) if grows else count
    finally:
        reader.close()
    return found


def _grouping_columns(node: Node) -> Iterator[str]:
    if isinstance(node, Aggregate):
        yield from (k.expr.name for k in node.keys if isinstance(k.expr, exp.Column))
    elif isinstance(node, Distinct):
        yield from node.schema.names


def _view(
    made: Operators, id_: str, choices: tuple[frozenset[str], ...], size: tuple[int, int], measured: Measured
) -> ViewAdvice:
    """Return the advice for a view: today's choice, the recommended one, and the one of least cost."""
    names = set(made.places[id_].values())
    operators = [made.found[n] for n in names]
    root = made.found[made.places[id_][()]]
    maintained = sum(o.maintain for o in operators) + root.store
    read = sum(o.read for o in operators)
    today, then, least = (_place(made, id_, c) for c in choices)
    rate, latency = made.workload.requests.get(id_, 0.0), measured.latency(id_)
    reason = _reason(made, id_, then, least)
    return ViewAdvice(id_, today, then, reason, maintained, read, float(size[0]), size[1], rate, latency)


def _place(made: Operators, id_: str, maintained: frozenset[str]) -> str:
    parts = made.parts(id_, maintained)
    return "maintained" if parts is None else PART if parts else "at read"


def _reason(made: Operators, id_: str, best: str, least: str) -> str:
    if id_ in made.catalog.hints.placed:
        return "the script's hint"
    if made.found[made.places[id_][()]].fixed is Placement.MAINTAIN:
        return why_maintained(made.catalog, id_) or "a request would exceed the latency target"
    if best != least:
        return f"{least} would save less than a fifth"
    return "cheaper in epochs than in requests" if best == "maintained" else "cheaper in requests than in epochs"
