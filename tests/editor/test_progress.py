"""A compile that continues from the last one equals a new one, after any edits and changes of sources or imports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project
from belvedere.editor.document import Document
from belvedere.lang.statements import lower
from belvedere.lang.statements.incremental_compile import KEPT
from tests.depth import examples

SCRIPT = """/** What people offer. */
CREATE STREAM Bid (auction INT, price DOUBLE, at TIMESTAMP, who STRUCT<name: STRING, city: STRING>,
    WATERMARK FOR at AS at - INTERVAL 2 SECONDS);
CREATE TABLE Auction (id INT, seller STRING, at TIMESTAMP, PRIMARY KEY (id)) WITH HISTORY;
Auction.bids := JOIN Bid b ON b.auction = _.id;
/*+ on_error(null) */ High := SELECT b.auction, max(b.price) AS top FROM Bid b GROUP BY b.auction;
Auction.upper := upper(seller);
Low := SELECT h.top, count(*) AS n FROM High h GROUP BY top;
Named := DISTINCT Auction ON seller ORDER BY at DESC;
High := SELECT auction, top, top * 2 AS twice FROM High;
Hour := SELECT wstart, price FROM Tumble(data => TABLE(Bid), timecol => DESCRIPTOR(at), dur => 1 HOUR);
Hours := SELECT window.start AS s, count(*) AS n FROM Bid GROUP BY window(at, '1 hour');
Of(least INT) := SELECT auction, price FROM Bid WHERE auction > :least;
Changed := SUBSCRIBE ON CHANGE AS SELECT * FROM High;
"""
PIECES = [
    *(
        "",
        " ",
        "\n",
        ";",
        "'",
        '"',
        "`",
        "/*",
        "*/",
        "-- ",
        "(",
        ")",
        ",",
        ".",
        "x",
        "1",
        ":=",
        "SELECT ",
        "FROM ",
        "WINDOW ",
        "ROW<a INT>",
        "BYTES",
    ),
    *(
        "X := SELECT * FROM Low;\n",
        "Low := SELECT 1 AS n;\n",
        "/** doc */ ",
        "/*+ no_query */ ",
        "IMPORT other.V;\n",
        "IMPORT other.* AS o;\n",
        "{#",
        "x'zz'",
    ),
    *("Auction.more := JOIN Late l ON l.id = _.id;\n", "Late := SELECT id FROM Auction;\n"),
]
EDIT = st.tuples(st.floats(0, 1), st.sampled_from([0, 0, 0, 1, 7, 60]), st.sampled_from(PIECES))
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/*.sqrl"))


def same_as_new(made: Document) -> None:
    fresh = compile_script(made.text, path=made.path)
    found = made.compile()
    assert found.diagnostics == fresh.diagnostics
    assert found.catalog == fresh.catalog


@pytest.mark.deep
@given(edits=st.lists(EDIT, min_size=1, max_size=8))
@settings(max_examples=examples(60), deadline=None)
def test_after_any_edits(edits: list[tuple[float, int, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "other.sqrl").write_text("CREATE STREAM S (a INT); V := SELECT a AS b FROM S;\n")
    made = Document(folder / "script.sqrl", SCRIPT)
    same_as_new(made)
    assert made.compile().ok
    for place, less, more in edits:
        at = int(place * len(made.text))
        made.change(made.text[:at] + more + made.text[at + less :])
        same_as_new(made)
    made.change(SCRIPT)
    same_as_new(made)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_statement_by_statement(path: Path) -> None:
    whole = path.read_text(encoding="utf-8")
    made = Document(path, "")
    for end in [n for n, c in enumerate(whole) if c == ";"][::5]:
        made.change(whole[: end + 1])
        same_as_new(made)


def test_what_is_above_a_change_is_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    many = SCRIPT + "".join(f"V{n} := SELECT auction FROM Bid WHERE auction > {n};\n" for n in range(3 * KEPT))
    made = Document(Path("/nowhere/script.sqrl"), many)
    made.compile()
    lowered: list[object] = []
    known = lower._lower
    monkeypatch.setattr(lower, "_lower", lambda statement, *rest: (lowered.append(statement), known(statement, *rest)))
    made.change(many + "Last := SELECT 1 AS one;")
    assert made.compile().ok
    assert 1 <= len(lowered) <= 6
    assert len(made._progress.reached) <= KEPT + 1


def test_sources_and_other_scripts_change_beside_a_text(tmp_path: Path) -> None:
    rows, other, third = tmp_path / "data" / "Bid.json", tmp_path / "other.sqrl", tmp_path / "third.sqrl"
    rows.parent.mkdir()
    rows.write_text(json.dumps({"price": 1}) + "\n")
    (tmp_path / "belvedere.toml").write_text('[sources.shop]\nconnector = "files"\npath = "data"\n')
    third.write_text("T := SELECT 1 AS one;\n")
    other.write_text("IMPORT third.T;\nV := SELECT one AS b FROM T;\n")
    made = Document(
        tmp_path / "script.sqrl",
        "IMPORT shop.Bid;\nIMPORT other.V;\nX := SELECT price FROM Bid;\nY := SELECT b FROM V;\n",
    )

    def typed(*codes: str) -> None:
        made.change(made.text + "-- more\n")
        same_as_new(made)
        assert {d.code for d in made.compile().diagnostics if d.severity == "error"} == set(codes)

    typed()
    rows.write_text(json.dumps({"cost": 1.5}) + "\n")
    typed("B2002")
    rows.write_text(json.dumps({"price": "a lot"}) + "\n")
    typed()
    other.write_text("IMPORT third.T;\nV := SELECT one AS c FROM T;\n")
    typed("B2002")
    other.write_text("IMPORT third.T;\nV := SELECT one + 1 AS b FROM T;\n")
    typed()
    third.write_text("T := SELECT 'one' AS one;\n")
    typed()
    third.unlink()
    typed("B6100", "B2011")
    third.write_text("T := SELECT 1 AS two;\n")
    typed("B2002", "B2011")


def test_a_function_or_the_project_changes_beside_a_text(tmp_path: Path) -> None:
    module = tmp_path / "own.py"
    module.write_text('import belvedere\n\n\n@belvedere.function("a INT", "INT")\ndef twice(a):\n    return a * 2\n')
    (tmp_path / "belvedere.toml").write_text('[functions]\nmodule = "own.py"\n')
    assert load_project(tmp_path).module is not None
    made = Document(tmp_path / "script.sqrl", "CREATE STREAM S (a INT);\nV := SELECT twice(a) AS b FROM S;\n")
    same_as_new(made)
    assert made.compile().ok
    module.write_text(
        'import belvedere\n\n\n@belvedere.function("a INT", "STRING")\ndef twice(a):\n    return str(a)\n'
    )
    made.change(made.text + "\n")
    same_as_new(made)
    (tmp_path / "belvedere.toml").write_text("")
    made.change(made.text + "\n")
    same_as_new(made)
    assert not made.compile().ok
