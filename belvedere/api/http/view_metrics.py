"""Metrics of each view and input for `/metrics`, in the Prometheus text format.

In: the status that a caller may see, and the epoch's row. Out: families of samples with a label `view` or `input`: one
series per view and input, independent of their rows. It reads only the last epoch's row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from belvedere.engine.epoch_row.measurements import DOCUMENT, Measured
from belvedere.store.protocol import EpochRow

FAMILIES = {
    "belvedere_store_up": ("gauge", "1 if the store answered the last query."),
    "belvedere_epoch_mean_seconds": ("gauge", "Mean seconds of an epoch, over the last hundred epochs with rows."),
    "belvedere_epoch_pause_mean_seconds": (
        "gauge",
        "Mean seconds between epochs with rows, over the last hundred.",
    ),
    "belvedere_view_epoch": (
        "gauge",
        "The epoch that the view shows: the last one, or in quarantine the last good one.",
    ),
    "belvedere_view_freshness_seconds": (
        "gauge",
        "Seconds since the view was up to date: since the last epoch, or since its quarantine.",
    ),
    "belvedere_view_changed_timestamp_seconds": (
        "gauge",
        "The clock of the epoch that changed the view last, as Unix time.",
    ),
    "belvedere_view_quarantined": ("gauge", "1 while the view is in quarantine, else 0."),
    "belvedere_view_rows": (
        "gauge",
        "Rows of the view if it is stored; each epoch updates the number.",
    ),
    "belvedere_view_changed_rows": (
        "gauge",
        "Mean number of changed rows of the view, over the last hundred epochs with rows.",
    ),
    "belvedere_view_seconds": (
        "gauge",
        "Mean seconds spent on the view, over the last hundred epochs with rows.",
    ),
    "belvedere_input_changed_files": (
        "gauge",
        "Files of the input that changed after they were read: replaced, or with appended lines that are not read.",
    ),
    "belvedere_input_rows_total": (
        "counter",
        "Rows that arrived for the input since the store was created, by result.",
    ),
}
"""Kind and description of each metric, by name."""
Samples = dict[str, list[tuple[str, float]]]


def view_metrics(status: Mapping[str, Any], row: EpochRow | None, now: datetime | None = None) -> str:
    """Return the metrics of a status that the same caller sees at `/status`; `row` is the row of its epoch."""
    found: Samples = {name: [] for name in FAMILIES}
    found["belvedere_store_up"].append(("", float(status.get("store") != "away")))
    for table in status.get("inputs", ()):
        _input(found, table)
    if row is not None:
        _views(found, status, row, now or datetime.now(UTC))
        _epochs(found, status, row)
    return "".join(f"{line}\n" for name, samples in found.items() if samples for line in _family(name, samples))


def _input(found: Samples, table: Mapping[str, Any]) -> None:
    if rows := table.get("rows"):  # a role that may not see all rows gets no count
        for fate in ("used", "late", "malformed"):
            found["belvedere_input_rows_total"].append((_labels(input=table["name"], fate=fate), rows[fate]))
        for how, count in table.get("changed_files", {}).items():
            found["belvedere_input_changed_files"].append((_labels(input=table["name"], how=how), count))


def _views(found: Samples, status: Mapping[str, Any], row: EpochRow, now: datetime) -> None:
    for view in status.get("views", ()):
        label, held, changed = _labels(view=view["name"]), view.get("quarantine"), view["changed"]
        found["belvedere_view_quarantined"].append((label, float(held is not None)))
        epoch = row.epoch if held is None else held["epoch"]
        if epoch is not None:
            found["belvedere_view_epoch"].append((label, epoch))
        since = row.committed_at if held is None else datetime.fromisoformat(held["at"])
        if since is not None:
            found["belvedere_view_freshness_seconds"].append((label, max(0.0, (now - since).total_seconds())))
        if "rows" in view:
            found["belvedere_view_rows"].append((label, view["rows"]))
        if changed is not None:
            found["belvedere_view_changed_timestamp_seconds"].append(
                (label, datetime.fromisoformat(changed["at"]).timestamp())
            )


def _epochs(found: Samples, status: Mapping[str, Any], row: EpochRow) -> None:
    """Add the figures that epochs measure, if the status has them: roles do not see them."""
    if "epochs" not in status:
        return
    measured = Measured.of_document(row.extra.get(DOCUMENT))
    found["belvedere_epoch_mean_seconds"].append(("", sum(measured.seconds.values())))
    found["belvedere_epoch_pause_mean_seconds"].append(("", measured.pause))
    for view in status["views"]:
        if view["id"] in measured.changed:
            label = _labels(view=view["name"])
            found["belvedere_view_changed_rows"].append((label, measured.changed[view["id"]]))
            found["belvedere_view_seconds"].append((label, measured.seconds.get(view["id"], 0.0)))


def _family(name: str, samples: Iterable[tuple[str, float]]) -> Iterable[str]:
    kind, text = FAMILIES[name]
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    yield from (f"{name}{labels} {value}" for labels, value in samples)


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{n}="{_escaped(v)}"' for n, v in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
