"""Sink tables that are missing, have other types, or belong to two exports: reported, and nothing is written."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import psycopg
import pyarrow as pa
import pytest

from belvedere.compiler import compile_script
from belvedere.connectors.connector import Outgoing
from belvedere.connectors.delta import open_outlet as open_delta
from belvedere.connectors.exporting.exports import send_again
from belvedere.connectors.exporting.sink_values import in_type
from belvedere.connectors.postgres.sink import PostgresOutlet
from belvedere.errors import BelvedereError
from belvedere.project.settings import ProjectSettings, Sink
from belvedere.store import open_store
from belvedere.store.identity import IDENTITY, identity_of
from belvedere.workbench.workbench import Workbench

SCRIPT = """
CREATE TABLE Machine (id INT NOT NULL, temp DOUBLE, PRIMARY KEY (id));
Hot := SELECT id, temp FROM Machine WHERE temp > 100;
CREATE SUBSCRIPTION GotHot ON ADD AS SELECT id, temp FROM Machine WHERE temp > 100;
EXPORT Hot TO out.Hot;
EXPORT GotHot TO out.GotHot;
"""


def heat(wb: Workbench, *ids: int, temp: float = 120.0) -> None:
    wb.insert("Machine", [{"id": i, "temp": temp} for i in ids])
    wb.step()


def lost_then_sent_again(executor: Any, project: ProjectSettings, store: str, lose: Any, rows: Any) -> None:
    """Both exports are lost after some rows; each ends the run until it is asked for again, and then has all."""
    wb = Workbench(SCRIPT, store, spark=executor, project=project)
    heat(wb, 1, 2)
    heat(wb, 1, temp=130.0)
    heat(wb, 2, temp=1.0)
    url, catalog = wb.engine.store.url, wb.catalog
    wb.close()
    assert [i for i, *_ in rows("GotHot")] == [1, 2]
    lose()
    before_last = open_store(url)
    transaction = before_last.begin()  # as of a run that has committed more than it could send
    last = before_last.last_epoch()
    assert last is not None
    sequences = {**last.extra["sequences"], "Hot$changes": last.extra["sequences"]["Hot$changes"] + 1}
    transaction.commit(replace(last, epoch=last.epoch + 1, extra={**last.extra, "sequences": sequences}))
    before_last.close()
    for name, kept in (("Hot", "export Hot"), ("GotHot", "GotHot")):
        with pytest.raises(BelvedereError) as caught:
            Workbench(SCRIPT, url, spark=executor, project=project)
        (reported,) = caught.value.diagnostics
        assert reported.code == "B6212", kept
        assert f'has lost events of "{name}": events up to' in reported.message
        assert f"belvedere resend SCRIPT out.{name}" in str(reported.hint)
        found = open_store(url)
        assert send_again(catalog, project.sinks, found, f"OUT.{name}") == (f"out.{name}",)
        found.close()
    with pytest.raises(BelvedereError, match="B6114"):
        send_again(catalog, project.sinks, found, "out.Nothing")
    wb = Workbench(SCRIPT, url, spark=executor, project=project)
    heat(wb, 3)
    assert sorted(rows("Hot")) == [(1, 130.0), (3, 120.0)]
    assert sorted(rows("GotHot")) == [(1, 120.0), (2, 120.0), (3, 120.0)]
    wb.restart()
    heat(wb, 4)
    assert [i for i, _ in sorted(rows("Hot"))] == [1, 3, 4]
    assert [i for i, _ in sorted(rows("GotHot"))] == [1, 2, 3, 4]
    wb.close()


def test_a_folder_of_delta_that_is_gone(executor: Any, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    project = ProjectSettings(tmp_path, sinks={"out": Sink("out", "delta", lake)})

    def rows(table: str) -> list[Any]:
        found = pa.table(deltalake.DeltaTable(lake / table).scan().read_all()).to_pylist()
        return [(r["id"], r["temp"]) for r in found]

    lost_then_sent_again(executor, project, f"sqlite:///{tmp_path}/s.db", lambda: shutil.rmtree(lake), rows)


@pytest.mark.postgres
def test_a_table_of_postgres_that_is_gone(executor: Any, tmp_path: Path, postgres_url: str) -> None:
    project = ProjectSettings(tmp_path, sinks={"out": Sink("out", "postgres", options={"url": postgres_url})})

    def ask(query: str) -> list[Any]:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            cursor = connection.execute(query)
            return list(cursor.fetchall()) if cursor.description else []

    def lose() -> None:
        ask('DROP TABLE "Hot"')
        ask('TRUNCATE belvedere_exports; TRUNCATE "GotHot"')

    store = f"sqlite:///{tmp_path}/s.db"
    lost_then_sent_again(executor, project, store, lose, lambda table: ask(f'SELECT id, temp FROM "{table}"'))


@pytest.mark.postgres
def test_a_table_of_postgres_that_goes_while_a_run_writes_it(postgres_url: str) -> None:
    outlet = PostgresOutlet(Outgoing(Sink("out", "postgres", options={"url": postgres_url}), "T", "s"))
    assert outlet.reached() is None
    outlet.write(iter([events(v=pa.array([1]))]))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute('DROP TABLE "T"')
    with pytest.raises(BelvedereError, match='B6212: sink "out" has lost events of "T": its table is gone'):
        outlet.write(iter([events(v=pa.array([2]))]))


def test_a_copy_of_a_store_is_another_one_to_sinks(executor: Any, tmp_path: Path) -> None:
    """It sends what comes after the backup, under a name of its own: nothing is lost."""
    project = ProjectSettings(tmp_path, sinks={"out": Sink("out", "delta", tmp_path / "lake")})
    wb = Workbench(SCRIPT, f"sqlite:///{tmp_path}/s.db", spark=executor, project=project)
    heat(wb, 1)
    url = wb.engine.store.url
    wb.close()
    store = open_store(url)
    store.set_document(IDENTITY, replace(identity_of(store), sinks="a copy").text)
    store.close()
    wb = Workbench(SCRIPT, url, spark=executor, project=project)
    heat(wb, 2)
    wb.restart()
    found = pa.table(deltalake.DeltaTable(tmp_path / "lake" / "GotHot").scan().read_all()).to_pylist()
    assert sorted(r["id"] for r in found) == [1, 2]
    wb.close()


def test_a_table_of_delta_that_was_put_back(executor: Any, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    project = ProjectSettings(tmp_path, sinks={"out": Sink("out", "delta", lake)})
    wb = Workbench(SCRIPT, spark=executor, project=project)
    heat(wb, 1)
    shutil.copytree(lake, tmp_path / "older")
    heat(wb, 2)
    shutil.rmtree(lake)
    shutil.copytree(tmp_path / "older", lake)
    with pytest.raises(BelvedereError, match="events up to 2 were sent, and it has them up to 1"):
        wb.restart()


TWO = "CREATE TABLE T (id INT);\nV := SELECT id FROM T;\nW := SELECT id FROM T;\n"


# -- two exports to one place
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("connector", "options"),
    [
        ("files", {}),
        ("delta", {}),
        ("delta", {"names": {"A": "t", "B": "t"}}),
        ("postgres", {"url": "postgresql://h/d", "names": {"B": "A"}}),
        ("http", {"url": "http://h/"}),
    ],
)
def test_two_exports_to_one_place_are_refused(tmp_path: Path, connector: str, options: dict[str, Any]) -> None:
    sinks = {n: Sink(n, connector, tmp_path, options=options) for n in ("one", "two")}
    second = "B" if "names" in options else "A"
    for sink in ("one", "two"):
        script = f"{TWO}EXPORT V TO one.A;\nEXPORT W TO {sink}.{second};\n"
        found = compile_script(script, project=ProjectSettings(tmp_path, sinks=sinks))
        (reported,) = found.diagnostics
        assert (reported.code, found.ok) == ("B6113", False), (connector, sink)
        assert reported.span is not None
        assert script[reported.span.start :].startswith("EXPORT W")
    script = TWO + "EXPORT V TO one.A;\nEXPORT V TO one.C;\n"
    assert compile_script(script, project=ProjectSettings(tmp_path, sinks=sinks)).ok


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (("files", "out", {}), ("files", "other/../out/.", {})),
        (("files", "out", {}), ("files", "link", {})),
        (("delta", "out", {}), ("delta", None, {"url": "file://{folder}//out/"})),
        (("delta", "out", {}), ("files", "out", {})),
        (("delta", None, {"url": "s3://b/out"}), ("delta", None, {"url": "s3://b/out//"})),
        (("http", None, {"url": "http://Host:80"}), ("http", None, {"url": "HTTP://host/"})),
        (("http", None, {"url": "https://host/a?b=1"}), ("http", None, {"url": "https://HOST:443/a/?b=1"})),
        (
            ("postgres", None, {"url": "postgresql://me:x@Host/d"}),
            ("postgres", None, {"url": "postgres://you@host:5432/d?connect_timeout=5", "schema": "public"}),
        ),
        (
            ("postgres", None, {"url": "postgresql:///d?host=/tmp"}),
            ("postgres", None, {"url": "postgresql://%2Ftmp/d"}),
        ),
    ],
)
def test_one_place_in_two_spellings_is_one(tmp_path: Path, one: Any, two: Any) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out")

    def compiled(*given: tuple[str, str | None, dict[str, str]]) -> Any:
        sinks = {}
        for name, (connector, path, texts) in zip(("one", "two"), given, strict=True):
            options = {k: v.format(folder=tmp_path) for k, v in texts.items()}
            sinks[name] = Sink(name, connector, None if path is None else tmp_path / path, options=options)
        project = ProjectSettings(tmp_path, sinks=sinks)
        return compile_script(TWO + "EXPORT V TO one.A;\nEXPORT W TO two.A;\n", project=project)

    assert [d.code for d in compiled(one, two).diagnostics] == ["B6113"]


@pytest.mark.parametrize("connector", ["kafka", "console"])
def test_what_exports_may_share(tmp_path: Path, connector: str) -> None:
    project = ProjectSettings(tmp_path, sinks={"out": Sink("out", connector)})
    script = TWO + "EXPORT V TO out.A;\nEXPORT W TO out.A;\n"
    assert compile_script(script, project=project).ok
    twice = compile_script(script + "EXPORT V TO out.A;\n", project=project)
    assert [d.code for d in twice.diagnostics] == ["B6113"]


# -- other types
# ----------------------------------------------------------------------------------------------------------

EVENING = datetime(2024, 1, 1, 23, 30, tzinfo=UTC)
UTC_TIME = pa.timestamp("us", "UTC")
DELTA = {
    "a fraction": (pa.float64(), 1.5, pa.int64(), False),
    "a whole double": (pa.float64(), 2.0, pa.int64(), True),
    "beyond 32 bits": (pa.int64(), 2**40, pa.int32(), False),
    "beyond a double": (pa.int64(), 2**53 + 1, pa.float64(), False),
    "a time for a date": (UTC_TIME, EVENING, pa.date32(), False),
    "midnight for a date": (UTC_TIME, datetime(2024, 1, 1, tzinfo=UTC), pa.date32(), True),
    "two for a boolean": (pa.int32(), 2, pa.bool_(), False),
    "fewer digits": (pa.decimal128(10, 2), Decimal("1.55"), pa.decimal128(10, 1), False),
    "digits that are not needed": (pa.decimal128(10, 2), Decimal("1.50"), pa.decimal128(10, 1), True),
    "a whole number for a decimal": (pa.int64(), 5, pa.decimal128(10, 2), True),
    "too large for a decimal": (pa.int64(), 5, pa.decimal128(2, 2), False),
    "not a number": (pa.float64(), float("nan"), pa.int64(), False),
    "a double for a float": (pa.float64(), 0.1, pa.float32(), False),
    "not a number for a float": (pa.float64(), float("nan"), pa.float32(), True),
    "a text": (pa.string(), "x", pa.int64(), False),
    "within a list": (pa.list_(pa.float64()), [1.0, 1.5], pa.list_(pa.int64()), False),
    "within a struct": (pa.struct([("a", pa.float64())]), {"a": 1.5}, pa.struct([("a", pa.int64())]), False),
}


def test_values_in_columns_of_other_types() -> None:
    for what, (own, value, theirs, fits) in DELTA.items():
        column = pa.chunked_array([pa.array([None, value, None, value], own)])
        found = in_type(column, theirs)
        assert found == 1 if not fits else (found.type, found.null_count) == (theirs, 2), what  # type: ignore[union-attr]


def events(**columns: pa.Array) -> pa.Table:
    size = len(next(iter(columns.values())))
    at = pa.array([EVENING] * size, UTC_TIME)
    return pa.table(
        {**columns, "_op": pa.array(["ADD"] * size), "_event_time": at, "_seq": pa.array(range(1, size + 1))}
    )


def test_a_table_of_delta_with_other_types_takes_a_value_whole_or_not_at_all(tmp_path: Path) -> None:
    there = pa.schema([("v", pa.int64()), ("_op", pa.string()), ("_event_time", UTC_TIME), ("_seq", pa.int64())])
    deltalake.write_deltalake(tmp_path / "T", there.empty_table())
    outlet = open_delta(Outgoing(Sink("lake", "delta", tmp_path), "T", "s"))
    assert outlet.reached() is None
    with pytest.raises(BelvedereError) as caught:
        outlet.write(iter([events(v=pa.array([1.0, 1.5]))]))
    (reported,) = caught.value.diagnostics
    assert reported.code == "B6241"
    assert 'its column "v" is BIGINT, which cannot hold 1.5 (DOUBLE) of event 2' in reported.message
    assert outlet.reached() is None
    outlet.write(iter([events(v=pa.array([1.0, 2.0]))]))
    took = pa.array([[timedelta(hours=1)]], pa.list_(pa.duration("us")))
    parts = pa.array([{"a": timedelta(hours=2)}], pa.struct([("a", pa.duration("us"))]))
    outlet.write(iter([events(v=pa.array([3]), took=took, parts=parts)]))
    found = sorted(
        pa.table(deltalake.DeltaTable(tmp_path / "T").scan().read_all()).to_pylist(), key=lambda r: int(r["v"])
    )
    assert [r["v"] for r in found] == [1, 2, 3]
    assert (found[-1]["took"], found[-1]["parts"]) == (["P0DT1H0M0S"], {"a": "P0DT2H0M0S"})


POSTGRES = {
    "fraction": (pa.decimal128(10, 2), "1.55", "bigint", False),
    "whole": (pa.decimal128(10, 2), "2.00", "bigint", True),
    "large": (pa.int64(), 2**40, "integer", False),
    "fewer": (pa.decimal128(10, 2), "1.55", "numeric(5,1)", False),
    "float": (pa.float64(), 0.1, "real", False),
    "half": (pa.float64(), 0.5, "real", True),
    "nan": (pa.float64(), float("nan"), "numeric", True),
    "day": (UTC_TIME, EVENING, "date", False),
    "midnight": (UTC_TIME, datetime(2024, 1, 1, tzinfo=UTC), "date", True),
    "second": (UTC_TIME, datetime(2024, 1, 1, 0, 0, 0, 5, UTC), "timestamptz(0)", False),
    "local": (UTC_TIME, EVENING, "timestamp", True),
    "date": (pa.date32(), date(2024, 1, 1), "timestamptz", True),
    "boolean": (pa.int32(), 2, "boolean", False),
    "number": (pa.string(), "1.50", "double precision", True),
    "rounded": (pa.string(), "1.55", "numeric(5,1)", False),
    "no_number": (pa.string(), "x", "integer", False),
    "cut": (pa.string(), "2024-01-01 23:30", "date", False),
    "uuid": (pa.string(), "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "uuid", True),
    "long": (pa.string(), "abcd", "varchar(3)", False),
    "text": (pa.float64(), 1.5, "text", True),
    "json": (pa.list_(pa.int32()), [1, 2], "json", True),
    "length": (pa.duration("us"), timedelta(hours=30), "time", False),
}


@pytest.mark.postgres
@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_table_of_postgres_with_other_types_takes_a_value_whole_or_not_at_all(
    postgres_url: str, key: tuple[str, ...]
) -> None:
    sink = Sink("out", "postgres", options={"url": postgres_url})
    with psycopg.connect(postgres_url, autocommit=True) as found:
        for what, (own, value, theirs, fits) in POSTGRES.items():
            name = f"{what}_{len(key)}"
            more = "" if key else ", _op text, _event_time timestamptz, _seq bigint"
            found.execute(f"CREATE TABLE {name} (id bigint, v {theirs}{more})")
            outlet = PostgresOutlet(Outgoing(sink, name, "s", key))
            assert outlet.reached() is None
            values = [None, Decimal(str(value)) if pa.types.is_decimal(own) else value, None]
            came = events(id=pa.array([1, 2, 3]), v=pa.array(values, own))
            if fits:
                outlet.write(iter([came]))
                counted = found.execute(f"SELECT count(*), count(v) FROM {name}").fetchone()
                assert counted == (3, 1), what
            else:
                with pytest.raises(BelvedereError) as caught:
                    outlet.write(iter([came]))
                (reported,) = caught.value.diagnostics
                assert reported.code == "B6221"
                assert 'column "v" is ' in reported.message, what
                assert reported.message.endswith("of event 2"), what
                assert found.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)
            outlet.close()
