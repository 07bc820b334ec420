"""`belvedere query --store`: one query, or several at the prompt. The database answers all of them, without Spark."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from belvedere.cli import run
from belvedere.compiler import compile_script
from belvedere.editor.known_relations import Known
from belvedere.engine.errors.failed_stages import Failed, failures_document
from belvedere.errors import fail
from belvedere.terminal.completion import Words
from belvedere.terminal.prompt import WordCompleter, history_file, prompt_session, typed
from belvedere.terminal.shell import Shell
from belvedere.terminal.statements import is_whole, piped, statements_in
from belvedere.terminal.store_prompt import open_store_tables
from tests.commands.stored import CLOCK, change_columns, make_store

SCRIPT = """
CREATE TABLE Cities (id INT, name STRING, country STRING, area DECIMAL(12, 2), PRIMARY KEY (id));
/** Who lives where. */
CREATE TABLE People (id INT, city INT, `full name` STRING, born TIMESTAMP, height DOUBLE, big BIGINT, PRIMARY KEY (id));
CREATE STREAM Visits (person INT, at TIMESTAMP) KEEP INTERVAL '1' DAY;
Oldest := SELECT id, `full name`, born FROM People ORDER BY born, id;
_Tall := SELECT id, height FROM People WHERE height > 1.8;
_VisitsOf := SELECT person, count(*) AS n FROM Visits GROUP BY person;
Cities.people := JOIN People p ON p.city = _.id;
InCountry(country STRING, least DECIMAL(12, 2) = 0.5, most INT = 10) :=
SELECT name, area FROM Cities WHERE country = :country AND area >= :least ORDER BY area DESC, name LIMIT :most;
Born(since TIMESTAMP, taller DOUBLE = 1, big BIGINT = 0) :=
SELECT id FROM People WHERE born >= :since AND height > :taller AND big >= :big ORDER BY id;
Mine(owner STRING METADATA FROM 'auth.sub') := SELECT name FROM Cities WHERE country = :owner;
"""
ROWS = {
    "Cities": [
        {"id": 1, "name": "Ulm", "country": "DE", "area": Decimal("118.69")},
        {"id": 2, "name": "Łódź", "country": "PL", "area": Decimal("293.25")},
        {"id": 3, "name": "Bonn", "country": "DE", "area": Decimal("141.06")},
        {"id": 4, "name": None, "country": None, "area": None},
    ],
    "People": [
        {"id": n, "city": 1 + n % 2, "full name": f"n{n}", "height": 1.5 + n / 10, "big": -n} for n in range(6)
    ],
}  # fmt: skip
ROWS["_belvedere_rejected"] = [{"table": "Cities", "reason": "no number", "epoch": 1, "rejected_at": CLOCK}]
ROWS["Oldest"] = [{"id": n, "full name": f"n{n}"} for n in range(6)]
HELD = Failed("Cities", "m", "Cities", 3, 0, "B7040", "failed", good={"Cities": 2, "Oldest": None})


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/towns.db"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("belvedere.spark.jvm.quiet_session.quiet_session", no_spark)
    monkeypatch.setattr("belvedere.spark.jvm.quiet_session.batch_session", no_spark)
    path = tmp_path / "towns.sqrl"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def store(script: Path, tmp_path: Path) -> str:
    """The store beside the script, on SQLite."""
    found = f"sqlite:///{tmp_path}/towns.db"
    make_store(found, script, ROWS)
    return found


def no_spark(why: str = "") -> NoReturn:
    raise AssertionError(why)


def asked(capsys: Any, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(["query", *arguments])
    found = capsys.readouterr()
    return code, found.out, found.err


def rows_of(capsys: Any, *arguments: str) -> Any:
    code, out, err = asked(capsys, *arguments, "--json")
    assert (code, err) == (0, ""), err
    return json.loads(out)


def reported(store: str, text: str, script: Path | None = None, **options: Any) -> Any:
    """A session of the prompt that reads a text, and ended."""
    with open_store_tables(store, script) as tables:
        shell = Shell(tables, no_spark, timing=False, **options)
        shell.run(piped(io.StringIO(text)))
    return shell


# -- one query --------------------------------------------------------------------------------------------------------


def test_the_database_answers(script: Path, url: str, capsys: Any) -> None:
    make_store(url, script, ROWS)
    over = ("--store", url)
    assert rows_of(capsys, "SELECT name FROM Cities WHERE area > 120 ORDER BY name DESC", *over) == [
        {"name": "Łódź"},
        {"name": "Bonn"},
    ]
    assert rows_of(capsys, "SELECT country, count(*) AS n FROM Cities GROUP BY country ORDER BY country NULLS LAST;",
                   *over) == [
        {"country": "DE", "n": 2}, {"country": "PL", "n": 1}, {"country": None, "n": 1},
    ]  # fmt: skip
    assert rows_of(capsys, "SELECT id FROM Oldest WHERE id > 3", *over) == [{"id": 4}, {"id": 5}]
    assert rows_of(capsys, "SELECT id FROM People WHERE id > 9", *over) == []
    assert rows_of(capsys, "SELECT reason FROM _belvedere_rejected", *over) == [{"reason": "no number"}]
    assert rows_of(capsys, "SELECT now() AS t", *over) == [{"t": "2024-02-29T12:00:00Z"}], "the clock of the epoch"


def test_relationships_templates_and_private_views_of_the_script(script: Path, url: str, capsys: Any) -> None:
    make_store(url, script, ROWS)
    over = ("--store", url, "--script", str(script))
    query = "SELECT c.name, p.id FROM Cities c JOIN c.people p WHERE p.id < 3 ORDER BY p.id"
    assert [r["name"] for r in rows_of(capsys, query, *over)] == ["Ulm", "Łódź", "Ulm"]
    assert rows_of(capsys, "SELECT id FROM _Tall ORDER BY id", *over) == [{"id": 4}, {"id": 5}]
    assert [r["name"] for r in rows_of(capsys, "InCountry('DE')", *over)] == ["Bonn", "Ulm"]
    assert [r["name"] for r in rows_of(capsys, "incountry('DE', 130.5);", *over)] == ["Bonn"]
    assert [r["name"] for r in rows_of(capsys, "InCountry(most => 1, country => 'DE')", *over)] == ["Bonn"]
    assert rows_of(capsys, "InCountry('DE', -1, 0)", *over) == []
    assert rows_of(capsys, "Born('2020-01-01', 1.5, -7)", *over) == []


def test_without_a_url_it_is_the_store_of_the_script(script: Path, store: str, capsys: Any) -> None:
    assert rows_of(capsys, "SELECT count(*) AS n FROM People", "--script", str(script)) == [{"n": 6}]


def test_what_is_in_quarantine_is_told(script: Path, url: str, capsys: Any) -> None:
    make_store(url, script, ROWS, failures_document([HELD]))
    code, out, err = asked(capsys, "SELECT count(*) AS n FROM Cities", "--store", url, "--json")
    assert (code, json.loads(out)) == (0, [{"n": 4}])
    assert err == "warning: `Cities` is in quarantine: its rows are those of epoch 2\n"
    assert (
        asked(capsys, "SELECT * FROM Oldest", "--store", url)[2]
        == "warning: `Oldest` is in quarantine: no epoch has filled it yet\n"
    )
    assert asked(capsys, "InCountry('DE')", "--store", url, "--script", str(script))[2].startswith("warning: `Cities`")
    assert asked(capsys, "SELECT * FROM People", "--store", url)[2] == ""


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("SELECT nope FROM Cities", "B2002", "<query>:1:8"),
        ("SELECT * FROM Citys", "B2001", "there is `Cities`"),
        ("SELECT * FROM _VisitsOf", "B8021", "query a public view"),
        ("X := SELECT 1", "B9120", "write definitions in a script"),
        ("Cities.all := JOIN Cities c ON c.id > 0; SELECT 1", "B9120", "write definitions in a script"),
        ("EXPORT Cities TO somewhere.Cities; SELECT 1", "B9120", "write definitions in a script"),
        ("/* nothing */", "B9120", "relations of the store"),
        ("SELECT 1; SELECT 2", "B9120", "2 queries"),
        ("SELECT id FROM Cities WHERE id = :p", "B9121", "write its value"),
        ("Mine()", "B9121", "`owner`"),
        ("InCountry()", "B9126", "needs a value of `country`"),
        ("InCountry(DE)", "B9126", "takes a literal of STRING for `country`"),
        ("InCountry(7)", "B9126", "it is `InCountry(country STRING, least DECIMAL(12, 2) = 0.5, most INT = 10)`"),
        ("InCountry(NULL)", "B9126", "takes a literal of STRING for `country`"),
        ("InCountry('DE', 1, 2.5)", "B9126", "takes a literal of INT for `most`"),
        ("InCountry('DE', 1, 99999999999)", "B9126", "takes a literal of INT for `most`"),
        ("InCountry('DE', country => 'PL')", "B9126", "gives `country` twice"),
        ("InCountry('DE', leas => 1)", "B9126", "did you mean `least`?"),
        ("InCountry('DE', 1, 2, 3)", "B9126", "takes 3 arguments"),
        ("Mine('DE')", "B9126", "takes 0 arguments"),
        ("InCountry('DE'", "B1", "error"),
        ("InCountry('DE' 'PL' (1)", "B9126", "cannot be read as a call"),
        ("InCountry(1 +)", "B9126", "cannot be read as a call"),
        ("Born('yesterday')", "B9126", "takes a literal of TIMESTAMP for `since`"),
        ("Born('2020-01-01', 1e999)", "B9126", "takes a literal of DOUBLE for `taller`"),
    ],
)
def test_mistakes_are_told(script: Path, store: str, capsys: Any, query: str, code: str, said: str) -> None:
    found, out, err = asked(capsys, query, "--script", str(script))
    assert (found, out) == (1, "")
    assert f"error[{code}" in err
    assert said in err


def test_a_store_that_the_script_does_not_fit(script: Path, store: str, capsys: Any) -> None:
    change_columns(store, "Cities")
    code, _, err = asked(capsys, "SELECT name FROM Cities", "--script", str(script))
    assert code == 1
    assert "error[B9125]: the store has another `Cities` than the script: column `id` differs" in err
    assert asked(capsys, "SELECT name FROM Cities", "--store", store)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "SQL"),
        (["SELECT 1", "--store", "sqlite:///x.db", "--table", "a=towns.sqrl"], "cannot be used together"),
        (["--store", "sqlite:///x.db", "--as-of", "3"], "--as-of"),
        (["SELECT 1", "--script", "none.sqrl"], "there is no file"),
    ],
)
def test_a_wrong_command_line(script: Path, capsys: Any, arguments: list[str], said: str) -> None:
    code, out, err = asked(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_a_store_that_is_not_there(script: Path, capsys: Any) -> None:
    code, _, err = asked(capsys, "SELECT 1", "--store", "sqlite:///none.db")
    assert (code, "error[B7001]: there is no store" in err) == (1, True)


# -- the prompt -------------------------------------------------------------------------------------------------------


def test_a_pipe_is_answered(script: Path, store: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sys.stdin", io.StringIO("SELECT id FROM Cities\nWHERE id = 1; SELECT 'a;b' AS x; -- the end;\n")
    )
    assert asked(capsys, "--store", store, "--format", "csv") == (0, "id\n1\nx\na;b\n", "")
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT nope;\nSELECT 2 AS n"))
    code, out, err = asked(capsys, "--script", str(script), "--json")
    assert (code, json.loads(out)) == (1, [{"n": 2}]), "one mistake does not hide the next answer"
    assert "B2002" in err


def test_commands_of_the_prompt(script: Path, store: str, capsys: Any) -> None:
    reported(
        store,
        "\\d\n\\d people\n\\d Cities;\n\\d InCountry\n\\f trim\n\\format json\nSELECT 1 AS one;\n\\timing\nhelp\n",
        script,
    )
    out, err = capsys.readouterr()
    assert err == "" or "by the database" in err
    for line in (
        "Cities               4",
        "_belvedere_rejected  7",
        "query template InCountry(country STRING, least DECIMAL(12, 2) = 0.5, most INT = 10)",
        "query template Mine()",
        "full name  STRING",
        "key: id",
        "Cities.people -> People",
        "(4 functions)",
        '{"one": 1}',
        "times are shown",
        "A query ends with `;`",
    ):
        assert line in out, (line, out)


def test_what_the_prompt_refuses(store: str, capsys: Any) -> None:
    shell = reported(store, "\\nope\n\\format xml\n\\d Citys\nSELECT 1 AS one;\nexit\nSELECT 2 AS two;\n")
    out, err = capsys.readouterr()
    assert shell.failed
    assert err.count("error[B9127]") == 2
    assert "there is `Cities`" in err
    assert ("one" in out, "two" in out) == (True, False)


def test_the_prompt_tells_of_quarantine(script: Path, tmp_path: Path, capsys: Any) -> None:
    url = f"sqlite:///{tmp_path}/held.db"
    make_store(url, script, ROWS, failures_document([HELD]))
    reported(url, "\\d\n\\d Cities\n\\d People\nSELECT count(*) FROM Cities;")
    out, err = capsys.readouterr()
    assert out.count("`Cities` is in quarantine: its rows are those of epoch 2") == 2
    assert out.count("`Oldest` is in quarantine") == 1
    assert err.count("`Cities` is in quarantine") == 1


def test_spark_stays(script: Path, store: str, capsys: Any) -> None:
    """The session is started once, and told why. Ctrl-C cancels its jobs, whose failure is not told then."""
    started, reasons = [], []

    class Tables:
        def answer(self, sql: str, spark: Any) -> Any:
            reasons.append(spark("it says so"))
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise RuntimeError("the job was cancelled") from None

    class Spark:
        sparkContext = type("Context", (), {"cancelAllJobs": lambda self: started.append("cancelled")})()

    shell = Shell(Tables(), lambda: started.append("started") or Spark())  # type: ignore[arg-type,func-returns-value]
    before = signal.getsignal(signal.SIGINT)
    shell.run(["SELECT 1;", "SELECT 2;"])
    for thread in threading.enumerate():
        if thread.daemon and thread.name.startswith("Thread-"):
            thread.join(1)
    assert (started, len(reasons)) == (["started", "cancelled", "cancelled"], 2)
    assert signal.getsignal(signal.SIGINT) is before
    err = capsys.readouterr().err
    assert err.count("starting Spark, which stays up: it says so") == 1
    assert err.count("cancelled") == 2


def test_spark_starts_to_its_end(script: Path, store: str, capsys: Any) -> None:
    """Ctrl-C meanwhile gives the query up, and the session is there for the next one."""
    started = []

    class Spark:
        sparkContext = type("Context", (), {"cancelAllJobs": lambda self: None})()

    def start() -> Any:
        signal.raise_signal(signal.SIGINT)
        started.append(Spark())
        return started[-1]

    class Tables:
        def answer(self, sql: str, spark: Any) -> Any:
            assert spark("why") is started[0]
            raise fail("B9120", "it goes on")

    Shell(Tables(), start).run(["SELECT 1;", "SELECT 2;"])  # type: ignore[arg-type]
    err = capsys.readouterr().err
    assert (len(started), err.count("cancelled"), err.count("it goes on")) == (1, 1, 1)


def test_a_query_is_given_up_at_the_terminal(script: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite looks up from its work; what ends it there is Ctrl-C."""
    monkeypatch.setattr("belvedere.terminal.store_prompt.MAX_QUERY_SECONDS", 0.05)
    endless = "SELECT count(*) AS n FROM " + " CROSS JOIN ".join(f"People p{n}" for n in range(16))
    with open_store_tables(store, None) as tables, pytest.raises(KeyboardInterrupt):
        tables.answer(endless, no_spark)


