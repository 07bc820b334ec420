"""An editor's session over standard input and output, with a real process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from belvedere.compiler import compile_script
from belvedere.language_server.documents import path_of
from tests.language_server.client import Client

SCRIPT = (
    "CREATE STREAM Bid (auction INT, price DOUBLE);\r\n"
    "/** Größe 😀 */ High := SELECT auction, max(price) AS top FROM Bid GROUP BY auction;\r\n"
)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    made = Client(tmp_path)
    yield made
    if made.process.poll() is None:
        made.process.kill()


def test_a_mistake_is_told_and_mended(client: Client, tmp_path: Path) -> None:
    uri = client.open(tmp_path / "a.sqrl", SCRIPT)
    client.diagnostics(uri, None)
    insert = {"start": {"line": 2, "character": 0}, "end": {"line": 2, "character": 0}}
    client.change(
        uri,
        2,
        {"range": insert, "text": "Low := SELECT pric "},
        {"range": {"start": {"line": 2, "character": 19}, "end": {"line": 2, "character": 19}}, "text": "FROM Bid;"},
    )
    (found,) = [d for d in client.diagnostics(uri, "pric") if d["severity"] == 1]
    assert found["code"] == "B2002"
    assert found["range"] == {"start": {"line": 2, "character": 14}, "end": {"line": 2, "character": 18}}
    (action,) = client.ask(
        "textDocument/codeAction",
        {"textDocument": {"uri": uri}, "range": found["range"], "context": {"diagnostics": [found]}},
    )
    (edit,) = action["edit"]["changes"][uri]
    client.change(uri, 3, {"range": edit["range"], "text": edit["newText"]})
    client.diagnostics(uri, None)
    assert client.close() == 0


def test_words_names_and_layout(client: Client, tmp_path: Path) -> None:
    uri = client.open(tmp_path / "a.sqrl", SCRIPT)
    at = SCRIPT.split("\r\n")[1].index("max(") + 1  # the smile takes two units
    assert "max(col)" in client.at("textDocument/hover", uri, 1, at + 1)["contents"]["value"]
    (place,) = client.at("textDocument/definition", uri, 1, at + 5)
    assert place["range"]["start"] == {"line": 0, "character": 32}
    assert len(client.at("textDocument/references", uri, 0, 33, context={"includeDeclaration": True})) == 2
    edit = client.at("textDocument/rename", uri, 0, 33, newName="cost")["changes"][uri]
    assert [e["newText"] for e in edit] == ["cost", "cost"]
    refused = client.request(
        "textDocument/rename",
        {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 33}, "newName": "select"},
    )
    assert "keyword" in refused["error"]["message"]
    client.change(uri, 2, {"text": SCRIPT + "Low := SELECT h. FROM High h"})
    items = client.at("textDocument/completion", uri, 2, 16)["items"]
    assert {i["label"] for i in items} == {"auction", "top"}
    names = client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    assert [n["name"] for n in names] == ["Bid", "High", "Low"]
    client.change(uri, 3, {"text": "v := select 1 as a"})
    (whole,) = client.ask(
        "textDocument/formatting", {"textDocument": {"uri": uri}, "options": {"tabSize": 4, "insertSpaces": True}}
    )
    assert whole["newText"] == "v := SELECT 1 AS a;\n"
    assert client.at("textDocument/signatureHelp", uri, 0, 3) is None
    assert client.close() == 0


def test_two_documents_one_imports_the_other(client: Client, tmp_path: Path) -> None:
    (tmp_path / "base.sqrl").write_text("CREATE STREAM S (a INT); V := SELECT a AS b FROM S;\n")
    base = client.open(tmp_path / "base.sqrl", (tmp_path / "base.sqrl").read_text())
    top = client.open(tmp_path / "top.sqrl", "IMPORT base.V;\nX := SELECT b FROM V;\n")
    client.diagnostics(base, None)
    client.diagnostics(top, None)
    (place,) = client.at("textDocument/definition", top, 1, 12)
    assert (place["uri"], place["range"]["start"]["character"]) == (base, 42)
    client.change(base, 2, {"text": "CREATE STREAM S (a INT); V := SELECT a AS c FROM S;\n"})
    client.diagnostics(top, "`b`")
    client.tell("textDocument/didClose", {"textDocument": {"uri": top}})
    assert client.diagnostics(top, None) == []
    assert client.close() == 0


def test_files_that_are_not_open_are_told_of(client: Client, tmp_path: Path) -> None:
    (tmp_path / "base.sqrl").write_text("CREATE STREAM S (a INT);\nV := SELECT b FROM S;\n")
    (tmp_path / "belvedere.toml").write_text('[sources.x]\nkonnector = "files"\n')
    base, project = (tmp_path / "base.sqrl").as_uri(), (tmp_path / "belvedere.toml").as_uri()
    top = client.open(tmp_path / "top.sqrl", "IMPORT base.V;\n")
    (found,) = [d for d in client.diagnostics(base, "`b`") if d["severity"] == 1]
    assert found["range"]["start"] == {"line": 1, "character": 12}
    (found,) = [d for d in client.diagnostics(project, "konnector") if "konnector" in d["message"]]
    assert found["range"]["start"] == {"line": 1, "character": 0}
    assert "base.sqrl" in client.diagnostics(top, "base.sqrl")[0]["message"]
    second = client.open(tmp_path / "second.sqrl", "IMPORT base.V;\n")
    client.diagnostics(second, "base.sqrl")
    client.change(top, 2, {"text": "CREATE STREAM T (a INT);\n"})
    assert client.diagnostics(base, "`b`"), "the second script says it still"
    (tmp_path / "belvedere.toml").write_text("")
    client.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": project, "type": 2}]})
    assert client.diagnostics(project, None) == []
    client.tell("textDocument/didClose", {"textDocument": {"uri": second}})
    assert client.diagnostics(base, None) == []
    assert client.close() == 0


def test_positions_in_bytes(tmp_path: Path) -> None:
    client = Client(tmp_path, ["utf-8"])
    assert client.initialized["capabilities"]["positionEncoding"] == "utf-8"
    uri = client.open(tmp_path / "a.sqrl", SCRIPT)
    line = SCRIPT.split("\r\n")[1]
    at = len(line[: line.index("max(")].encode())
    assert client.at("textDocument/hover", uri, 1, at + 1)["range"]["start"]["character"] == at
    assert client.close() == 0


def test_what_is_not_open_or_not_there_is_answered(client: Client, tmp_path: Path) -> None:
    uri = (tmp_path / "none.sqrl").as_uri()
    assert client.at("textDocument/hover", uri, 5, 5) is None
    opened = client.open(tmp_path / "a.sqrl", "")
    assert client.at("textDocument/hover", opened, 99, 99) is None
    assert client.at("textDocument/completion", opened, 0, 0)["items"]
    assert client.close() == 0


def test_addresses() -> None:
    assert path_of("file:///a%20b/c.sqrl") == Path("/a b/c.sqrl")
    assert path_of("untitled:Untitled-1").name == "Untitled-1"
    assert compile_script(SCRIPT).ok
