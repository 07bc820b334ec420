"""The reader of the API's processes on Postgres: prepared statements on an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from adbc_driver_postgresql import dbapi

from belvedere.errors import BelvedereError
from belvedere.store import LoopReader, open_served_reader, open_store
from belvedere.store.dialects import connection_retry
from belvedere.store.dialects.postgres import postgres_statements
from tests.store.samples import COUNTS, code, epoch, filled, reader, row

pytestmark = pytest.mark.postgres

OTHERS = "pid <> pg_backend_pid() AND datname = current_database() AND backend_type = 'client backend'"
CUT = f"SELECT count(pg_terminate_backend(pid)::text) FROM pg_stat_activity WHERE {OTHERS}"
BACKEND = "SELECT pg_backend_pid()"
PREPARED = "SELECT count(*) FROM pg_prepared_statements"


@contextmanager
def opened(url: str, connections: int = 2, seconds: float | None = None) -> Iterator[LoopReader]:
    open_store(url).close()
    found = open_served_reader(url, seconds, connections)
    assert isinstance(found, LoopReader)
    yield found
    found.close()


def on_loop(
    url: str, work: Callable[[LoopReader], Awaitable[Any]], connections: int = 2, seconds: float | None = None
) -> Any:
    """What `work` gives, on a loop of its own."""

    async def main() -> Any:
        with opened(url, connections, seconds) as found:
            return await work(found)

    return asyncio.run(main())


async def until(found: Callable[[], bool]) -> None:
    """Return when the server has come so far."""
    most = time.monotonic() + 60
    while not found():
        assert time.monotonic() < most
        await asyncio.sleep(0.02)


async def refused(work: Awaitable[Any]) -> str:
    with pytest.raises(BelvedereError) as error:
        await work
    return code(error.value)


def test_values_of_all_kinds_however_often_a_statement_came(postgres_url: str) -> None:
    kinds = ("bigint", "text", "double precision", "numeric", "timestamptz", "boolean", "bytea", "date")
    sql = "SELECT " + ", ".join(f"CAST(${i} AS {kind})" for i, kind in enumerate(kinds, 1))
    sql += ", CAST($9 AS double precision), CAST($10 AS double precision)"
    values = (
        -(2**63),
        "ü'\\\n𝄞\x01\x02",
        0.1,
        "12.30",
        "2020-01-01T08:07:00.000001+00:00",
        True,
        b"\x00\xff\\",
        "2020-01-31",
    )
    expected = (
        -(2**63), "ü'\\\n𝄞\x01\x02".encode(), 0.1, Decimal("12.30"), b"2020-01-01 08:07:00.000001+00", True,
        b"\x00\xff\\", b"2020-01-31",
    )  # fmt: skip

    async def work(found: LoopReader) -> None:
        for _ in range(4):
            assert await found.fetch(sql, (*values, float("inf"), -0.0)) == [(*expected, float("inf"), 0.0)]
            ((*_, nan, _),) = await found.fetch(sql, (*values, float("nan"), None))
            assert nan != nan
            assert await found.fetch(sql, (None,) * 10) == [(None,) * 10]
            assert await found.fetch("SELECT 1 WHERE $1::text = 'b'", ("a",)) == []

    on_loop(postgres_url, work, connections=1)


def test_values_in_a_thread_are_those_on_the_loop(postgres_url: str) -> None:
    with opened(postgres_url) as found:
        sql = "SELECT CAST($1 AS bigint), CAST($2 AS text), CAST($3 AS boolean), CAST($4 AS bytea), CAST($5 AS numeric)"
        assert found.execute(sql, (1, "ü", False, b"", "0.5")) == [(1, "ü", False, b"", Decimal("0.5"))]
        assert found.execute("SELECT NULL, $1::text", ("",)) == [(None, "")]
        assert found.last_epoch() is None
        assert found.document("nothing") is None
        with pytest.raises(TypeError):
            found.execute("SELECT $1::text", (object(),))


def test_a_statement_that_comes_again_is_prepared_and_planned_once(postgres_url: str) -> None:
    async def work(found: LoopReader) -> None:
        sql = "SELECT CAST($1 AS bigint) + 1"
        for n in range(20):
            assert await found.fetch(sql, (n,)) == [(n + 1,)]
        made = "SELECT generic_plans FROM pg_prepared_statements WHERE statement = $1"
        assert await found.fetch(made, (sql,)) == [(14,)]  # the first time unprepared, five times with its values

    on_loop(postgres_url, work, connections=1)


def test_statements_that_are_not_used_are_given_up(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_statements, "MAX_PREPARED", 5)

    async def work(found: LoopReader) -> None:
        for n in range(20):
            for _ in range(3):
                assert await found.fetch(f"SELECT {n} + $1::bigint", (1,)) == [(n + 1,)]
        ((count,),) = await found.fetch(PREPARED)
        assert count in (4, 5)

    on_loop(postgres_url, work, connections=1)


def test_a_changed_table_fails_no_request(postgres_url: str) -> None:
    """Another script may run meanwhile: its tables have other columns."""

    async def work(found: LoopReader) -> None:
        writing = dbapi.connect(postgres_url, autocommit=True)
        run = writing.cursor().executescript
        run("CREATE TABLE t (a bigint)")
        run("INSERT INTO t VALUES (1)")
        for _ in range(8):
            assert await found.fetch("SELECT * FROM t") == [(1,)]
        run("ALTER TABLE t ADD COLUMN b text DEFAULT 'x'")
        assert await found.fetch("SELECT * FROM t") == [(1, b"x")]
        run("DROP TABLE t")
        assert await refused(found.fetch("SELECT * FROM t")) == "B7014"
        run("CREATE TABLE t (a text)")
        run("INSERT INTO t VALUES ('z')")
        for _ in range(3):
            assert await found.fetch("SELECT * FROM t") == [(b"z",)]
        await found.fetch("DEALLOCATE ALL")
        assert await found.fetch("SELECT * FROM t") == [(b"z",)]
        writing.close()

    on_loop(postgres_url, work, connections=1)


def test_a_read_is_of_one_epoch(postgres_url: str) -> None:
    sql = 'SELECT (SELECT max(epoch) FROM _belvedere_epoch), (SELECT count(*) FROM "Counts")'
    store = open_store(postgres_url)
    store.create([COUNTS])
    store.begin().commit(epoch(0))

    def write() -> None:
        for number in range(1, 20):
            transaction = store.begin()
            transaction.append("Counts", reader([row(f"{number}/{i}") for i in range(10)]))
            transaction.commit(epoch(number))

    async def work(found: LoopReader) -> list[tuple[Any, ...]]:
        writing = asyncio.get_running_loop().run_in_executor(pool, write)
        seen = []
        while not writing.done():
            seen += [r for rows in await asyncio.gather(*(found.fetch(sql) for _ in range(3))) for r in rows]
        return seen

    with ThreadPoolExecutor(1) as pool:
        seen = on_loop(postgres_url, work)
    assert len(seen) > 10
    assert all(count == 10 * last for last, count in seen)
    store.close()


def test_it_cannot_write(postgres_url: str) -> None:
    async def work(found: LoopReader) -> None:
        assert await refused(found.fetch("DELETE FROM _belvedere_epoch")) == "B7001"
        assert await found.fetch("SELECT 1") == [(1,)]

    on_loop(postgres_url, work)


def test_wrong_statements_leave_the_connection(postgres_url: str) -> None:
    async def work(found: LoopReader) -> None:
        for _ in range(3):
            assert await refused(found.fetch("SELECT FROM WHERE")) == "B7099"
            assert await refused(found.fetch("SELECT CAST($1 AS numeric)", ("x",))) == "B7088"
            assert await refused(found.fetch("SELECT * FROM nowhere")) == "B7014"
            assert await refused(found.fetch("SELECT e.nothing FROM _belvedere_epoch e")) == "B7014"
        assert await found.fetch(BACKEND) == await found.fetch(BACKEND)

    on_loop(postgres_url, work, connections=1)


def test_a_statement_takes_its_time_at_most(postgres_url: str) -> None:
    async def work(found: LoopReader) -> None:
        for _ in range(3):
            assert await refused(found.fetch("SELECT pg_sleep($1)::text", (20,))) == "B7086"
        assert await found.fetch("SELECT 1") == [(1,)]

    started = time.monotonic()
    on_loop(postgres_url, work, seconds=0.5)
    assert time.monotonic() - started < 40


def test_a_server_that_says_nothing_is_left(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a network is cut: no statement ends by itself."""
    monkeypatch.setattr(postgres_statements, "GRACE", -1.0)

    async def work(found: LoopReader) -> None:
        assert await refused(found.fetch("SELECT pg_sleep(1.8)::text")) == "B7005"
        assert await found.fetch("SELECT 1") == [(1,)]

    on_loop(postgres_url, work, seconds=2.0)


