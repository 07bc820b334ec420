"""Belvedere: a view store on Apache Spark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from belvedere.errors import BelvedereError as BelvedereError
    from belvedere.functions.project_functions import function as function
    from belvedere.process.tracing import trace_epochs as trace_epochs
    from belvedere.queries.frame_windows import window_by as window_by
    from belvedere.queries.single_query import sql as sql
    from belvedere.workbench.workbench import Workbench as Workbench

# loaded at first use: pyspark is slow to import
_LAZY = {
    "BelvedereError": "belvedere.errors",
    "function": "belvedere.functions.project_functions",
    "sql": "belvedere.queries.single_query",
    "trace_epochs": "belvedere.process.tracing",
    "window_by": "belvedere.queries.frame_windows",
    "Workbench": "belvedere.workbench.workbench",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
