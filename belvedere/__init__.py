"""Belvedere: a view store on Apache Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from belvedere.errors import BelvedereError as BelvedereError
    from belvedere.frame_windows import window_by as window_by
    from belvedere.functions.own import function as function
    from belvedere.queries import sql as sql
    from belvedere.tracing import trace_epochs as trace_epochs
    from belvedere.workbench import Workbench as Workbench

# loaded at first use: pyspark is slow to import
_LAZY = {
    "BelvedereError": "belvedere.errors",
    "function": "belvedere.functions.own",
    "sql": "belvedere.queries",
    "trace_epochs": "belvedere.tracing",
    "window_by": "belvedere.frame_windows",
    "Workbench": "belvedere.workbench",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
