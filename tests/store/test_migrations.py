"""Stores of earlier formats: each is brought to the present one, whole or not at all, and nobody else touches it."""

from __future__ import annotations

import json
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
from belvedere.connectors.run_records import RECORDS, REJECTED, RejectedRow, record_rejected
from belvedere.errors import BelvedereError
from belvedere.store import file_of, migrate_store, migrations, open_reader, open_store
from belvedere.store.dialects import dialect_of
from belvedere.store.migrations import MIGRATIONS, Migration, format_6
from belvedere.store.system import FORMAT
from belvedere.terminal.logs import LogFormat
from tests.store.samples import COUNTS, NUMBERED, code, epoch, numbered, reader, stored

FIXTURES = Path(__file__).parents[1] / "fixtures" / "stores"
FORMATS = range(MIGRATIONS[0].format - 1, int(FORMAT))


def load(url: str, format_: int) -> None:
    """Make the store of an earlier version that the tests keep."""
    kind = "postgres" if file_of(url) is None else "sqlite"
    execute(url, (FIXTURES / f"format-{format_}.{kind}.sql").read_text(encoding="utf-8"))


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
    tables = ("_belvedere_document", "_belvedere_epoch", "_belvedere_table", "_belvedere_lease", '"Counts"', '"Numbered"')
    return [sorted(map(repr, ask(url, f"SELECT * FROM {table}"))) for table in tables]


def format_of(url: str) -> str:
    return str(ask(url, "SELECT content FROM _belvedere_document WHERE name = '_format'")[0][0])


def test_the_steps_lead_to_the_present_format() -> None:
    formats = [m.format for m in MIGRATIONS]
    assert formats == list(range(formats[0], int(FORMAT) + 1))


@pytest.mark.parametrize("format_", FORMATS)
def test_a_store_of_an_earlier_format_goes_on(url: str, format_: int) -> None:
    load(url, format_)
    assert [m.format for m in migrate_store(url)] == list(range(format_ + 1, int(FORMAT) + 1))
    assert migrate_store(url) == ()
    store = open_store(url)
    assert store.tables() == (COUNTS, NUMBERED)
    assert (store.document("note"), store.document("_written_by")) == ("Łódź", version("belvedere"))
    last = store.last_epoch()
    assert last is not None
    assert (last.epoch, last.offsets, last.extra) == (2, {"shop": 3}, {"next_uid": 4})
    store.create([COUNTS, NUMBERED])  # the same: no row goes
    transaction = store.begin()
    transaction.append("Numbered", reader([numbered("8", word="new")], NUMBERED))
    assert {k: (r["word"], repr(r["share"])) for k, r in stored(transaction).items()} == {
        "k1": ("Łódź", "nan"),
        "k2": (None, "None"),
    }
    transaction.commit(epoch(3))
    store.close()
    with closing(open_reader(url)) as read:
        assert read.execute('SELECT count(*) FROM "Numbered"') == [(2,)]


@pytest.mark.parametrize("format_", FORMATS)
def test_it_has_what_a_store_of_this_version_has(url: str, format_: int) -> None:
    """The definitions of the tables, not only what readers make of them."""
    load(url, format_)
    migrate_store(url)
    (text,) = ask(url, "SELECT definition FROM _belvedere_table WHERE name = 'Counts'")[0]
    definition = json.loads(text)
    assert (definition["order"], definition["query"]) == ([], "")
    assert format_of(url) == FORMAT


def test_rejected_rows_get_their_documented_name(url: str) -> None:
    """A store of format 5 with the tables that runs make: no step loses a row of them."""
    store = open_store(url)
    store.create(RECORDS)
    transaction = store.begin()
    transaction.append(REJECTED.name, record_rejected([RejectedRow("T", "a.csv", 2, "x,y", "no int")], 1).to_reader())
    transaction.commit(epoch(1))
    store.close()
    for old, name in format_6.NAMES.items():
        execute(
            url, f"ALTER TABLE {name} RENAME TO \"{old}\"; UPDATE _belvedere_table SET name = '{old}' WHERE name = '{name}'"
        )
    execute(url, "UPDATE _belvedere_document SET content = '5' WHERE name = '_format'")
    assert [m.format for m in migrate_store(url)] == [6, 7]
    assert ask(url, 'SELECT "table", line, text, reason FROM _belvedere_rejected') == [("T", 2, "x,y", "no int")]
    assert ask(url, "SELECT count(*) FROM _belvedere_files") == [(0,)]
    store = open_store(url)
    assert set(store.tables()) == set(RECORDS)
    store.create(RECORDS)
    transaction = store.begin()
    assert transaction.count(REJECTED.name) == 1
    transaction.rollback()
    store.close()


