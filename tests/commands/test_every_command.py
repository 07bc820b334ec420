"""All commands on one project that `init` creates and `run --once` fills; `calibrate` and `lsp` are tested
elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest

from belvedere.cli import run

STORE = "sqlite:///restored.db"
SCENARIO = """=== orders count
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
BROKEN = '{"orderid": no number}\n'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a store of one epoch, in which one row was rejected."""
    folder = tmp_path_factory.mktemp("shop")
    assert run(["init", str(folder)]) == 0
    orders = folder / "data" / "shop" / "Orders.json"
    orders.write_text(orders.read_text(encoding="utf-8") + BROKEN, encoding="utf-8")
    for name, more in (
        ("shop.sqrl", "\nEXPORT LargeOrders TO log.Large;\n"),
        ("belvedere.toml", '\n[sinks.log]\nconnector = "console"\n'),
    ):
        (folder / name).write_text((folder / name).read_text(encoding="utf-8") + more, encoding="utf-8")
    (folder / "first.test").write_text(SCENARIO, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "belvedere.cli", "run", "shop.sqrl", "--once", "--port", "0"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "epoch 1" in done.stdout + done.stderr
    assert '"total"' in done.stdout, "the sink prints events"
    return folder


@pytest.fixture
def there(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(project)
    return project


pytestmark = pytest.mark.spark  # which fills the store


@pytest.mark.smoke(
    "command init", "command run", "command rejected", "connector files", "connector console", "store sqlite"
)
def test_rows_that_do_not_fit_are_listed(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rejected", "list", "shop.sqrl", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rejected"]
    assert "no number" in json.dumps(row)


@pytest.mark.smoke("command check", "command fmt")
def test_the_script_is_fine_and_in_its_layout(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "shop.sqrl"]) == 0
    assert "shop.sqrl: fine" in capsys.readouterr().out
    before = Path("shop.sqrl").read_text(encoding="utf-8")
    assert run(["fmt", "shop.sqrl"]) == 0
    assert Path("shop.sqrl").read_text(encoding="utf-8") == before


@pytest.mark.smoke("command explain", "command schema")
def test_it_is_explained(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "shop.sqrl"]) == 0
    assert "ProductDays" in capsys.readouterr().out
    assert run(["schema", "shop.sqrl", "--graphql"]) == 0
    assert "type ProductDays" in capsys.readouterr().out


@pytest.mark.smoke("command plan", "command sources", "command advise", "command resend")
def test_a_second_start_keeps_everything(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "shop.sqrl", "--json"]) == 0
    assert {v["change"] for v in json.loads(capsys.readouterr().out)["changes"]} == {"kept"}
    assert run(["sources", "shop.sqrl", "--json"]) == 0
    assert "Orders" in capsys.readouterr().out
    assert run(["advise", "shop.sqrl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert run(["resend", "shop.sqrl", "log.Nothing"]) == 1
    assert "B6114" in capsys.readouterr().err
    assert run(["resend", "shop.sqrl", "log.Large", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"again": ["log.Large"]}


@pytest.mark.smoke("command query", "command test")
def test_queries_and_tests_run_on_spark(there: Path, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked = "SELECT count(*) AS n FROM Customers"
    assert run(["query", asked, "--table", "Customers=data/shop/Customers.json", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["n"] > 0
    assert run(["test", "first.test"]) == 0
    assert "all passed" in capsys.readouterr().out


@pytest.mark.smoke("command why", "command why-not")
def test_a_row_and_a_missing_row_are_explained(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["why", "shop.sqrl", "Customers", "customerid = 10"]) == 0
    assert "CustomerChanges" in capsys.readouterr().out
    assert run(["why-not", "shop.sqrl", "Customers", "customerid = -1"]) == 0
    assert "CustomerChanges" in capsys.readouterr().out


@pytest.mark.smoke("command backup", "command restore", "command serve")
def test_a_restored_copy_is_served(there: Path, tmp_path: Path) -> None:
    assert run(["backup", "shop.sqrl", str(tmp_path / "copy")]) == 0
    assert run(["restore", "shop.sqrl", str(tmp_path / "copy"), "--store", STORE]) == 0
    arguments = [sys.executable, "-m", "belvedere.cli", "serve", "shop.sqrl", "--port", "0", "--store", STORE]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with build_opener(ProxyHandler({})).open(f"{url}/rest/ProductDays?limit=1", timeout=30) as answer:
            assert len(json.load(answer)) == 1
    finally:
        process.terminate()
        process.wait(timeout=30)