def test_many_ask_and_few_connections_answer(postgres_url: str) -> None:
    async def work(found: LoopReader) -> None:
        backends = await asyncio.gather(
            *(found.fetch("SELECT pg_backend_pid(), pg_sleep(0.01)::text") for _ in range(40))
        )
        assert len({r[0][0] for r in backends}) == 3
        large = "ü" * 3_000_000
        assert await found.fetch("SELECT length($1::text), $1::text", (large,)) == [(len(large), large.encode())]

    on_loop(postgres_url, work, connections=3)


def test_connections_that_were_cut(postgres_url: str) -> None:
    async def work(found: LoopReader) -> None:
        with opened(postgres_url) as other:
            for _ in range(3):
                await asyncio.gather(*(found.fetch("SELECT $1::bigint", (n,)) for n in range(10)))
                assert other.execute(CUT)[0][0] >= 2
                assert await found.fetch("SELECT $1::bigint", (7,)) == [(7,)]
            slow = asyncio.ensure_future(found.fetch("SELECT pg_sleep(0.3)::text, 5"))
            await asyncio.sleep(0.1)
            other.execute(CUT)
            assert (await slow)[0][1] == 5  # asked once more

    on_loop(postgres_url, work)


def test_a_server_that_stops_and_starts(own_postgres: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_retry, "CONNECT_SECONDS", 0.2)

    async def work(found: LoopReader) -> None:
        assert await found.fetch("SELECT 1") == [(1,)]
        own_postgres.cleanup()
        assert await refused(found.fetch("SELECT 1")) == "B7005"
        assert await refused(found.fetch("SELECT 1")) == "B7005"
        own_postgres.ensure_postgres_running()
        assert await asyncio.gather(*(found.fetch("SELECT 1") for _ in range(5))) == [[(1,)]] * 5

    on_loop(own_postgres.get_uri(), work)


