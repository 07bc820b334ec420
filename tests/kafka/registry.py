"""A schema registry for tests: answers by path, for those who say the name and the password."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

AUTHORIZATION = "Basic dTpw"


@contextmanager
def serving(answers: Mapping[str, Any]) -> Iterator[str]:
    """The address of a registry that gives these answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path in answers and self.headers["Authorization"] == AUTHORIZATION
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(json.dumps(answers.get(self.path)).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://u:p@127.0.0.1:{server.server_port}/base/"
    server.shutdown()
    server.server_close()
