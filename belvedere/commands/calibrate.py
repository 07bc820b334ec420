"""`belvedere calibrate`: measure the optimizer's cost coefficients on this machine.

In: nothing. Out: the coefficients in a file of the user's settings, which `belvedere advise` reads. It starts Spark and
takes about a minute.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from belvedere.optimize.costs import Coefficients, keep_coefficients
from belvedere.terminal.output import print_json


def costs_path() -> Path:
    """Return the file with the costs of this machine."""
    return Path(typer.get_app_dir("belvedere"), "costs.json")


def command(json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False) -> int:
    """Measure the costs of epochs and requests on this machine, for `belvedere advise`."""
    from belvedere.spark.jvm.quiet_session import batch_session  # imports PySpark, which takes a second
    from belvedere.workbench.calibration import calibrate

    console = Console(stderr=True)
    with console.status("starting Spark") as status, batch_session() as spark:
        found = calibrate(spark, lambda what: status.update(f"measuring {what}"))
    path = costs_path()
    keep_coefficients(found, path)
    if json:
        print_json({"file": str(path), "coefficients": asdict(found)})
        return 0
    table = Table("cost", "on this machine, µs", "shipped, µs")
    shipped = asdict(Coefficients())
    for name, value in asdict(found).items():
        table.add_row(name, *(_micros(v) for v in (value, shipped[name])))
    Console(file=sys.stdout).print(table)
    typer.echo(f"saved in {path}; remove the file to use the shipped costs")
    return 0


def _micros(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f}" if seconds >= 1e-4 else f"{seconds * 1e6:.3g}"
