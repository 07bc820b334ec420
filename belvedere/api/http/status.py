"""`GET /status`: the state of each input, the producers that delay its watermark, and the freshness of each view.

In: the catalog and the last epoch's row. Out: a JSON object. Per input it has the number of rows, and per event-time
column the watermark, its producers and those that delay it. Per public view it has the last epoch that changed it, and
the times below which its rows are final. It also has the measurements of epochs and of requests. Rows that wait for an
epoch are not included.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input
from belvedere.catalog.shown_names import shown_names
from belvedere.engine.epoch_row.last_changes import DOCUMENT as CHANGED
from belvedere.engine.epoch_row.last_changes import last_change
from belvedere.engine.epoch_row.measurements import DOCUMENT, Measured
from belvedere.engine.epoch_row.row_counts import DOCUMENT as ROWS
from belvedere.engine.errors.failed_stages import Failed, failures_of, quarantined
from belvedere.plan.bound_rules import Bounds
from belvedere.plan.bounds import bounds_of
from belvedere.plan.monotone import FOREVER, NEVER
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.store.protocol import EpochRow
from belvedere.time.event_time import Clocks, Counts, bounds_by_input, time_text
from belvedere.time.producers import StreamClock, holding_back

STATE_FIGURES = {
    "rows": "Rows of operator state.",
    "bytes": "Bytes of operator state.",
    "runs": "Sorted files (runs) of operator state.",
    "write_seconds": "Seconds spent writing operator state since the start.",
    "merge_seconds": "Seconds spent merging operator state since the start.",
    "keys_looked_up": "Keys and ranges looked up in operator state since the start.",
    "rows_found": "Rows found by look-ups in operator state since the start.",
    "driver_bytes": "Bytes of rows that passed through the process that runs epochs since the start.",
    "intake_jobs": "Jobs whose tasks read, judged or stamped new rows in other processes since the start.",
    "task_jobs": "Jobs whose tasks looked up or changed the state in other processes since the start.",
}


def status_of(catalog: Catalog, row: EpochRow | None, takes_pushes: bool) -> dict[str, Any]:
    """Return the status after an epoch (None: before the first one)."""
    clocks = Clocks.of_document(row.bounds) if row is not None else Clocks()
    offsets: Mapping[str, Any] = row.offsets if row is not None else {}
    inputs = [_input(t, clocks, offsets.get(t.id)) for t in catalog.inputs.values() if t.late_of is None]
    found: dict[str, Any] = {
        "epoch": None if row is None else row.epoch,
        "takes_pushes": takes_pushes,
        "inputs": inputs,
    }
    if row is not None:
        found |= {"as_of": _instant(row.clock), "views": view_figures(catalog, row, clocks)}
        if state := state_figures(row):
            found["state"] = state
        if epochs := epoch_figures(catalog, row):
            found["epochs"] = epochs
        if row.committed_at is not None:
            age = datetime.now(UTC) - row.committed_at
            found |= {
                "committed_at": _instant(row.committed_at),
                "freshness_ms": max(0, round(age.total_seconds() * 1000)),
            }
    return found


def role_status(status: dict[str, Any], seen: Catalog) -> dict[str, Any]:
    """Return the part of a status that a role may see: row counts and producers only where the role sees all rows."""
    grant = seen.access.grant
    if grant is None:
        return status
    inputs, whole = {t.name for t in seen.inputs.values()}, grant.relations - grant.row_conditions.keys()
    counted = {t.name for i, t in seen.inputs.items() if i in whole}
    found = {n: status[n] for n in SHOWN if n in status}
    found["inputs"] = [
        t if t["name"] in counted else {n: t[n] for n in ("name", "kind")}
        for t in status["inputs"]
        if t["name"] in inputs
    ]
    if "views" in status:
        found["views"] = [v for v in status["views"] if v["id"] in whole & seen.public]
    return found


CHANGED_FILES = ("grown", "replaced")
"""Keys in a file source's offset: the number of files that changed after they were read, by kind of change."""
SHOWN = ("store", "standby", "epoch", "takes_pushes", "as_of", "committed_at", "freshness_ms")


def state_figures(row: EpochRow) -> dict[str, int | float]:
    """Return rows, bytes and runs of the operators' state after an epoch, and totals of writes, merges and look-ups
    since the start."""
    known = row.extra.get("state") or {}
    return {n: known[n] for n in STATE_FIGURES if n in known}


