"""A view's own order wherever it is served: endpoint, pages, template, relationship, REST, Workbench, store, export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from belvedere.cli import run
from belvedere.workbench.workbench import Workbench

SCRIPT = """
CREATE TABLE T (id INT, name STRING, price DOUBLE, PRIMARY KEY (id));
CREATE TABLE U (id INT, least INT, PRIMARY KEY (id));
Dear := SELECT id, name FROM T ORDER BY price DESC NULLS LAST, name;
First := SELECT id, name FROM T ORDER BY name DESC LIMIT 3;
Two := SELECT id FROM Dear LIMIT 2;
U.dear := JOIN Dear d ON d.id > _.least;
Q(x STRING) := SELECT id FROM Dear WHERE name <> :x LIMIT 2;
CREATE SUBSCRIPTION Seen ON ADD AS SELECT id FROM Dear;
"""
ROWS = [(1, "b", 1.0), (2, "a", 5.0), (3, "c", None), (4, "d", 5.0), (5, "e", float("nan")), (6, "f", 2.0)]
ORDER = [5, 2, 4, 6, 1, 3]


def ids(rows: Any) -> list[int]:
    return [r["id"] for r in rows]


@pytest.mark.usefixtures("each_store")
def test_a_view_is_served_in_its_order(executor: Any) -> None:
    wb = Workbench(SCRIPT, spark=executor)
    wb.insert("T", [{"id": i, "name": n, "price": p} for i, n, p in ROWS[:4]])
    wb.step()
    wb.insert("T", [{"id": i, "name": n, "price": p} for i, n, p in ROWS[4:]])
    wb.insert("U", [{"id": 1, "least": 2}])
    wb.step()
    assert ids(wb.rows("Dear")) == ids(wb.batch("Dear")) == ORDER
    assert ids(wb.rows("First")) == [6, 5, 4]
    assert sorted(ids(wb.rows("Two"))) == [2, 5]

    def asked(query: str) -> Any:
        answer = wb.graphql(query)
        assert not answer.get("errors"), answer
        (found,) = answer["data"].values()
        return found

    assert ids(asked("{ dear { id } }")) == ORDER
    assert ids(asked("{ first { id } }")) == [6, 5, 4]
    assert ids(asked("{ dear(order: [{id: ASC}]) { id } }")) == [1, 2, 3, 4, 5, 6]
    assert ids(asked('{ q(x: "e") { id } }')) == [2, 4]
    assert ids(asked("{ u { dear { id } } }")[0]["dear"]) == [5, 4, 6, 3]
    seen: list[int] = []
    after = ""
    while True:
        page = asked(f"{{ dearPage(first: 2{after}) {{ nodes {{ id }} endCursor hasNextPage }} }}")
        seen += ids(page["nodes"])
        after = f', after: "{page["endCursor"]}"'
        if not page["hasNextPage"]:
            break
    assert seen == ORDER
    wb.restart()
    assert ids(wb.rows("Dear")) == ORDER
    wb.close()


def test_a_query_of_a_store_has_the_order(executor: Any, tmp_path: Path, capsys: Any) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    wb = Workbench(SCRIPT, url, spark=executor)
    wb.insert("T", [{"id": i, "name": n, "price": p} for i, n, p in ROWS])
    wb.step()
    wb.close()
    for query, found in (("SELECT id FROM Dear", ORDER), ("SELECT id FROM Dear LIMIT 2", ORDER[:2])):
        assert run(["query", query, "--store", url, "--format", "csv"]) == 0
        assert [int(line) for line in capsys.readouterr().out.split()[1:]] == found
    assert run(["query", "SELECT * FROM Dear ORDER BY id DESC LIMIT 1", "--store", url, "--format", "csv"]) == 0
    assert capsys.readouterr().out.split() == ["id,name", "6,f"]
