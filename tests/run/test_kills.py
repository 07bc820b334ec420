"""kill -9 of `belvedere run` at random times, while files arrive and clients push: every row and epoch once.

The script is that of examples/flights with a stream that clients push to. Its views at the end are DuckDB's answers
over all files; of what was pushed, each answered row is there once.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import threading
import time
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.depth import at_night
from tests.examples.example_answers import EXAMPLES, answers, differences, duckdb_over, duckdb_queries, load_prepare
from tests.run.in_process import run_once_here
from tests.run.processes import drain, first_line, kill, linux, run_once, start_run, wait_for

pytestmark = [pytest.mark.spark, linux]

PUSHED = """
CREATE STREAM Events (client STRING, n BIGINT) KEEP 30 DAYS;
Pushed := SELECT client, count(*) AS events, sum(n) AS total FROM Events GROUP BY client;
"""
START = date(2013, 2, 7)


class Client(threading.Thread):
    """Pushes rows 1, 2, 3 ... to whatever run there is. With keys it tries each again until it is answered."""

    def __init__(self, name: str, keys: bool):
        super().__init__(daemon=True)
        self.client, self.keys = name, keys
        self.url: str | None = None
        self.stopped = False
        self.sent = 0
        self.answered: set[int] = set()
        self.wrong: list[str] = []
        self.http = httpx.Client(timeout=40, trust_env=False, verify=False)

    def run(self) -> None:
        while not self.stopped:
            url = self.url
            if url is None:
                time.sleep(0.01)
                continue
            if not self.keys or self.sent in self.answered or not self.sent:
                self.sent += 1
            self._push(url, self.sent)
            time.sleep(0.05)  # the machine is for the run

    def _push(self, url: str, number: int) -> None:
        parameters = {"id": f"{self.client}-{number}"} if self.keys else {}
        row = {"client": self.client, "n": number}
        try:
            answer = self.http.post(f"{url}/streams/Events", params=parameters, json=row)
        except httpx.HTTPError:
            return
        if answer.status_code == 200:
            self.answered.add(number)
        elif answer.status_code != 503:
            self.wrong.append(answer.text)


class Flights:
    """A folder with the example and its files, which arrive day by day."""

    def __init__(self, folder: Path, days: int, pause: float, store: str | None = None):
        self.folder = folder
        self.store = store or f"sqlite:///{folder / 'flights.db'}"
        text = (EXAMPLES / "flights" / "flights.sqrl").read_text() + PUSHED
        self.script = folder / "flights.sqrl"
        self.script.write_text(text)
        project = (EXAMPLES / "flights" / "belvedere.toml").read_text()
        (folder / "belvedere.toml").write_text(
            f'store = "{self.store}"\n' + project + 'max_files = 4\n\n[spark]\ntrigger = "50 ms"\nmemory = "1g"\n'
        )
        self.prepare = load_prepare("flights")
        until = START + timedelta(days=days)
        self.prepare.write(folder / "all", since=START, until=until)
        self.data = folder / "data" / "nyc"
        files = sorted((folder / "all").glob("*/*.jsonl"), key=lambda p: (p.parent.name in self.prepare.DATED, p.name))
        for path in files:
            (self.data / path.parent.name).mkdir(parents=True, exist_ok=True)
        self.first = [p for p in files if p.parent.name not in self.prepare.DATED] + [
            next(p for p in files if p.parent.name == name) for name in self.prepare.DATED
        ]
        for path in self.first:  # columns are told from files
            self._put(path)
        self.feeder = threading.Thread(
            target=self._feed, args=([p for p in files if p not in self.first], pause), daemon=True
        )

    def _put(self, path: Path) -> None:
        shutil.move(path, self.data / path.parent.name / path.name)

    def _feed(self, files: list[Path], pause: float) -> None:
        for path in files:
            time.sleep(pause)
            self._put(path)

    def stored(self) -> tuple[dict[str, list[dict[str, Any]]], list[int]]:
        """All tables of the store by name, and its epochs; what the operators' state has of them too is the same
        there."""
        from belvedere.engine.store_folders import read_state
        from belvedere.store import open_store

        store = open_store(self.store)
        reader = store.reader()
        state = read_state(reader, self.store)
        try:
            state.check()
            tables, compared = {}, 0
            for table in store.tables():
                shown = [c.name for c in table.schema.columns if not c.hidden or c.name == "_uid"]
                tables[table.name] = reader.rows(table).select(shown).to_pylist()
                arranged = state.stored(table.name)
                if arranged is not None:
                    rows = pa.Table.from_batches(arranged.look_up(None, None), arranged.arranged.schema)
                    both = [n for n in shown if n in rows.schema.names]
                    assert differences(rows.select(both).to_pylist(), reader.rows(table).select(both).to_pylist()) == []
                    compared += 1
            assert compared
            epochs = [int(r[0]) for r in reader.execute('SELECT epoch FROM "_belvedere_epoch" ORDER BY epoch')]
            return tables, epochs
        finally:
            state.close()
            reader.close()
            store.close()


def check_flights(flights: Flights, tables: dict[str, list[dict[str, Any]]]) -> None:
    """Each view is what DuckDB says of all files; each row of a file came once."""
    queries = {n: f"SELECT * FROM read_json_auto('{flights.data}/{n}/*.jsonl')" for n in flights.prepare.TABLES}
    database = duckdb_over(queries)
    for view, query in duckdb_queries("flights").items():
        ours = [{k: v for k, v in row.items() if k != "_uid"} for row in tables[view]]
        assert differences(ours, answers(database, query)) == [], view
    uids = [r["_uid"] for r in tables["Flights"]]
    written = sum(len(p.read_text().splitlines()) for p in (flights.data / "Flights").glob("*.jsonl"))
    assert len(uids) == len(set(uids)) == written


def check_pushes(clients: list[Client], tables: dict[str, list[dict[str, Any]]]) -> None:
    """Answered rows are there once; others once or not at all, and with a key once as well."""
    stored = Counter((r["client"], r["n"]) for r in tables["Events"])
    assert not stored or set(stored.values()) == {1}
    for client in clients:
        found = {n for name, n in stored if name == client.client}
        assert client.wrong == []
        assert client.answered <= found <= set(range(1, client.sent + 1))
        assert client.answered, client.client
        (view,) = [r for r in tables["Pushed"] if r["client"] == client.client]
        assert (view["events"], view["total"]) == (len(found), sum(found))


def kill_at_random_moments(
    folder: Path, kills: int, days: int, seed: int, store: str | None = None, spark: Any = None
) -> None:
    """Feed and push all the time; kill the run `kills` times; then let it finish, in this process where there is a
    `spark`."""
    dice = random.Random(seed)
    flights = Flights(folder, days, pause=0.5, store=store)
    flights.feeder.start()
    clients = [Client("sure", keys=True), Client("once", keys=False)]
    for client in clients:
        client.start()
    for number in range(kills):
        process = start_run(flights.script)
        try:
            url = first_line(process)
            lines = drain(process)
            for client in clients:
                client.url = url
            if number % 5 != 4:  # the others while it starts
                requested = dice.randint(1, 2)
                wait_for(lambda: epochs_of(lines) >= requested or process.poll() is not None, "no epoch came", 300)  # noqa: B023
            time.sleep(dice.random() * 3)
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            kill(process, url)
        finally:
            _end(process)
    for client in clients:
        client.stopped = True
        client.join(60)
    flights.feeder.join(300)
    assert not flights.feeder.is_alive()
    project = folder / "belvedere.toml"
    project.write_text(project.read_text().replace("max_files = 4", "max_files = 1000"))  # or the rest takes its time
    if spark is None:
        run_once(flights.script)
    else:
        run_once_here(spark, flights.script)
    tables, epochs = flights.stored()
    assert epochs == list(range(1, len(epochs) + 1)) or epochs == list(range(epochs[0], epochs[-1] + 1))
    check_flights(flights, tables)
    check_pushes(clients, tables)
    print(
        json.dumps(
            {"kills": kills, "epochs": epochs[-1], "pushed": len(tables["Events"]), "flights": len(tables["Flights"])}
        )
    )


def epochs_of(lines: list[str]) -> int:
    return sum(" epoch " in line for line in lines)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def test_kill_9_neither_loses_nor_repeats(spark: Any, tmp_path: Path) -> None:
    kill_at_random_moments(tmp_path, kills=1, days=3, seed=2, spark=spark)


QUARANTINE = """
CREATE TABLE Rates (k BIGINT NOT NULL, a BIGINT, PRIMARY KEY (k));
Ratio := SELECT k, 100 / a AS r FROM Rates WITH HISTORY;
Most := SELECT k % 3 AS g, max(r) AS most, count(*) AS n FROM Ratio GROUP BY g;
Sums := SELECT k % 3 AS g, sum(a) AS total FROM Rates GROUP BY g;
"""


@pytest.mark.parametrize("where", at_night(["sqlite", "postgres"]))
def test_kill_9_of_a_run_with_a_view_in_quarantine(tmp_path: Path, where: str, request: pytest.FixtureRequest) -> None:
    """A row that fails, a kill, other rows, a kill, the row replaced, a kill: nothing is lost, and the view is well at
    the end."""
    script = tmp_path / "rates.sqrl"
    script.write_text(QUARANTINE)
    store = request.getfixturevalue("postgres_url") if where == "postgres" else f"sqlite:///{tmp_path / 'rates.db'}"
    project = f'store = "{store}"\non_error = "quarantine"\n\n[spark]\ntrigger = "50 ms"\nmemory = "1g"\n'
    (tmp_path / "belvedere.toml").write_text(project)
    rows: dict[int, int] = {}
    for pushed, held in (({1: 5, 2: 0}, True), ({3: 4, 4: 10}, True), ({2: 20, 5: 1}, False)):
        rows |= pushed
        push_and_kill(script, pushed, rows, held)
    run_once(script)
    answer = stored_rows(store, "Ratio", "Most")
    assert sorted((r["k"], r["r"]) for r in answer["Ratio"]) == sorted((k, 100 / a) for k, a in rows.items())
    expected: dict[int, list[float]] = {}
    for k, a in rows.items():
        expected.setdefault(k % 3, []).append(100 / a)
    assert {r["g"]: (r["most"], r["n"]) for r in answer["Most"]} == {g: (max(v), len(v)) for g, v in expected.items()}


def push_and_kill(script: Path, pushed: dict[int, int], rows: dict[int, int], held: bool) -> None:
    """Start a run, push rows, see that all `rows` are summed up and whether a view is in quarantine, and kill it."""
    process = start_run(script)
    try:
        url = first_line(process)
        lines = drain(process)
        body = [{"k": k, "a": a} for k, a in pushed.items()]
        with httpx.Client(base_url=url, timeout=40, trust_env=False) as http:
            wait_for(lambda: http.post("/streams/Rates", json=body).status_code == 200, "nobody takes rows")
            wait_for(lambda: _sums(http) == _expected_sums(rows), "no epoch with these rows", 300)
            said = http.post("/graphql", json={"query": "{ ratio { k r } }"}).json()
        assert ("quarantined" in said["extensions"]) == held, (said, lines)
        kill(process, url)
    finally:
        _end(process)


def _sums(http: httpx.Client) -> dict[int, int] | None:
    answer = http.post("/graphql", json={"query": "{ sums { g total } }"})
    return {r["g"]: r["total"] for r in answer.json()["data"]["sums"]} if answer.status_code == 200 else None


def _expected_sums(rows: dict[int, int]) -> dict[int, int]:
    return {g: sum(a for k, a in rows.items() if k % 3 == g) for g in {k % 3 for k in rows}}


def stored_rows(url: str, *tables: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of these tables of a store."""
    from belvedere.store import open_store

    store = open_store(url)
    reader = store.reader()
    try:
        return {t.name: reader.rows(t).to_pylist() for t in store.tables() if t.name in tables}
    finally:
        reader.close()
        store.close()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_kill_9_thirty_times(tmp_path: Path) -> None:
    kill_at_random_moments(tmp_path, kills=30, days=60, seed=int(time.time()))


@pytest.mark.nightly
@pytest.mark.postgres
@pytest.mark.timeout(3600)
def test_kill_9_thirty_times_over_postgres(tmp_path: Path, postgres_url: str) -> None:
    kill_at_random_moments(tmp_path, kills=30, days=60, seed=int(time.time()), store=postgres_url)