def epoch_figures(catalog: Catalog, row: EpochRow) -> dict[str, Any]:
    """Return changed rows and seconds per relation, averaged over the last hundred epochs; empty without
    measurements."""
    measured = Measured.of_document(row.extra.get(DOCUMENT))
    if not measured.epochs:
        return {}
    named = [n for n in measured.changed if n in catalog.inputs or n in catalog.views]
    relations = [
        {"name": shown_names(n), "changed_rows": measured.changed[n], "seconds": measured.seconds.get(n, 0.0)}
        for n in named
    ]
    requests = [
        {"name": n, "per_second": measured.rate(n), "seconds": measured.latency(n)} for n in sorted(measured.requests)
    ]
    return {"measured": measured.epochs, "pause_seconds": measured.pause, "relations": relations, "requests": requests}


def view_figures(catalog: Catalog, row: EpochRow, clocks: Clocks) -> list[dict[str, Any]]:
    """Return, per stored public view, its rows, its last change, and per column the time below which its rows are
    final."""
    counts: Mapping[str, int] = row.extra.get(ROWS, {})
    changed, found = row.extra.get(CHANGED) or {}, list[dict[str, Any]]()
    failed = failures_of(row.extra)
    held = quarantined(failed)
    bounds: dict[str, Bounds | None] = dict(bounds_by_input(catalog, clocks))
    for id_, view in catalog.views.items():  # a view reads earlier ones
        bounds[id_] = bounds_of(view.plan, bounds.get)
        if id_ not in catalog.public:
            continue
        last = last_change(changed, _stored_for(catalog, id_))
        final = [{"column": c, "below": _time(b)} for c, b in (bounds[id_] or {}).items() if NEVER < b < FOREVER]
        change = None if last is None else {"epoch": last.epoch, "at": _time(last.time)}
        rows = {"rows": counts[id_]} if id_ in counts else {}
        found.append(
            {
                "id": id_,
                "name": view.name,
                **rows,
                "changed": change,
                "final": final,
                **_quarantine_of(id_, failed, held),
            }
        )
    return found


def _quarantine_of(id_: str, failed: tuple[Failed, ...], held: Mapping[str, int | None]) -> dict[str, Any]:
    """Return the last good epoch of a view in quarantine, and which view failed, since when and why."""
    if id_ not in held:
        return {}
    one = next(f for f in failed if id_ in f.good)
    why = {"view": one.owner.partition("~")[0], "since": one.since, "at": _time(one.at), "code": one.code}
    why |= {"lost": one.lost} if one.lost else {}
    return {"quarantine": {"epoch": held[id_], **why, "error": one.message, "detail": one.detail, "hint": one.hint}}


def _stored_for(catalog: Catalog, id_: str) -> set[str]:
    """Return the relation itself, or the relations that the database reads to compute it."""
    plan: Node | None = catalog.placement.at_read.get(id_)
    return {id_} if plan is None else {n.relation for n in plan.walk() if isinstance(n, Scan)}


def _input(table: Input, clocks: Clocks, offset: Mapping[str, Any] | None) -> dict[str, Any]:
    counts = clocks.counts.get(table.id, Counts())
    rows = {"in": counts.given, "used": counts.used, "late": counts.late, "malformed": counts.malformed}
    columns = [{"column": w.column, **_clock(clocks.clock(table.id, w.column))} for w in table.watermarks]
    late: Mapping[str, Any] = {"late": table.late.value} if table.watermarks else {}
    changed = {k: offset[k] for k in CHANGED_FILES if offset and k in offset} if table.source is not None else {}
    files = {"changed_files": changed} if changed else {}
    return {"name": table.name, "kind": table.kind.value, **late, "rows": rows, "event_time": columns, **files}


def _clock(clock: StreamClock) -> dict[str, Any]:
    producers = [
        {"producer": name, "bound": _time(p.bound), "heard": _time(p.heard)} for name, p in clock.producers.items()
    ]
    return {
        "watermark": _time(clock.bound),
        "assumed": clock.assumed,
        "held_back_by": list(holding_back(clock)),
        "producers": producers,
    }


def _time(micros: int | None) -> str | None:
    return None if micros is None else time_text(micros)


def _instant(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