def test_who_goes_away_ends_the_statement(postgres_url: str) -> None:
    running = f"SELECT count(*) FROM pg_stat_activity WHERE {OTHERS} AND state = 'active' AND query LIKE '%pg_sleep%'"

    async def work(found: LoopReader) -> None:
        with opened(postgres_url) as other:
            asked = [asyncio.ensure_future(found.fetch("SELECT pg_sleep(30)::text")) for _ in range(4)]
            await until(lambda: other.execute(running) == [(2,)])
            for one in reversed(asked):
                one.cancel()
            assert all(
                isinstance(e, asyncio.CancelledError) for e in await asyncio.gather(*asked, return_exceptions=True)
            )
            await until(lambda: other.execute(running) == [(0,)])
            assert await asyncio.gather(*(found.fetch("SELECT 1") for _ in range(5))) == [[(1,)]] * 5

    on_loop(postgres_url, work)


def test_connections_are_closed_at_the_end(postgres_url: str) -> None:
    async def work(found: LoopReader) -> None:
        await asyncio.gather(*(found.fetch("SELECT pg_sleep(0.01)::text") for _ in range(3)))
        slow = asyncio.ensure_future(found.fetch("SELECT pg_sleep(0.2)::text, 5"))
        await asyncio.sleep(0.05)
        found.close()
        assert (await slow)[0][1] == 5
        assert await refused(found.fetch("SELECT 1")) == "B7015"

    on_loop(postgres_url, work)
    with opened(postgres_url) as other:
        asyncio.run(until(lambda: other.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {OTHERS}") == [(0,)]))


def test_another_loop_gets_connections_of_its_own(postgres_url: str) -> None:
    store = open_store(postgres_url)
    filled(store, [row("a")])
    with opened(postgres_url) as found:
        for _ in range(3):
            assert asyncio.run(found.fetch('SELECT count(*) FROM "Counts"')) == [(1,)]  # type: ignore[arg-type]
    store.close()
