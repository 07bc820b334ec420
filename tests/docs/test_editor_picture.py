"""The picture of an editor on its page shows what the language server answers today. `--update` makes it anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.editor_pictures import DIM, PLAIN, RED, Popup, Window, from_markdown, picture
from tests.docs.test_terminal_pictures import PICTURES, write_folder
from tests.language_server.client import Client

SHOWN = PICTURES / "editor.svg"
ITEMS = 6


def place_of(text: str, part: str) -> tuple[int, int]:
    """The line and the character where a part of a text begins."""
    before = text[: text.index(part)]
    return before.count("\n"), len(before) - before.rfind("\n") - 1


def mistake(client: Client, uri: str, text: str) -> Window:
    """A word that is wrong, with what is told of it and the edit that mends it."""
    client.change(uri, 2, {"text": text})
    (found,) = [d for d in client.diagnostics(uri, "minuts") if d["severity"] == 1]
    context = {"textDocument": {"uri": uri}, "range": found["range"], "context": {"diagnostics": [found]}}
    (action,) = client.ask("textDocument/codeAction", context)
    start, end = found["range"]["start"], found["range"]["end"]
    message, *others = found["message"].split("\n")
    lines = [[(found["code"], RED), (f" {message}", PLAIN)], *([(line, DIM)] for line in others)]
    lines.append([("Quick fix: ", "#72b7f5"), (action["title"], PLAIN)])
    return Window(text, 9, start["line"], start["character"], Popup(lines), (start["character"], end["character"]))


def hovered(client: Client, uri: str, text: str) -> Window:
    """What a relation is."""
    client.change(uri, 3, {"text": text})
    line, character = place_of(text, "Stations s")
    found = client.at("textDocument/hover", uri, line, character + 1)
    return Window(text, 9, line, character, from_markdown(found["contents"]["value"]))


def completed(client: Client, uri: str, text: str) -> Window:
    """What may follow."""
    client.change(uri, 4, {"text": text.replace("t.minutes)", "t.)")})
    line, character = place_of(text, "minutes), 1)")
    items: list[dict[str, Any]] = client.at("textDocument/completion", uri, line, character)["items"]
    items = sorted(items, key=lambda i: i["sortText"])[:ITEMS]
    width = max(len(i["label"]) for i in items) + 3
    lines = [[(i["label"].ljust(width), PLAIN), (i.get("detail") or "", DIM)] for i in items]
    return Window(text.replace("t.minutes)", "t.)"), 9, line, character, Popup(lines, chosen=0), cursor=True)


def test_the_picture(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    write_folder(tmp_path, whole=False)
    script = tmp_path / "bikes.sqrl"
    text = script.read_text(encoding="utf-8")
    client = Client(tmp_path)
    uri = client.open(script, text)
    client.diagnostics(uri, None)
    wrong = mistake(client, uri, text.replace("avg(t.minutes)", "avg(t.minuts)"))
    made = picture("bikes.sqrl", [wrong, hovered(client, uri, text), completed(client, uri, text)])
    assert client.close() == 0
    if request.config.getoption("--update"):
        SHOWN.write_text(made, encoding="utf-8")
    assert SHOWN.read_text(encoding="utf-8") == made, f"{SHOWN.name} is another: pytest {__file__} --update"