def keys(text: str, script: Path, store: str) -> list[str]:
    """What somebody types, as statements."""
    with open_store_tables(store, script) as tables, create_pipe_input() as pipe:
        shell = Shell(tables, no_spark)
        pipe.send_text(text)
        return list(typed(prompt_session(shell.words, input=pipe, output=DummyOutput())))


def test_typing(script: Path, store: str) -> None:
    end = "\x04"
    assert keys(f"SELECT 1;\r{end}", script, store) == ["SELECT 1;", ""]
    assert keys(f"SELECT 1,\r2;\r{end}", script, store)[0] == "SELECT 1,\n2;", "a query goes on until it ends"
    assert keys(f"SELECT 1\x03SELECT 2;\r{end}", script, store)[0] == "SELECT 2;", "Ctrl-C gives the line up"
    assert keys(f"\x1b[A\r{end}", script, store)[0] == "SELECT 2;", "the line of an earlier session"
    assert keys(f"\\d\r{end}", script, store) == ["\\d", ""]
    file = history_file()
    assert file is not None
    assert oct(os.stat(file).st_mode & 0o777) == "0o600"


def test_words_come_from_the_store(script: Path, store: str) -> None:
    def completed(before: str, behind: str = "") -> list[tuple[str, int]]:
        document = Document(before + behind, len(before))
        return [
            (c.text, c.start_position) for c in WordCompleter(shell.words).get_completions(document, CompleteEvent())
        ]

    with open_store_tables(store, script) as tables:
        shell = Shell(tables, no_spark)
        assert completed("SELECT p.fu", " FROM People p") == [("`full name`", -2)]
        assert completed("SELECT * FROM old") == [("Oldest", -3)]
        assert completed("InC") == [("InCountry", -3)]
        tables.reader.close()
        assert completed("SELECT * FROM old") == [], "the query itself will say that the store is away"


