"""Conversion of NumPy and pandas values to Python values, as `belvedere.values.input_rows` accepts them.

In: any value. Out: None for NaT and pandas' NA; a number, text, datetime, timedelta, list or dict for values of NumPy
and pandas; other values unchanged. The module imports neither library: their values only exist if they are imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def plain(value: Any) -> Any:
    """Return the value as a Python value. Raises ValueError for times and time spans finer than a microsecond."""
    library = type(value).__module__.partition(".")[0]
    if library == "numpy":
        return _of_numpy(value)
    if library == "pandas":
        return _of_pandas(value)
    if isinstance(value, Mapping):
        return {plain(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def _of_numpy(value: Any) -> Any:
    if hasattr(value, "tolist") and getattr(value, "ndim", None):
        return [plain(v) for v in value.tolist()] if value.dtype.kind not in "mM" else [_of_numpy(v) for v in value]
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind not in ("m", "M"):
        found = value.item() if hasattr(value, "item") else value
        return found if type(found) is type(value) else plain(found)
    if str(value) == "NaT":
        return None
    exact = value.astype(f"{kind}8[us]")
    if exact != value or isinstance(exact.item(), int):
        raise ValueError(f"{value} is finer than a microsecond, or beyond the years that Python knows")
    return exact.item()


def _of_pandas(value: Any) -> Any:
    kind = type(value).__name__
    if kind in ("NaTType", "NAType"):
        return None
    if kind not in ("Timestamp", "Timedelta"):
        return value
    if value.nanosecond if kind == "Timestamp" else value.nanoseconds:
        raise ValueError(f"{value} is finer than a microsecond")
    found: datetime = value.to_pydatetime() if kind == "Timestamp" else value.to_pytimedelta()
    return found
