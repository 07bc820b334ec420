"""Hover shows the store's figures of a relation, and nothing without a store or for another query."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from belvedere.compiler import compile_script
from belvedere.engine.change.fingerprints import definition_fingerprints
from belvedere.engine.epoch_row.measurements import Measured
from belvedere.pipeline.choose import maintain
from tests.commands.stored import change_columns, make_store
from tests.language_server.client import Client

SCRIPT = "CREATE STREAM Bid (auction INT, price DOUBLE) KEEP 7 DAYS;\n`Größe` := SELECT auction, price FROM Bid;\n"


def _hovered(client: Client, uri: str, requested: bool) -> str:
    for _ in range(20 if requested else 5):
        text = str(client.at("textDocument/hover", uri, 1, 2)["contents"]["value"])
        if "in the store" in text:
            break
        time.sleep(0.1)
    return text


@pytest.mark.parametrize("case", ["beside", "given", "missing", "columns", "query", "broken"])
def test_figures_of_a_store(case: str, tmp_path: Path) -> None:
    script, name = tmp_path / "a.sqrl", "other.db" if case == "given" else "a.db"
    script.write_text(SCRIPT, encoding="utf-8")
    url = f"sqlite:///{tmp_path / name}"
    if case == "broken":
        (tmp_path / name).write_text("no store")
    elif case != "missing":
        measured = Measured(epochs=3, changed={"Größe": 12.0}, seconds={"Größe": 0.25}).as_document()
        meant = definition_fingerprints(maintain(compile_script(SCRIPT, path=script).catalog))
        make_store(url, script, {}, {"rows": {"Größe": 1234}, "measured": measured, "meanings": meant})
    if case == "columns":
        change_columns(url, "Größe")
    client = Client(tmp_path, options={"store": url} if case == "given" else None)
    uri = client.open(script, SCRIPT.replace("Bid;", "Bid WHERE price > 1;") if case == "query" else SCRIPT)
    client.diagnostics(uri, None)
    reported = case in ("beside", "given")
    text = _hovered(client, uri, reported)
    assert ("in the store after epoch 1: 1,234 rows; 12 changed per epoch on average, in 0.25 s" in text) == reported, (
        text
    )
    assert "auction" in text
    assert client.close() == 0