def test_a_history_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert history_file() is None


def test_statements() -> None:
    assert statements_in("SELECT 1; SELECT ';' -- ;\n; x") == (["SELECT 1;", "SELECT ';' -- ;\n;"], "x")
    assert statements_in("/* ; */ SELECT `a;b`") == ([], "/* ; */ SELECT `a;b`")
    assert [is_whole(t) for t in ("", " \n", "SELECT 1", "SELECT 1; -- so", "\\d x", "help", "SELECT 'a\\';")] == [
        True, True, False, True, True, True, True,
    ]  # fmt: skip
    assert [s for s in piped(["a\n", "help\n", "b;c;\n", "\\d\n", "-- note\n"]) if s.strip()] == [
        "a\nhelp\nb;", "c;", "\\d\n", "-- note\n",
    ]  # fmt: skip


# -- completion -------------------------------------------------------------------------------------------------------

SHOWN = (
    "CREATE TABLE Cities (id INT, name STRING); CREATE TABLE Orders (name STRING, `full name` STRING, total INT, "
    "`select` INT);"
)
WORDS = Words(Known(compile_script(SHOWN).catalog, "query"), ["ByCity"])


@pytest.mark.parametrize(
    ("before", "behind", "found"),
    [
        ("SELECT na", " FROM Cities", ["name", "nanvl"]),
        ("SELECT id, tot", " FROM Orders", ["total"]),
        ("SELECT * FROM Ci", "", ["Cities"]),
        ("SELECT * FROM cities, or", "", ["Orders"]),
        ("SELECT * FROM (SELECT * FROM `Or", "", ["Orders"]),
        ("SELECT o.", " FROM Orders AS o", ["name", "`full name`", "total", "`select`"]),
        ("SELECT o.sel", " FROM Orders AS o", ["`select`"]),
        ("WITH c AS (SELECT total AS t FROM Orders) SELECT c.", " FROM c", ["t"]),
        ("IMP", "", []),
        ("SELECT `Orders`.`fu", "", ["`full name`"]),
        ("SELECT nobody.na", " FROM Cities", []),
        ("SELECT * FROM Orders o JOIN Cities c ON c.", "", ["id", "name"]),
        ("SELECT * FROM Orders WHERE tota", "", ["total"]),
        ("SEL", "", ["SELECT"]),
        ("ByC", "", ["ByCity"]),
        ("\\d or", "", ["Orders"]),
        ("\\format c", "", ["csv"]),
        ("\\t", "", ["\\timing"]),
        ("SELECT levens", "", ["levenshtein"]),
    ],
)
def test_completion(before: str, behind: str, found: list[str]) -> None:
    assert [word for word, _ in WORDS.after(before, behind)] == found


def test_what_a_completion_replaces() -> None:
    assert list(WORDS.after("SELECT o.`fu", " FROM Orders o")) == [("`full name`", 3)], "the tick goes, another comes"
    assert list(WORDS.after("SELECT tota", " FROM Orders")) == [("total", 4)]
