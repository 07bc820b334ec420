"""A client of the language server over standard input and output: JSON-RPC and nothing else."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

PATIENCE = 60.0


class Client:
    """A server in a process of its own."""

    def __init__(self, folder: Path, encodings: list[str] | None = None, options: Any = None):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "belvedere.cli", "lsp"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self.reported: list[dict[str, Any]] = []
        self.number = 0
        threading.Thread(target=self._read, daemon=True).start()
        general = {"positionEncodings": encodings} if encodings else {}
        self.initialized = self.ask(
            "initialize",
            {
                "processId": None,
                "rootUri": folder.as_uri(),
                "capabilities": {"general": general},
                "initializationOptions": options,
            },
        )
        self.tell("initialized", {})

    def _read(self) -> None:
        out = self.process.stdout
        assert out is not None
        while line := out.readline():
            length = int(line.split(b":")[1])
            while out.readline().strip():
                pass
            self.messages.put(json.loads(out.read(length)))

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def tell(self, method: str, params: Any) -> None:
        """A notification."""
        self._send({"method": method, "params": params})

    def request(self, method: str, params: Any) -> dict[str, Any]:
        """A request's whole answer, also where it is an error."""
        self.number += 1
        number = self.number
        self._send({"id": number, "method": method, "params": params})
        while True:
            found = self.messages.get(timeout=PATIENCE)
            if found.get("id") == number and "method" not in found:
                return found
            self.reported.append(found)

    def ask(self, method: str, params: Any) -> Any:
        """A request's result."""
        found = self.request(method, params)
        assert "error" not in found, found
        return found["result"]

    def at(self, method: str, uri: str, line: int, character: int, **more: Any) -> Any:
        """A request about a place."""
        return self.ask(
            method, {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}, **more}
        )

    def open(self, path: Path, text: str) -> str:
        """Open a document; its address."""
        item = {"uri": path.as_uri(), "languageId": "sqrl", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})
        return path.as_uri()

    def change(self, uri: str, version: int, *changes: dict[str, Any]) -> None:
        """Edits of a document."""
        self.tell(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": version}, "contentChanges": list(changes)},
        )

    def diagnostics(self, uri: str, has: str | None) -> list[dict[str, Any]]:
        """The next diagnostics of a document in which a text stands; None: the next that are no errors."""
        others: list[dict[str, Any]] = []
        while True:
            found = self.reported.pop(0) if self.reported else self.messages.get(timeout=PATIENCE)
            if found.get("method") != "textDocument/publishDiagnostics" or found["params"]["uri"] != uri:
                others.append(found)
                continue
            reported: list[dict[str, Any]] = found["params"]["diagnostics"]
            errors = [d for d in reported if d["severity"] == 1]
            if (has is None and not errors) or (has is not None and any(has in d["message"] for d in reported)):
                self.reported = others + self.reported
                return reported

    def close(self) -> int:
        """Say that it shall end; its exit code."""
        self.ask("shutdown", None)
        self.tell("exit", None)
        return self.process.wait(PATIENCE)
