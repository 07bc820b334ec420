"""Where pygls is missing, `belvedere lsp` says how to get it; a mistake of ours is told (B9156) and ends nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from belvedere import cli
from belvedere.language_server.server import guarded, make_server
from belvedere.project.settings import ProjectSettings


def test_pygls_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in [n for n in sys.modules if n.startswith("belvedere.language_server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pygls", None)
    monkeypatch.setitem(sys.modules, "lsprotocol", None)
    assert cli.run(["lsp"]) == 1
    err = capsys.readouterr().err
    assert "B9157" in err
    assert "belvedere[lsp]" in err


def test_a_mistake_of_ours_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    server = make_server(lambda p: ProjectSettings(Path(p).parent))
    reported: list[str] = []
    monkeypatch.setattr(server, "window_log_message", lambda params: reported.append(params.message))

    def breaks(*_: object) -> None:
        raise ZeroDivisionError("of ours")

    assert guarded(breaks)(server, None) is None
    assert reported[0].startswith("B9156")