def test_a_step_that_fails_undoes_those_before(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load(url, FORMATS[0])
    before = dump(url)

    def fail_late(session: Any) -> None:
        session.execute("DELETE FROM _belvedere_epoch")
        raise RuntimeError("power cut")

    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, Migration(int(FORMAT) + 1, "fails", fail_late)))
    with pytest.raises(RuntimeError, match="power cut"):
        migrate_store(url)
    assert dump(url) == before
    monkeypatch.undo()
    assert len(migrate_store(url)) == len(MIGRATIONS)


PAUSING = f"""
import sys, time
from belvedere.store import migrate_store, migrations
def pause(session):
    session.execute("DELETE FROM _belvedere_epoch")
    print("under way", flush=True)
    time.sleep(60)
migrations.MIGRATIONS = (*migrations.MIGRATIONS, migrations.Migration({int(FORMAT) + 1}, "pauses", pause))
migrate_store(sys.argv[1])
"""


def test_a_kill_in_the_middle_undoes_it(url: str) -> None:
    load(url, FORMATS[0])
    before = dump(url)
    with subprocess.Popen([sys.executable, "-c", PAUSING, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "under way\n"
        process.kill()
    assert len(migrate_store(url)) == len(MIGRATIONS)  # waits until the database has noticed
    definitions, migrated = 2, dump(url)
    assert [t for i, t in enumerate(migrated) if i not in (0, definitions)] == [
        t for i, t in enumerate(before) if i not in (0, definitions)
    ]


def test_a_runner_of_the_earlier_version_goes_first(url: str) -> None:
    load(url, FORMATS[0])
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
    load(url, FORMATS[0])
    before = dump(url)
    for opening in (open_store, open_reader):
        with pytest.raises(BelvedereError) as caught:
            opening(url)
        assert code(caught.value) == "B7027"
        assert "`belvedere run` brings it up to date" in (caught.value.diagnostics[0].hint or "")
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


@pytest.mark.parametrize("format_", ["3", "1"])
def test_a_store_from_which_no_way_leads_here(url: str, format_: str) -> None:
    store = open_store(url)
    store.set_document("_format", format_)
    store.close()
    with pytest.raises(BelvedereError) as caught:
        migrate_store(url)
    assert code(caught.value) == "B7016"
    assert "name a new store" in (caught.value.diagnostics[0].hint or "")


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
    load(url, FORMATS[0])
    arguments = {"query": ["SELECT 1 AS a", "--store", url], "backup": [str(script), str(tmp_path / "away")]}
    assert cli.run([*command.split(), *arguments.get(command, [str(script)])]) == 1
    out, err = capsys.readouterr()
    assert "B7027" in out + err
    assert format_of(url) == str(FORMATS[0])


def test_check_needs_no_store_of_this_version(tmp_path: Path) -> None:
    script = tmp_path / "a.sqrl"
    script.write_text("CREATE TABLE T (k INT PRIMARY KEY);\nV := SELECT k FROM T;\n")
    load(f"sqlite:///{tmp_path}/a.db", FORMATS[0])
    assert cli.run(["check", str(script)]) == 0


@pytest.mark.parametrize("log", LogFormat)
def test_a_start_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str], log: LogFormat) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    load(url, FORMATS[0])
    bring_up_to_date(url, log)
    told = capsys.readouterr().err
    assert f"the store was brought to format {FORMAT}: definitions of tables are complete" in told
    assert (told[0] == "{") == (log is LogFormat.JSON)
    bring_up_to_date(url, log)
    assert capsys.readouterr().err == ""
