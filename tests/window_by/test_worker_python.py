"""Workers that run another Python: told before anything runs, with what to set."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import belvedere
from belvedere.errors import BelvedereError

QUERY = (
    "FROM t AS r WINDOW BY w ORDER BY r.n TYPE SLIDING START AS s END AS e WHEN GREATEST(e.n, s.n) > s.n SELECT "
    "s.n, e.n AS last"
)
PYTHONS = {
    "bare": ("echo \"ModuleNotFoundError: No module named 'belvedere'\" >&2; exit 1", "No module named 'belvedere'"),
    "old": ("echo '(3, 8)'", "its version is (3, 8)"),
    "missing": (None, "No such file"),
    "same": (f'exec {sys.executable} "$@"', None),
}


@pytest.mark.spark
def test_workers_that_cannot_run_the_kernels_are_told(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = spark.range(3).withColumnRenamed("id", "n")
    for name, (does, expected) in PYTHONS.items():
        python = tmp_path / name
        if does is not None:
            python.write_text(f"#!/bin/sh\n{does}\n")
            python.chmod(0o755)
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
        if expected is None:
            assert len(belvedere.sql(spark, QUERY, t=numbers).toArrow()) == 3
            continue
        with pytest.raises(BelvedereError) as failure:
            belvedere.sql(spark, QUERY, t=numbers)
        found = failure.value.diagnostics[0]
        assert (found.code, str(python) in found.message, expected in (found.detail or "")) == ("B7034", True, True)
        assert f'"{sys.executable}"' in (found.hint or "")
