"""Names with dashes need no quotes where only a table or a source can stand; elsewhere a dash subtracts."""

from __future__ import annotations

from pathlib import Path

import pytest

from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project
from belvedere.syntax.fmt.script_layout import format_script

SCRIPT = """CREATE TABLE order-items (id INT, qty INT, PRIMARY KEY (id));
CREATE STREAM stock-2024 (id INT, qty INT) KEEP 7 DAYS;
order-items.less := qty-1;
net-items := SELECT o.id, o.qty-s.qty AS d FROM order-items o JOIN stock-2024 s ON o.id = s.id
    WHERE o.qty-s.qty IS DISTINCT FROM o.id-1;
Late := DISTINCT stock-2024 ON id ORDER BY qty;
by-item(id INT) := SELECT d-1 AS e FROM (SELECT * FROM net-items) WHERE id = :id;
One := SELECT 1 AS x;two-b := SELECT 2 AS x;
Days := SELECT extract(DAY FROM now())-1 AS day;
EXPORT net-items TO my-sink.the-file;
"""


def quoted(text: str) -> str:
    names = ("order-items", "stock-2024", "net-items", "by-item", "my-sink", "the-file", "two-b")
    for name in names:
        text = text.replace(name, f"`{name}`")
    return text


def test_names_with_dashes_are_names() -> None:
    compiled, again = compile_script(SCRIPT), compile_script(quoted(SCRIPT))
    assert [d.code for d in compiled.diagnostics if d.severity == "error"] == []
    assert set(compiled.catalog.views) == {"order-items", "net-items", "Late", "One", "two-b", "Days"}
    assert list(compiled.catalog.templates) == ["by-item"]
    assert {i: v.plan.schema for i, v in compiled.catalog.views.items()} == {
        i: v.plan.schema for i, v in again.catalog.views.items()
    }
    assert [str(v.plan) for v in compiled.catalog.views.values()] == [str(v.plan) for v in again.catalog.views.values()]
    assert format_script(format_script(SCRIPT)) == format_script(SCRIPT)
    assert "order-items o" in format_script(SCRIPT)


def test_imports_take_dashes(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "day-orders.jsonl").write_text('{"id": 1, "qty": 2}\n')
    (tmp_path / "belvedere.toml").write_text('[sources.data-catalog]\npath = "rows"\n')
    project = load_project(tmp_path)
    for text in ("IMPORT data-catalog.day-orders;\nV := SELECT id-qty AS d FROM day-orders;",
                 "IMPORT data-catalog.day-orders AS my-orders\nV := SELECT id-qty AS d FROM my-orders;",
                 "IMPORT data-catalog.*\nV := SELECT id-qty AS d FROM day-orders;"):  # fmt: skip
        compiled = compile_script(text, path=tmp_path / "s.sqrl", project=project)
        assert [d for d in compiled.diagnostics if d.severity == "error"] == []
        assert compiled.catalog.views["V"].schema.visible[0].name == "d"


@pytest.mark.parametrize(
    "text",
    [
        "IMPORT data-catalog.Orders;\nV := SELECT * FROM Orders;",
        "IMPORT data-catalog.Orders\nIMPORT data-catalog.Items\nV := SELECT id FROM Orders JOIN Items USING (id)",
        "IMPORT data-catalog.*\nV := SELECT * FROM Orders;\nOrders.x := 1;\nEXPORT Orders TO a.B",
    ],
)
def test_a_missing_source_is_told_once(text: str) -> None:
    assert [(d.code, d.message) for d in compile_script(text).diagnostics] == [
        ("B6100", "`data-catalog` is neither a configured source nor a script")
    ]
