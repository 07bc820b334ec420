"""Scripts that import each other, over standard input and output: open texts count, other files are read from disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.language_server.client import Client

BASE = "CREATE STREAM S (a INT);\n/* 😀 */ V := SELECT a AS b FROM S;\n"
UNSAVED = "IMPORT base.V;\nX := /* 😀 */ SELECT v.b FROM V v;\n"
BELOW = "IMPORT base.V AS W;\nZ := SELECT '😀' AS s, b FROM W;\n"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    (tmp_path / "base.sqrl").write_text(BASE, encoding="utf-8")
    (tmp_path / "top 1.sqrl").write_text("IMPORT base.V;\n")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "below.sqrl").write_text(BELOW, encoding="utf-8")
    (tmp_path / "belvedere.toml").write_text("")
    (tmp_path / "shop" / "belvedere.toml").write_text('script_path = [".."]\n')
    made = Client(tmp_path)
    yield made
    if made.process.poll() is None:
        made.process.kill()


def edited(text: str, edits: list[dict[str, Any]]) -> str:
    """A text with edits whose positions are in UTF-16 units."""
    units = [line.encode("utf-16-le") for line in text.splitlines(keepends=True)]
    for e in sorted(edits, key=lambda e: (e["range"]["start"]["line"], e["range"]["start"]["character"]), reverse=True):
        start, end = e["range"]["start"], e["range"]["end"]
        assert start["line"] == end["line"]
        line = units[start["line"]]
        units[start["line"]] = (
            line[: 2 * start["character"]] + e["newText"].encode("utf-16-le") + line[2 * end["character"] :]
        )
    return b"".join(units).decode("utf-16-le")


def rename(client: Client, uri: str, line: int, character: int, name: str) -> dict[str, Any]:
    """The whole answer to a request for another name."""
    at = {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}, "newName": name}
    return client.request("textDocument/rename", at)


@pytest.mark.smoke("command lsp")
def test_a_name_of_open_scripts_and_those_on_disk(client: Client, tmp_path: Path) -> None:
    base, top = client.open(tmp_path / "base.sqrl", BASE), client.open(tmp_path / "top 1.sqrl", UNSAVED)
    changes = rename(client, base, 1, 26, "größe")["result"]["changes"]
    assert {uri: edited(text, changes.pop(uri)) for uri, text in ((base, BASE), (top, UNSAVED))} == {
        base: BASE.replace("AS b", "AS `größe`"),
        top: UNSAVED.replace("v.b", "v.`größe` AS b"),
    }
    ((below, edits),) = changes.items()
    assert below == (tmp_path / "shop" / "below.sqrl").as_uri()
    assert edited(BELOW, edits) == BELOW.replace("b FROM W", "`größe` AS b FROM W")
    found = rename(client, top, 0, 13, "Wide")["result"]["changes"]
    assert edited(BELOW, found[below]) == BELOW.replace("base.V", "base.Wide")
    assert edited(UNSAVED, found[top]) == UNSAVED.replace("V", "Wide")
    assert client.close() == 0


def test_references_in_scripts_that_are_not_open(client: Client, tmp_path: Path) -> None:
    base = client.open(tmp_path / "base.sqrl", BASE)
    found = client.at("textDocument/references", base, 1, 26, context={"includeDeclaration": True})
    below = (tmp_path / "shop" / "below.sqrl").as_uri()
    assert [(p["uri"], p["range"]["start"]) for p in found] == [
        (base, {"line": 1, "character": 26}),
        (below, {"line": 1, "character": 23}),
    ]
    opened = client.open(tmp_path / "shop" / "below.sqrl", BELOW)
    (place,) = client.at("textDocument/definition", opened, 1, 23)
    assert (place["uri"], place["range"]["start"]) == (base, {"line": 1, "character": 26})
    assert client.close() == 0


def test_a_script_that_cannot_be_read(client: Client, tmp_path: Path) -> None:
    (tmp_path / "latin.sqrl").write_bytes(b"IMPORT base.V;\nX := SELECT b, '\xe9' AS c FROM V;\n")
    base = client.open(tmp_path / "base.sqrl", BASE)
    refused = rename(client, base, 1, 26, "c")["error"]["message"]
    assert refused == (
        "nothing is renamed: `b` may be used in latin.sqrl, which cannot be read (save it as UTF-8, or move it "
        "elsewhere)"
    )
    top = client.open(tmp_path / "top 1.sqrl", "IMPORT latin.X;\n")
    (found,) = [d for d in client.diagnostics(top, "cannot be read") if d["severity"] == 1]
    assert found["code"] == "B2014"
    assert client.at("textDocument/references", base, 1, 26, context={"includeDeclaration": True})
    assert client.close() == 0


def test_what_is_typed_is_told_in_scripts_that_import_it(client: Client, tmp_path: Path) -> None:
    base, top = client.open(tmp_path / "base.sqrl", BASE), client.open(tmp_path / "top 1.sqrl", UNSAVED)
    client.diagnostics(top, None)
    client.change(base, 2, {"text": BASE.replace("AS b", "AS other")})
    client.diagnostics(top, "`b`")
    client.tell("textDocument/didClose", {"textDocument": {"uri": base}})
    client.diagnostics(top, None)
    (tmp_path / "base.sqrl").write_text(BASE.replace("AS b", "AS c"), encoding="utf-8")
    client.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": base, "type": 2}]})
    client.diagnostics(top, "`b`")
    assert client.close() == 0
