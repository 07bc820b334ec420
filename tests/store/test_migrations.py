"""Stores of earlier formats: each is brought to the present one, whole or not at all, and nobody else touches it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from belvedere import cli
from belvedere.commands.run import bring_up_to_date
from belvedere.errors import BelvedereError
from belvedere.store import file_of, migrate_store, migrations, open_reader, open_store
from belvedere.store.dialects import dialect_of
from belvedere.store.migrations import MIGRATIONS, Migration
from belvedere.store.system import FORMAT
from belvedere.terminal.logs import LogFormat
from tests.store.make_format import fill
from tests.store.samples import COUNTS, NUMBERED, code, epoch, numbered, reader, stored

EARLIER = str(int(FORMAT) - 1)


def take_step(session: Any) -> None:
    """What the made-up step does."""
    session.execute("INSERT INTO _belvedere_document VALUES ('step', 'taken')")


STEP = Migration(int(FORMAT), "the made-up step is taken", take_step)


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the present format had one before it."""
    monkeypatch.setattr(migrations, "MIGRATIONS", (STEP,))


def load(url: str) -> None:
    """Make the store of an earlier version."""
    fill(url)
    execute(url, f"UPDATE _belvedere_document SET content = '{EARLIER}' WHERE name = '_format'")


def execute(url: str, sql: str) -> None:
    """Run statements on a store, whatever its format."""
    file = file_of(url)
    if file is None:
        import psycopg

        with psycopg.connect(url) as connection:
            connection.execute(sql.encode())
    else:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(sql)


def ask(url: str, sql: str) -> list[tuple[Any, ...]]:
    """What a SELECT over the store says, whatever its format."""
    file = file_of(url)
    if file is None:
        import psycopg

        with psycopg.connect(url) as connection:
            return connection.execute(sql.encode()).fetchall()
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(sql).fetchall()


def dump(url: str) -> list[list[str]]:
    tables = (
        "_belvedere_document",
        "_belvedere_epoch",
        "_belvedere_table",
        "_belvedere_lease",
        '"Counts"',
        '"Numbered"',
    )
    return [sorted(map(repr, ask(url, f"SELECT * FROM {table}"))) for table in tables]


def format_of(url: str) -> str:
    return str(ask(url, "SELECT content FROM _belvedere_document WHERE name = '_format'")[0][0])


def test_the_steps_lead_to_the_present_format() -> None:
    formats = [m.format for m in MIGRATIONS]
    assert formats == list(range(int(FORMAT) + 1 - len(formats), int(FORMAT) + 1))


def test_a_store_of_an_earlier_format_goes_on(url: str) -> None:
    load(url)
    assert [m.format for m in migrate_store(url)] == [int(FORMAT)]
    assert migrate_store(url) == ()
    assert ask(url, "SELECT content FROM _belvedere_document WHERE name = 'step'") == [("taken",)]
    store = open_store(url)
    assert store.tables() == (COUNTS, NUMBERED)
    assert (store.document("note"), store.document("_written_by")) == ("Łódź", version("belvedere"))
    last = store.last_epoch()
    assert last is not None
    assert (last.epoch, last.offsets, last.extra) == (2, {"shop": 3}, {"next_uid": 4})
    transaction = store.begin()
    transaction.append("Numbered", reader([numbered("8", word="new")], NUMBERED))
    assert {k: r["word"] for k, r in stored(transaction).items()} == {"k1": "Łódź", "k2": None}
    transaction.commit(epoch(3))
    store.close()
    assert format_of(url) == FORMAT


