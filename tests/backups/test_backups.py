"""`belvedere backup` and `belvedere restore` of one epoch, with state and journal, on both databases and under load."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import httpx
import pytest

import belvedere
from belvedere import cli
from belvedere.backups import restore_backup, take_backup
from belvedere.engine.epoch import STATE
from belvedere.engine.store_folders import DOCUMENT, read_state
from belvedere.state.remote_files import Remote
from belvedere.store import open_reader, open_store
from belvedere.store.copies import snapshot
from belvedere.store.identity import IDENTITY, Identity
from tests.depth import at_night
from tests.run.in_process import running
from tests.run.processes import linux, run_once, status_of, wait_for
from tests.state.test_files import filled as filled_state
from tests.store.samples import COUNTS, epoch, filled, row

SCRIPT = """
CREATE STREAM Bids (item STRING, price DECIMAL(20, 4), at TIMESTAMP) KEEP 30 DAYS;
CREATE TABLE Items (item STRING, label STRING, PRIMARY KEY (item));
Labelled := SELECT b.item, i.label, b.price, b.at FROM Bids b JOIN Items i ON b.item = i.item;
Sums := SELECT label, sum(price) AS total, count(*) AS bids FROM Labelled GROUP BY label;
"""
LONG = "w" * 9000


def answer(*arguments: str | Path) -> tuple[int, str, str]:
    """A command in this process: its exit code, and what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.run(list(map(str, arguments)))
    return code, out.getvalue(), err.getvalue()


