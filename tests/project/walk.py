"""A first session with the installed command in an empty folder, step by step; it ends at the first failure.

In: the command's path; the present folder, empty. Out: each command and its seconds, printed. Needs nothing but the
standard library, so any Python runs it: `python walk.py /path/to/belvedere`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

OPENER = build_opener(ProxyHandler({}))
SCENARIO = """A first scenario.

=== orders count
~~~
CREATE TABLE Orders (id INT PRIMARY KEY, price INT);
Total := SELECT sum(price) AS total FROM Orders;
~~~
--- insert Orders
id | price
1  | 5
2  | 7
--- step
--- rows Total
total
12
"""


def walk(belvedere: str) -> None:
    """Make a project, look at it, test it, fill its store and ask it. Raises AssertionError, CalledProcessError."""

    def say(*arguments: str) -> str:
        started = time.monotonic()
        done = subprocess.run([belvedere, *arguments], stdout=subprocess.PIPE, text=True, check=True, timeout=300)
        print(f"{time.monotonic() - started:5.1f} s  belvedere {' '.join(arguments)}", flush=True)
        return done.stdout

    assert not list(Path().iterdir()), "the folder is not empty"
    assert "shop.sqrl" in say("init")
    assert "shop.sqrl: fine" in say("check", "shop.sqrl")
    assert "ProductDays" in say("explain", "shop.sqrl")
    assert "not defined" in say("explain", "B2001")  # its text lies beside the modules
    assert {v["change"] for v in json.loads(say("plan", "shop.sqrl", "--json"))["changes"]} == {"added"}
    Path("first.test").write_text(SCENARIO, encoding="utf-8")
    assert "all passed" in say("test", "first.test")
    say("run", "shop.sqrl", "--once")
    assert {v["change"] for v in json.loads(say("plan", "shop.sqrl", "--json"))["changes"]} == {"kept"}
    assert "not stored" not in say("why", "shop.sqrl", "Customers", "customerid = 10")
    asked = say(
        "query", "SELECT count(*) AS n FROM Orders", "--table", "Orders=data/shop/Orders.json", "--format", "json"
    )
    assert json.loads(asked) == [{"n": 4}], asked
    serve(belvedere)


def serve(belvedere: str) -> None:
    """Serve the store and ask as a client would: health, GraphQL, REST, the console's page."""
    process = subprocess.Popen([belvedere, "serve", "shop.sqrl", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), url
        assert fetch(f"{url}/readyz")[0] == 200
        question = {"query": "{ customers { name orders(limit: 1) { total } } }"}
        status, text = fetch(f"{url}/graphql", question)
        assert (status, len(json.loads(text)["data"]["customers"])) == (200, 3), text
        status, text = fetch(f"{url}/rest/ProductDays?limit=1")
        assert (status, len(json.loads(text))) == (200, 1), text
        page = fetch(f"{url}/")[1]
        assert "<html" in page
        assert fetch(f"{url}/console/app.js")[0] == 200
        print(f"         belvedere serve answered on {url}", flush=True)
    finally:
        process.terminate()
        process.wait(timeout=30)


def fetch(url: str, body: Any = None) -> tuple[int, str]:
    """Status and text of an answer; a POST of JSON, where there is a body."""
    request = Request(url, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"})
    with OPENER.open(request, timeout=30) as answer:
        return answer.status, answer.read().decode()


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    walk(sys.argv[1])