def test_a_step_that_fails_undoes_those_before(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load(url)
    before = dump(url)

    def fail_late(session: Any) -> None:
        session.execute("DELETE FROM _belvedere_epoch")
        raise RuntimeError("power cut")

    monkeypatch.setattr(migrations, "MIGRATIONS", (STEP, Migration(int(FORMAT) + 1, "fails", fail_late)))
    with pytest.raises(RuntimeError, match="power cut"):
        migrate_store(url)
    assert dump(url) == before
    monkeypatch.setattr(migrations, "MIGRATIONS", (STEP,))
    assert migrate_store(url) == (STEP,)


PAUSING = f"""
import sys, time
from belvedere.store import migrate_store, migrations
def pause(session):
    session.execute("DELETE FROM _belvedere_epoch")
    print("under way", flush=True)
    time.sleep(60)
migrations.MIGRATIONS = (migrations.Migration({int(FORMAT)}, "pauses", pause),)
migrate_store(sys.argv[1])
"""


def test_a_kill_in_the_middle_undoes_it(url: str) -> None:
    load(url)
    before = dump(url)
    with subprocess.Popen([sys.executable, "-c", PAUSING, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "under way\n"
        process.kill()
    assert migrate_store(url) == (STEP,)  # waits until the database has noticed
    definitions, migrated = 2, dump(url)
    assert [t for i, t in enumerate(migrated) if i not in (0, definitions)] == [
        t for i, t in enumerate(before) if i not in (0, definitions)
    ]


def test_a_runner_of_the_earlier_version_goes_first(url: str) -> None:
    load(url)
    file = file_of(url)
    with closing(dialect_of(url).session("sqlite://" if file else url)) as holder:
        execute(url, f"INSERT INTO _belvedere_lease VALUES (1, 'the old runner', {2**52}, '{holder.process()}')")
        before = dump(url)
        with pytest.raises(BelvedereError) as caught:
            migrate_store(url)
        assert code(caught.value) == "B7006"
        assert "the old runner" in str(caught.value)
        assert dump(url) == before


def test_nobody_else_reads_or_writes_it(url: str) -> None:
    load(url)
    before = dump(url)
    for opening in (open_store, open_reader):
        with pytest.raises(BelvedereError) as caught:
            opening(url)
        assert code(caught.value) == "B7027"
        assert "`belvedere run` upgrades it" in (caught.value.diagnostics[0].hint or "")
    assert dump(url) == before


def test_a_store_of_a_newer_version_says_which(url: str) -> None:
    store = open_store(url)
    store.set_document("_format", "999")
    store.set_document("_written_by", "7.1.0")
    store.close()
    for opening in (open_store, open_reader, migrate_store):
        with pytest.raises(BelvedereError) as caught:
            opening(url)
        assert code(caught.value) == "B7016"
        (found,) = caught.value.diagnostics
        assert "made by a newer Belvedere (7.1.0): it has format 999" in found.message
        assert "install Belvedere 7.1.0 or later" in (found.hint or "")


@pytest.mark.parametrize("format_", ["5", "1"])
def test_a_store_from_which_no_way_leads_here(url: str, format_: str) -> None:
    store = open_store(url)
    store.set_document("_format", format_)
    store.close()
    with pytest.raises(BelvedereError) as caught:
        migrate_store(url)
    assert code(caught.value) == "B7016"
    assert "choose a new" in (caught.value.diagnostics[0].hint or "")


def test_there_is_nothing_to_do(url: str) -> None:
    """Where no store is, none is made; one of this version stays as it is."""
    assert migrate_store(url) == ()
    file = file_of(url)
    assert file is None or not file.exists()
    open_store(url).close()
    assert migrate_store(url) == ()


@pytest.mark.parametrize("command", ["plan", "serve", "schema", "rejected list", "query", "backup"])
def test_commands_that_only_read_refuse_it(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, url = tmp_path / "a.sqrl", f"sqlite:///{tmp_path}/a.db"
    script.write_text("CREATE TABLE T (k INT PRIMARY KEY);\nV := SELECT k FROM T;\n")
    load(url)
    arguments = {"query": ["SELECT 1 AS a", "--store", url], "backup": [str(script), str(tmp_path / "away")]}
    assert cli.run([*command.split(), *arguments.get(command, [str(script)])]) == 1
    out, err = capsys.readouterr()
    assert "B7027" in out + err
    assert format_of(url) == EARLIER


def test_check_needs_no_store_of_this_version(tmp_path: Path) -> None:
    script = tmp_path / "a.sqrl"
    script.write_text("CREATE TABLE T (k INT PRIMARY KEY);\nV := SELECT k FROM T;\n")
    load(f"sqlite:///{tmp_path}/a.db")
    assert cli.run(["check", str(script)]) == 0


@pytest.mark.parametrize("log", LogFormat)
def test_a_start_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str], log: LogFormat) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    load(url)
    bring_up_to_date(url, log)
    reported = capsys.readouterr().err
    assert f"the store was upgraded to format {FORMAT}: the made-up step is taken" in reported
    assert (reported[0] == "{") == (log is LogFormat.JSON)
    bring_up_to_date(url, log)
    assert capsys.readouterr().err == ""
