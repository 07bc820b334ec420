"""Exports into tables of Delta Lake: what is in them, what comes twice, what does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from belvedere.connectors.connector import Outgoing
from belvedere.connectors.delta import open_outlet
from belvedere.connectors.exporting import exports
from belvedere.errors import BelvedereError
from belvedere.project.settings import Sink
from tests import depth
from tests.connectors.test_outlets import bench, crash, heat, row


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    return sorted(
        pa.table(deltalake.DeltaTable(folder / table).scan().read_all()).to_pylist(), key=lambda r: int(r["_seq"])
    )


def events(*numbers: int, **columns: pa.Array) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), **columns, "_seq": pa.array(numbers, pa.int64())})


def outlet(folder: Path, store: str = "s", **options: Any) -> Any:
    return open_outlet(Outgoing(Sink("lake", "delta", folder, options=options), "T", store))


@pytest.mark.smoke("connector delta")
@pytest.mark.spark
def test_changes_and_events_are_appended_once(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "a lake"
    wb = bench(spark, tmp_path, "delta", url=str(lake), names={"Halls": "hall ü"})
    heat(
        wb,
        row(1, at="2024-01-01 00:00:00", price="12.50", tags=["a", "é"]),
        row(2, None, float("inf")),
        row(4, None, 5.0),
    )
    first, second = rows(lake, "Hot")
    assert first | {"_op": "", "_event_time": ""} == {
        **{"id": 1, "temp": 120.0, "hall": "Süd", "at": datetime(2024, 1, 1, tzinfo=UTC), "price": Decimal("12.50")},
        **{"tags": ["a", "é"], "more": False, "_op": "", "_event_time": "", "_seq": first["_seq"]},
    }
    assert (second["hall"], second["temp"], second["tags"]) == (None, float("inf"), None)
    with monkeypatch.context() as patch:
        patch.setattr(exports.Exports, "_advance", crash)
        with pytest.raises(KeyboardInterrupt):
            heat(wb, row(1, None, 140.0), row(5))
    wb.restart()
    heat(wb, row(5, temp=1.0))
    for table in ("Hot", "hall ü", "GotHot"):
        found = [r["_seq"] for r in rows(lake, table)]
        assert len(set(found)) == len(found), table
    state: dict[int, float] = {}
    for change in rows(lake, "Hot"):
        if change["_op"] == "DELETE":
            state.pop(change["id"])
        else:
            state[change["id"]] = change["temp"]
    assert state == {r["id"]: r["temp"] for r in wb.rows("Hot")}
    assert [r["id"] for r in rows(lake, "GotHot")] == [1, 2, 5]
    wb.close()


KILLED = """
import os, sys
from pathlib import Path
from tests.connectors.test_delta import events, outlet
found = outlet(Path(sys.argv[1]))
done = found.reached() or 0
while True:
    found.write(iter([events(done + 1, done + 2)]))
    done += 2
    print(done, flush=True)
    if os.environ["AT"] == str(done):
        os._exit(9)
"""


@pytest.mark.deep
def test_kills_between_commit_and_mark_repeat_nothing(tmp_path: Path) -> None:
    moments = (4, 6) if depth.quick else (4, 6, 12, 14, 30)
    for at in moments:
        environment = os.environ | {"AT": str(at), "PYTHONPATH": os.getcwd()}
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path)], env=environment, check=False, capture_output=True
        )
        assert done.returncode == 9, done.stderr
    assert [r["id"] for r in rows(tmp_path, "T")] == list(range(1, moments[-1] + 1))


def test_what_is_written_and_what_is_not(tmp_path: Path) -> None:
    found = outlet(tmp_path)
    assert found.reached() is None
    took = pa.array([3_600_000_000, None], pa.duration("us"))
    found.write(iter([events(1, 2, took=took), events(3, 4, took=took)]))
    assert [r["took"] for r in rows(tmp_path, "T")] == ["P0DT1H0M0S", None] * 2
    found.write(iter(()))
    assert found.reached() == 4
    assert outlet(tmp_path, "another store").reached() is None
    found.write(iter([events(5, new=pa.array(["ü"]))]))
    assert [r["new"] for r in rows(tmp_path, "T")] == [None] * 4 + ["ü"]
    deltalake.DeltaTable(tmp_path / "T").create_checkpoint()
    assert found.reached() == 5
    with pytest.raises(BelvedereError) as caught:
        found.write(iter([events(6).set_column(0, "id", pa.array(["x"]))]))
    assert caught.value.diagnostics[0].code == "B6241"
    assert "\x1b" not in str(caught.value.diagnostics[0].detail)
    assert found.reached() == 5

    def failing() -> Iterator[pa.Table]:
        yield events(6)
        raise RuntimeError("the store")

    with pytest.raises(RuntimeError):
        found.write(failing())
    assert found.reached() == 5


def test_two_who_send_for_one_store(tmp_path: Path) -> None:
    one, other = outlet(tmp_path), outlet(tmp_path)
    assert one.reached() is other.reached() is None
    one.write(iter([events(1)]))
    with pytest.raises(BelvedereError, match="B6240"):
        other.write(iter([events(1)]))
    assert other.reached() == 1
    assert [r["id"] for r in rows(tmp_path, "T")] == [1]


def test_a_storage_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "r",
        "max_retries": "0",
    }
    storage |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    with pytest.raises(BelvedereError, match="B6240") as caught:
        outlet(tmp_path, url="s3://none/lake", storage=storage).reached()
    assert "127.0.0.1:1" in str(caught.value.diagnostics[0].detail)
    with pytest.raises(BelvedereError, match='B6241: sink "lake" has no path'):
        open_outlet(Outgoing(Sink("lake", "delta"), "T", "s"))
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(BelvedereError, match="B6241: exports to Delta need deltalake"):
        outlet(tmp_path)
