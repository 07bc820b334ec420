"""What an editor is told: by cases, and for any damage of an example."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from belvedere.compiler import compile_script
from belvedere.editor.completion import complete
from belvedere.editor.definitions import definitions, references
from belvedere.editor.document import Document
from belvedere.editor.hover import hover
from belvedere.editor.outline import outline
from belvedere.editor.positions import LineIndex
from belvedere.editor.problems import diagnostics, formatted, remedies
from belvedere.editor.renaming import apply, rename
from belvedere.editor.signatures import signature_at
from belvedere.errors import BelvedereError
from tests.depth import examples

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/*.sqrl"))
SCRIPT = """/** What people offer. */
CREATE STREAM Bid (auction INT, price DOUBLE, at TIMESTAMP, who STRUCT<name: STRING, city: STRING>,
    WATERMARK FOR at AS at - INTERVAL 2 SECONDS);
CREATE TABLE Auction (id INT, seller STRING, PRIMARY KEY (id));
Auction.bids := JOIN Bid b ON b.auction = _.id;
High := SELECT b.auction, max(b.price) AS top FROM Bid b JOIN Auction a ON a.id = b.auction GROUP BY b.auction;
Low := SELECT h.top, count(*) AS n FROM High h GROUP BY top;
Of(least INT) := SELECT auction, price FROM Bid WHERE auction > :least;
"""


def document(text: str, before: str = SCRIPT) -> Document:
    """A script that was fine, and then was changed."""
    made = Document(Path("/nowhere/script.sqrl"), before)
    made.compile()
    made.change(text)
    return made


def words(text: str) -> set[str]:
    """What completes the mark `|` at the end of the script."""
    whole = SCRIPT + text
    return {p.word for p in complete(document(whole.replace("|", "")), whole.index("|")).found}


@pytest.mark.parametrize(
    ("text", "has", "has_not"),
    [
        ("X := SELECT h.| FROM High h", {"auction", "top"}, {"price", "SELECT", "Bid"}),
        ("X := SELECT h.`to| FROM High h", {"top"}, {"auction"}),
        ("X := SELECT h.`| FROM High h WHERE `a` > 1", {"top", "auction"}, {"price"}),
        ("X := SELECT | FROM High h", {"auction", "top", "h", "max"}, {"price"}),
        ("X := SELECT a.| FROM Auction a", {"id", "seller", "bids"}, {"_uid"}),
        ("X := SELECT a.bids.| FROM Auction a", {"price", "at"}, {"seller"}),
        ("X := SELECT b.who.| FROM Bid b", {"name", "city"}, {"price"}),
        ("X := SELECT who.| FROM Bid", {"name", "city"}, {"price"}),
        ("X := SELECT p FROM |", {"Bid", "High", "Tumble"}, {"price"}),
        ("X := SELECT p FROM Bid b JOIN A|", {"Auction"}, {"Bid"}),
        ("X := SELECT * FROM Bid WHERE pr|", {"price"}, {"auction"}),
        ("X := SELECT CAST(price AS |) FROM Bid", {"STRING"}, {"price"}),
        ("X := SELECT q.| FROM (SELECT auction AS a, price FROM Bid) q", {"a", "price"}, {"auction"}),
        ("X := WITH c AS (SELECT auction z FROM Bid) SELECT c.| FROM c", {"z"}, {"auction"}),
        ("Auction.x := |", {"id", "seller", "_"}, {"price"}),
        ("/*+ on_error(|) */ X :=", {"quarantine"}, {"Bid"}),
        ("|", {"IMPORT", "CREATE STREAM", "Bid"}, {"price"}),
        ("-- no words |", set(), {"Bid"}),
        ("X := SELECT '|' FROM Bid", set(), {"price"}),
        ("CREATE TABLE T (a |)", {"INT", "STRING"}, {"Bid"}),
        ("Q(some INT) := SELECT | FROM Bid", {"some", "price"}, set()),
        ("X := SELECT q.| FROM Bid LATERAL VIEW explode(array(1)) q AS e", {"e"}, {"wstart", "price"}),
        ("X := SELECT q.| FROM (SELECT auction, price FROM Bid) q (a)", {"a", "price"}, {"auction"}),
        ("X := SELECT q.| FROM VALUES (1, 2) AS q(a, b)", {"a", "b"}, {"price"}),
        ("X := SELECT o.| FROM Bid WINDOW (sliding, count(2)) AS o", {"price"}, set()),
        ("X := WITH c (z) AS (SELECT auction FROM Bid) SELECT c.| FROM c", {"z"}, {"auction"}),
        ("X := SELECT c.| FROM (SELECT auction FROM Bid EMIT STREAM) c", {"auction", "undo"}, {"price"}),
        (
            "X := SELECT wst| FROM Tumble(data => TABLE(Bid), timecol => DESCRIPTOR(at), dur => 1 MINUTE)",
            {"wstart"},
            set(),
        ),
    ],
)
def test_what_may_follow(text: str, has: set[str], has_not: set[str]) -> None:
    found = words(text)
    assert has <= found
    assert not has_not & found


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("Bid b JOIN", ["*stream*", "What people offer.", "price DOUBLE", "append-only"]),
        ("price) AS", ["price DOUBLE", "`bid`"]),
        ("top,", ["top DOUBLE", "`high`"]),
        ("max(", ["max(col)", "aggregate"]),
        ("bids :=", ["Auction.bids → Bid", "many rows"]),
        ("High h", ["*view*", "key (`auction`)", "join"]),
        ("a.id =", ["Auction", "*table*", "key (`id`)"]),
    ],
)
def test_what_a_name_is(at: str, said: list[str]) -> None:
    found = hover(document(SCRIPT), SCRIPT.index(at))
    assert found is not None
    assert all(s in found.text for s in said), found.text


def test_what_was_known_of_a_view_that_is_broken_now() -> None:
    text = SCRIPT.replace("max(b.price) AS top FROM", "max(b.price AS top FROM")
    made = document(text)
    assert not made.compile().ok
    assert {"auction", "top"} <= {p.word for p in complete(made, text.index("h.top") + 2).found}


def test_definition_and_references() -> None:
    made = document(SCRIPT)
    (found,) = definitions(made, SCRIPT.index("High h"), [])
    assert SCRIPT[found.span.start :].startswith("High :=")
    (column,) = definitions(made, SCRIPT.index("b.price") + 2, [])
    assert SCRIPT[column.span.start :].startswith("price DOUBLE")
    lines = {SCRIPT.count("\n", 0, p.span.start) for p in references(made, SCRIPT.index("price DOUBLE"), [])}
    assert lines == {1, 5, 7}


def test_names_of_another_script(tmp_path: Path) -> None:
    (tmp_path / "base.sqrl").write_text("CREATE STREAM S (a INT); V := SELECT a AS b FROM S;\n")
    text = "IMPORT base.V AS W;\nX := SELECT w.b FROM W w;\n"
    made, base = (
        Document(tmp_path / "top.sqrl", text),
        Document(tmp_path / "base.sqrl", (tmp_path / "base.sqrl").read_text()),
    )
    assert made.compile().ok
    places = definitions(made, text.index("W w"), [base])
    assert any(p.span.file == base.file and base.text[p.span.start :].startswith("V :=") for p in places)
    (column,) = definitions(made, text.index("w.b") + 2, [base])
    assert (column.span.file, base.text[column.span.start : column.span.end]) == (base.file, "b")


@pytest.mark.parametrize(
    ("at", "name", "has"),
    [
        ("price DOUBLE", "cost", ["cost DOUBLE", "max(b.cost)", "SELECT auction, cost AS price FROM Bid"]),
        ("High :=", "Best", ["Best := ", "FROM Best h"]),
        ("top FROM", "most", ["AS most FROM", "h.most AS top"]),
        ("b.auction, max", "x", ["SELECT x.auction", "max(x.price)", "Bid x JOIN", "= x.auction"]),
        ("bids :=", "offers", ["Auction.offers :="]),
        ("Auction (", "Über Gebot", ["CREATE TABLE `Über Gebot`", "JOIN `Über Gebot` a"]),
        ("least INT", "low", ["Of(low INT)", "> :low"]),
        ("seller", "`select`", ["`select` STRING"]),
    ],
)
def test_a_name_is_changed_everywhere(at: str, name: str, has: list[str]) -> None:
    made = document(SCRIPT)
    text = apply(SCRIPT, rename(made, SCRIPT.index(at), name))
    assert all(h in text for h in has), text
    assert compile_script(text).ok


@pytest.mark.parametrize(
    ("at", "name"), [("High :=", "Bid"), ("seller", "select"), ("seller", "id"), ("max(", "most"), ("High :=", "")]
)
def test_a_name_that_cannot_be_changed(at: str, name: str) -> None:
    with pytest.raises(BelvedereError) as reported:
        rename(document(SCRIPT), SCRIPT.index(at), name)
    assert reported.value.diagnostics[0].code == "B9155"


def test_nothing_is_renamed_in_a_script_with_errors() -> None:
    with pytest.raises(BelvedereError, match="B9155"):
        rename(document(SCRIPT + "X := SELECT"), SCRIPT.index("High :="), "Best")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("X := SELECT pric FROM Bid;", "price"), ("X := SELECT h.tpo FROM High h", "top"), ("X := SELECT 'a", "'a'")],
)
def test_a_hint_is_an_edit(wrong: str, right: str) -> None:
    text = SCRIPT + wrong
    made = document(text)
    found = remedies(made, len(SCRIPT), len(text))
    assert found
    edit = found[0]
    assert right in text[: edit.start] + edit.text + text[edit.end :]


@pytest.mark.parametrize(
    "text",
    [
        "X := SELECT a AS a FROM",
        "X := SELECT a AS b, b AS a FROM Nothing n WHERE a > b",
        "X := SELECT a b, b c, c a",
        "X := SELECT a AS a FROM y.c x JOIN x.b y, UNNEST(z.a) z, UNNEST(b) b",
    ],
)
def test_items_that_name_each_other(text: str) -> None:
    made = document(SCRIPT + text)
    assert hover(made, len(SCRIPT) + text.index("a")) is not None
    assert complete(made, len(SCRIPT) + len(text)) is not None


def test_what_is_wrong_is_explained_where_it_stands() -> None:
    text = SCRIPT + "X := SELECT pric FROM Bid;"
    made = document(text)
    assert hover(made, text.index("pric ")) is None, "nothing is known of a text that was not compiled"
    made.compile()
    shown = hover(made, text.index("pric ") + 1)
    assert shown is not None
    assert (text[shown.start : shown.end], shown.text.startswith("**B2002** a column is not defined")) == ("pric", True)
    named = hover(made, text.index("X :="))
    assert named is None or "B2002" not in named.text


def test_functions_of_the_project_have_their_docs(tmp_path: Path) -> None:
    (tmp_path / "belvedere.toml").write_text('[functions]\nmodule = "own.py"\n')
    declared = '@belvedere.function("a INT", "INT")\ndef twice(a):\n    """Two times that."""\n    return a * 2\n'
    (tmp_path / "own.py").write_text(f"import belvedere\n\n\n{declared}")
    made = Document(tmp_path / "script.sqrl", "CREATE STREAM S (a INT);\nV := SELECT twi")
    made.compile()
    (found,) = [p for p in complete(made, len(made.text)).found if p.word == "twice"]
    assert "twice(a INT)" in found.doc
    assert "Two times that." in found.doc


def test_names_that_need_backticks_get_them() -> None:
    text = SCRIPT + "T := SELECT 1 AS `a ``b`, 2 AS `select`;\nX := SELECT t.`a` FROM T t;"
    at = text.index("t.`a`") + 4
    found = complete(document(text, text), at)
    (proposal,) = found.found
    assert text[: found.start] + proposal.written + text[found.end :] == text.replace("t.`a`", "t.`a ``b`")
    whole = complete(document(text.replace("t.`a`", "t."), text), at - 2)
    assert {p.written for p in whole.found} == {"`a ``b`", "`select`"}


def test_the_argument_that_is_written() -> None:
    text = SCRIPT + "X := SELECT round(sum(price), 2"
    call = signature_at(document(text), len(text))
    assert call is not None
    assert (call.signature.name, call.argument) == ("round", 1)
    inner = signature_at(document(text), text.index("sum(") + 4)
    assert inner is not None
    assert inner.signature.name == "sum"


def test_outline_and_layout() -> None:
    made = document(SCRIPT)
    assert [(e.name, e.kind) for e in outline(made)] == [
        ("Bid", "input"),
        ("Auction", "input"),
        ("Auction.bids", "relationship"),
        ("High", "view"),
        ("Low", "view"),
        ("Of", "template"),
    ]
    assert formatted(document("v := select 1 as a")) == "v := SELECT 1 AS a;\n"
    assert formatted(document("v := select (")) is None


@given(st.text(alphabet="ab\n\r\t😀é𝄞", max_size=30), st.sampled_from(("utf-16", "utf-8", "utf-32")), st.data())
def test_positions_come_back(text: str, encoding: str, data: st.DataObject) -> None:
    lines = LineIndex(text)
    offset = data.draw(st.integers(0, len(text)))
    line, character = lines.position(offset, encoding)
    back = lines.offset(line, character, encoding)
    assert back == offset or text[back:offset] == "\r"  # between the two halves of a line's end
    if encoding == "utf-16":
        start = lines.starts[line]
        assert character == sum(2 if ord(c) > 0xFFFF else 1 for c in text[start:back])


@pytest.mark.deep
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
@given(data=st.data())
@settings(
    max_examples=examples(50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_damage_of_an_example_stops_an_answer(path: Path, data: st.DataObject) -> None:
    whole = path.read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.one_of(st.just(len(whole)), st.integers(start, min(start + 40, len(whole)))))
    text = whole[:start] + data.draw(st.sampled_from(["", ".", "(", "'", "`", ",", " FROM ", "😀"])) + whole[end:]
    made = Document(path, whole)
    made.compile()
    made.change(text)
    offset = data.draw(st.one_of(st.just(min(start + 1, len(text))), st.integers(0, len(text))))
    proposals = complete(made, offset)
    assert 0 <= proposals.start <= proposals.end <= len(text)
    shown = hover(made, offset)
    assert shown is None or 0 <= shown.start <= offset <= shown.end <= len(text)
    signature_at(made, offset)
    formatted(made)
    assert all(0 <= e.start <= e.name_start <= e.name_end <= e.end <= len(text) for e in outline(made))
    for place in (*definitions(made, offset, []), *references(made, offset, [])):
        assert 0 <= place.span.start < place.span.end <= len(text)
    for d in diagnostics(made)[made.file]:
        assert d.span is None or 0 <= d.span.start <= d.span.end <= len(text)
    assert all(0 <= r.start <= r.end <= len(text) for r in remedies(made, 0, len(text)))
    assert all(0 <= u.start < u.end <= len(text) for u in made.now.uses)


def test_a_profile_that_is_missing_is_told_in_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "belvedere.toml").write_text("")
    monkeypatch.setenv("BELVEDERE_PROFILE", "nowhere")
    made = Document(tmp_path / "script.sqrl", SCRIPT)
    assert [d.code for d in diagnostics(made)[made.file]] == ["B9108"]