def answer_apart(*arguments: str | Path) -> tuple[int, str, str]:
    """The same in a process of its own, while this one has the store open."""
    command = [sys.executable, "-m", "belvedere.cli", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return result.returncode, result.stdout, result.stderr


def done(*arguments: str | Path, apart: bool = False) -> str:
    code, out, err = (answer_apart if apart else answer)(*arguments)
    assert (code, err) == (0, ""), err
    return out


def refused(*arguments: str | Path) -> str:
    """The code with which a command ends."""
    code, out, err = answer(*arguments)
    assert code == 1, out
    assert "Traceback" not in err
    return err.partition("[")[2].partition("]")[0]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "bids.sqrl"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes the URLs of stores that are not there yet."""
    if request.param == "postgres":
        return request.getfixturevalue("new_database")  # type: ignore[no-any-return]
    numbers: Iterator[int] = iter(range(100))
    return lambda: f"sqlite:///{tmp_path}/störe {next(numbers)}.db"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_restored_store_is_that_of_the_epoch_and_goes_on(
    script: Path, tmp_path: Path, urls: Callable[[], str]
) -> None:
    first, second = urls(), urls()
    bid = {"item": "Łódź 🦀", "price": "1.2500", "at": "2024-01-01 00:00:00"}
    with closing(belvedere.Workbench(SCRIPT, store=first)) as wb:
        wb.insert("Items", [{"item": "Łódź 🦀", "label": LONG}, {"item": "a\tb\\N\n", "label": None}])
        wb.insert(
            "Bids", [bid, {"item": "a\tb\\N\n", "price": None, "at": None}, {"item": "none", "price": "2", "at": None}]
        )
        wb.step()
        before = {v: wb.rows(v) for v in ("Bids", "Labelled", "Sums")}
        said = json.loads(done("backup", script, tmp_path / "backup", "--store", first, "--json", apart=True))
        assert said["epoch"] == 1
        wb.insert("Bids", [bid])
        wb.step()
        assert wb.rows("Sums") != before["Sums"]
        wb.clock("2030-01-01 00:00:00")
    restore_backup(
        tmp_path / "backup", second, tmp_path / "none.intake", None
    )  # to where a Workbench looks for the state
    with closing(belvedere.Workbench(SCRIPT, store=second)) as wb:
        assert {v: wb.rows(v) for v in before} == before
        wb.insert("Bids", [bid])
        wb.insert("Items", [{"item": "none", "label": "late"}])
        wb.step()
        with closing(wb.store.reader()) as reader:  # what other tools read is there again
            shown = "views_Sums" if second.startswith("sqlite") else 'views."Sums"'
            assert sorted(reader.execute(f"SELECT bids FROM {shown}")) == [(1,), (1,), (2,)]
        sums = {r["label"]: (r["bids"], r["total"]) for r in wb.rows("Sums")}
        assert {k: n for k, (n, _) in sums.items()} == {LONG: 2, None: 1, "late": 1}
    assert refused("restore", script, tmp_path / "backup", "--store", second) == "B7101"


@pytest.fixture
def stored(tmp_path: Path, script: Path, urls: Callable[[], str]) -> str:
    """A store with an epoch, without state."""
    url = urls()
    with closing(open_store(url)) as store:
        filled(store, [row("a"), row("b", word=None)])
    return url


def test_what_is_no_backup_is_refused(stored: str, script: Path, tmp_path: Path, urls: Callable[[], str]) -> None:
    folder, target = tmp_path / "backup", urls()
    done("backup", script, folder, "--store", stored)
    assert refused("backup", script, folder, "--store", stored) == "B7104"
    assert refused("backup", script, script, "--store", stored) == "B7104"
    assert refused("restore", script, tmp_path, "--store", target) == "B7102"
    contents = json.loads((folder / "backup.json").read_text())
    for change, code in (({"dialect": "oracle"}, "B7103"), ({"format": "3"}, "B7103"), ({"version": 9}, "B7103")):
        (folder / "backup.json").write_text(json.dumps(contents | change))
        assert refused("restore", script, folder, "--store", target) == code
    (folder / "backup.json").write_text(json.dumps(contents))
    name = next(iter(contents["files"]))
    good = (folder / name).read_bytes()
    (folder / name).write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert refused("restore", script, folder, "--store", target) == "B7102"
    (folder / name).write_bytes(good)
    done("restore", script, folder, "--store", target)
    with closing(open_store(target)) as store:
        last = store.last_epoch()
        assert last is not None
        assert last.epoch == 1
        with closing(store.reader()) as reader:
            assert {r["word"] for r in reader.rows(store.tables()[0]).to_pylist()} >= {None}
        transaction = store.begin()
        transaction.commit(epoch(2))


def test_there_must_be_a_store_with_an_epoch(script: Path, tmp_path: Path, urls: Callable[[], str]) -> None:
    url = urls()
    assert refused("backup", script, tmp_path / "backup", "--store", url) in ("B7001", "B7014")
    open_store(url).close()
    assert refused("backup", script, tmp_path / "backup", "--store", url) == "B7063"


def test_a_snapshot_sees_one_epoch(stored: str, tmp_path: Path, urls: Callable[[], str]) -> None:
    """Epochs that are committed while it is copied are not in it; nobody waits for it."""
    from belvedere.store.copies import put_back

    program = (
        "import sys; from belvedere.store import open_store; from tests.store.samples import *\n"
        "s = open_store(sys.argv[1]); t = s.begin(); t.append('Counts', reader([row('later')])); t.commit(epoch(2)); "
        "s.close()"
    )
    with closing(snapshot(stored)) as taken:
        subprocess.run([sys.executable, "-c", program, stored], check=True)
        taken.write(tmp_path)
    target = urls()
    put_back(target, tmp_path, {})
    with closing(open_store(target)) as store:
        last = store.last_epoch()
        assert last is not None
        assert (last.epoch, store.size()["Counts"][0]) == (1, 2)


LOADED = """
IMPORT sensordata.SensorReading KEEP 1000 DAYS;
IMPORT sensordata.Sensors KEEP 1000 DAYS;
CREATE STREAM Notes (n BIGINT) KEEP 1000 DAYS;
Machines := SELECT s.machineid, count(*) AS readings, max(r.temperature) AS hottest
    FROM SensorReading r JOIN Sensors s ON r.sensorid = s.sensorid GROUP BY s.machineid;
Readings := SELECT count(*) AS readings FROM SensorReading;
Noted := SELECT count(*) AS notes, sum(n) AS total FROM Notes;
"""
ROWS = 6000
PROJECT = f"""
[sources.sensordata]
connector = "sensors"
rows_per_second = 300
rows = {ROWS}
move_every = 0
start = "2024-03-01T06:00:00Z"

[spark]
trigger = "50 ms"

[run]
retain = "1 ms"
"""


class Push:
    """Pushes notes 1, 2, 3 ... as long as it is asked to."""

    def __init__(self, url: str):
        self.url, self.last = url, 0

    def one(self) -> None:
        answer = httpx.post(f"{self.url}/streams/Notes", json={"n": self.last + 1}, timeout=60, trust_env=False)
        assert answer.status_code == 200, answer.text
        self.last += 1


@pytest.mark.spark
@linux
@pytest.mark.parametrize(
    ("how", "kind", "goes_on"),
    [("here", "sqlite", False), *at_night([("apart", "sqlite", True), ("apart", "postgres", True)])],
)
def test_backups_of_a_run_at_work(
    spark: Any, how: str, kind: str, goes_on: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Backups of a run that reads, merges and is pushed to: each is one epoch, and the last one goes on to the same
    end."""
    make = request.getfixturevalue("new_database") if kind == "postgres" else None
    project = tmp_path / "at work"
    project.mkdir()
    store = make() if make else f"sqlite:///{project}/loaded.db"
    script = project / "loaded.sqrl"
    script.write_text(LOADED)
    (project / "belvedere.toml").write_text(f"store = {json.dumps(store)}\n{PROJECT}")
    with running(how, spark, script) as run:
        wait_for(lambda: status_of(f"{run.url}/readyz") == 200, "no epoch was committed")
        push, pushed = Push(run.url), []
        for number in range(3):
            for _ in range(5):
                push.one()
            backup = ("backup", script, tmp_path / f"backup {number}", "--json")
            said = json.loads(done(*backup, apart=how == "here"))  # the run has the store open
            assert any(name.startswith("state/") for name in said["files"])
            pushed.append(push.last)
        assert run.stop() == 0
    for number in range(3):
        copy, target = restored(script, tmp_path / f"backup {number}", make() if make else None)
        with closing(open_reader(target)) as reader, closing(read_state(reader, target)) as state:
            state.check()
        readings = one_epoch(target)
    assert readings > 0
    if goes_on:
        run_once(copy)
        assert_finished(target, pushed[-1], push.last)


def restored(script: Path, backup: Path, url: str | None) -> tuple[Path, str]:
    """A project of its own with the store that was restored."""
    folder = backup.with_name(f"from {backup.name}")
    folder.mkdir()
    copy = Path(shutil.copy(script, folder))
    (folder / "belvedere.toml").write_text(f"store = {json.dumps(url or 'sqlite:///again.db')}\n{PROJECT}")
    done("restore", copy, backup)
    return copy, url or f"sqlite:///{folder}/again.db"


def views(url: str) -> dict[str, list[dict[str, Any]]]:
    with closing(open_store(url)) as store, closing(store.reader()) as reader:
        return {t.name: reader.rows(t).to_pylist() for t in store.tables()}


def one_epoch(url: str) -> int:
    """The number of readings, on which all views agree."""
    found = views(url)
    count = len(found["SensorReading"])
    assert [r["readings"] for r in found["Readings"]] == [count]
    assert sum(r["readings"] for r in found["Machines"]) == count
    return count


def assert_finished(url: str, least: int, most: int) -> None:
    found = views(url)
    assert [r["readings"] for r in found["Readings"]] == [ROWS]
    assert sum(r["readings"] for r in found["Machines"]) == ROWS
    (noted,) = found["Noted"]
    assert least <= noted["notes"] <= most
    assert noted["total"] == noted["notes"] * (noted["notes"] + 1) // 2


def test_a_backup_is_for_its_owner_alone(stored: str, script: Path, tmp_path: Path) -> None:
    done("backup", script, tmp_path / "new" / "backup", "--store", stored)
    assert os.stat(tmp_path / "new" / "backup").st_mode & 0o077 == 0


def with_state(url: str, folder: Path, remote: Remote | None = None) -> None:
    """A store with an epoch whose state is in the folder, or elsewhere."""
    at = filled_state(folder, remote=remote)
    document = {"id": folder.name, "folder": str(folder)} | ({"address": remote.address} if remote else {})
    with closing(open_store(url)) as store:
        store.set_documents(
            {DOCUMENT: json.dumps(document), IDENTITY: Identity(folder.name, folder.name, folder.name).text}
        )
        store.create([COUNTS])
        store.begin().commit(epoch(1, extra={STATE: at}))


@pytest.mark.parametrize("apart", [False, True], ids=["beside", "elsewhere"])
def test_state_is_copied_under_a_name_of_its_own(script: Path, tmp_path: Path, apart: bool) -> None:
    """In a store that was restored: its state may lie where that of the old store is, and neither sweeps the other's
    files."""
    first, second = f"sqlite:///{tmp_path}/first.db", f"sqlite:///{tmp_path}/second.db"
    address = f"file://{tmp_path}/bucket"
    with_state(first, tmp_path / "first.state" / "abc", Remote(address, "abc") if apart else None)
    take_backup(first, tmp_path / "no.intake", tmp_path / "backup")
    shutil.rmtree(tmp_path / "first.state")
    restore_backup(tmp_path / "backup", second, tmp_path / "no.intake", address if apart else None)
    with closing(open_reader(second)) as reader, closing(read_state(reader, second)) as state:
        assert state.sizes()["R"].rows == 299
        if apart:
            assert state.files.missing(state.manifest.files) is None
            assert len(list((tmp_path / "bucket").iterdir())) == 2
        else:
            state.check()


def test_state_that_is_missing_is_told(script: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/first.db"
    with_state(url, tmp_path / "first.state" / "abc")
    next(p for p in sorted((tmp_path / "first.state" / "abc").iterdir()) if p.stat().st_size > 2500).unlink()
    assert refused("backup", script, tmp_path / "backup", "--store", url) == "B7061"
