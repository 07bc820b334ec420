"""`belvedere advise`: the views to maintain and the views to compute on read, at present and at the lowest cost.

In: a script, its store. Out: for each view its present placement, the best one with the reason, and the saving.
`--apply` stores the choice for the next start. It starts no Spark. Its former name is `belvedere optimize`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from belvedere.connectors.project_file import load_project
from belvedere.optimize.costs import known_coefficients
from belvedere.terminal.addresses import StoreOption
from belvedere.terminal.output import has_errors, print_json, print_table, read_script, show
from belvedere.terminal.stores import compile_over_store

if TYPE_CHECKING:
    from belvedere.pipeline.advice import ViewAdvice


class CostModel(StrEnum):
    """Method of choice: lowest cost, or the rule of another product."""

    LEAST = "least"
    DATASQRL = "datasqrl"


def command(
    script: Annotated[Path, typer.Argument(help="a script (.sqrl)", metavar="SCRIPT")],
    store: StoreOption = None,
    apply: Annotated[bool, typer.Option("--apply", help="apply the choice at the next start")] = False,
    cost_model: Annotated[
        CostModel, typer.Option("--cost-model", help="the cost model: least cost, or DataSQRL's rule")
    ] = CostModel.LEAST,
    json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> int:
    """Choose which views to maintain and which to compute at read time, from the store's measurements."""
    from belvedere.commands.calibrate import costs_path  # imported when the command runs, not for its help
    from belvedere.pipeline.advice import advise, keep_choice

    text, project = read_script(script), load_project(script.parent)
    over = compile_over_store(script, text, store, project)
    if has_errors(over.diagnostics):
        show(over.diagnostics, {str(script): text}, stream=sys.stderr)
        return 1
    url, project, catalog = over.url, over.project, over.catalog
    costs = known_coefficients(costs_path())
    advice = advise(catalog, url, project.optimize, greedy=cost_model is CostModel.DATASQRL, costs=costs)
    if apply:
        keep_choice(url, advice.choice)
    if json:
        views = [asdict(v) for v in advice.views]
        print_json(
            {
                "cost_today": advice.cost_today,
                "cost": advice.cost,
                "pause": advice.pause,
                "epoch_seconds": advice.epoch,
                "calibrated": costs is not None,
                "applied": apply,
                "views": views,
                "scanning": [asdict(t) for t in advice.scanning],
            }
        )
    else:
        print_table(_table(advice.views))
        typer.echo()
        typer.echo(advice.text(applied=apply))
        if costs is None:
            typer.echo(
                "estimated with shipped costs: `belvedere calibrate` measures the costs of this machine", err=True
            )
    return 0


def _table(views: Iterable[ViewAdvice]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("view", no_wrap=True)
    for name in ("rows", "bytes", "asked/s", "takes ms", "epochs ms/s", "requests ms/s"):
        table.add_column(name, justify="right")
    for view in views:
        latency = "" if view.latency is None else f"{view.latency * 1000:.3g}"
        paid = (f"{seconds * 1000:.2g}" for seconds in (view.maintained_cost, view.read_cost))
        table.add_row(view.name, f"{view.rows:,.0f}", f"{view.bytes:,}", f"{view.rate:.3g}", latency, *paid)
    return table
