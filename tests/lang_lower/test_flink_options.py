"""`WITH ('connector' = ...)` of an input as a source of Belvedere's connectors; unsupported options are warnings."""

from __future__ import annotations

from pathlib import Path

import pytest

from belvedere.catalog.inputs import InputKind
from belvedere.compiler import Compiled, compile_script
from belvedere.connectors.feeds import feed_request_of
from belvedere.connectors.project_file import load_project


def compiled(home: Path, options: str, columns: str = "id INT, PRIMARY KEY (id) NOT ENFORCED") -> tuple[str, Compiled]:
    text = f"CREATE TABLE Orders ({columns}) WITH ({options});\nV := SELECT id FROM Orders;"
    return text, compile_script(text, path=home / "main.sqrl")


def warned(text: str, found: Compiled) -> list[str]:
    spans = [d.span for d in found.diagnostics if d.code == "B6119" and d.span is not None]
    return [text[s.start : s.end] for s in spans]


def test_a_folder(tmp_path: Path) -> None:
    text, found = compiled(
        tmp_path,
        "'connector' = 'filesystem', 'path' = 'data/orders', 'format' = 'csv', 'csv.field-delimiter' = ';', "
        "'source.monitor-interval' = '1 s'",
    )
    assert found.ok, found.diagnostics
    table = found.catalog.inputs["Orders"]
    assert (table.kind, table.primary_key) == (InputKind.IMPORT, ("id",))
    request = feed_request_of(table, load_project(tmp_path))
    assert (request.source.connector, request.source.path, request.table) == (
        "files",
        (tmp_path / "data").resolve(),
        "orders",
    )
    assert (request.source.format, request.options["delimiter"]) == ("csv", ";")
    assert warned(text, found) == ["'source.monitor-interval' = '1 s'"]


def test_one_file(tmp_path: Path) -> None:
    _, found = compiled(tmp_path, f"'connector' = 'filesystem', 'path' = 'file://{tmp_path}/a.jsonl'")
    request = feed_request_of(found.catalog.inputs["Orders"], load_project(tmp_path))
    assert (request.source.path, request.table, request.source.format) == (tmp_path, "a", None)


@pytest.mark.parametrize("connector", ["kafka", "upsert-kafka"])
def test_a_topic(tmp_path: Path, connector: str) -> None:
    text, found = compiled(
        tmp_path,
        f"'connector' = '{connector}', 'topic' = 'shop.orders', 'properties.bootstrap.servers' = 'k:9092', "
        "'properties.security.protocol' = 'SSL', 'properties.group.id' = 'g', 'scan.startup.mode' = 'latest-offset', "
        "'key.format' = 'raw', 'value.format' = 'avro-confluent', 'value.avro-confluent.url' = 'http://r:8081'",
    )
    assert found.ok, found.diagnostics
    request = feed_request_of(found.catalog.inputs["Orders"], load_project(tmp_path))
    assert (request.source.connector, request.source.format) == ("kafka", "avro")
    assert request.options == {
        "servers": "k:9092", "starting": "latest", "registry": "http://r:8081", "security.protocol": "SSL",
    }  # fmt: skip
    assert request.source.declared("orders") == {"topic": "shop.orders", "key_format": "text"}
    assert warned(text, found) == ["'properties.group.id' = 'g'"]


def test_generated_rows_are_pushed(tmp_path: Path) -> None:
    text, found = compiled(tmp_path, "'connector' = 'datagen', 'rows-per-second' = '1'")
    assert found.ok, found.diagnostics
    assert (found.catalog.inputs["Orders"].kind, found.catalog.inputs["Orders"].source) == (InputKind.TABLE, None)
    assert warned(text, found) == ["'connector' = 'datagen'", "'rows-per-second' = '1'"]


@pytest.mark.parametrize(
    ("options", "columns", "place", "said"),
    [
        ("'connector' = 'jdbc', 'url' = 'x'", "id INT", "'connector' = 'jdbc'", "no connector `jdbc`"),
        ("'path' = 'a'", "id INT", "'path' = 'a'", "`connector`"),
        ("'connector' = 'filesystem'", "id INT", "'connector' = 'filesystem'", "`path`"),
        ("'connector' = 'filesystem', 'path' = 's3://b/a'", "id INT", "'connector' = 'filesystem'",
         "not on this machine"),
        ("'connector' = 'filesystem', 'path' = 'a', 'format' = 'orc'", "id INT", "'format' = 'orc'", "`orc`"),
        ("'connector' = 'filesystem', 'path' = 'a'", "id STRING METADATA FROM 'uuid'", "id STRING METADATA FROM "
                                                                                       "'uuid'", "METADATA"),
    ],
)  # fmt: skip
def test_refused(tmp_path: Path, options: str, columns: str, place: str, said: str) -> None:
    text, found = compiled(tmp_path, options, columns)
    (error,) = (d for d in found.diagnostics if d.severity == "error")
    assert (error.code, error.span is not None) == ("B6117", True)
    assert error.span is not None
    assert text[error.span.start : error.span.end] == place
    assert said in error.message


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (
            "'url' = 'jdbc:postgresql://crm:5432/shop?ssl=true', 'table-name' = 'sales.orders'",
            'write `[sources.db]` with connector = "postgres", url = "postgresql://crm:5432/shop", schema = "sales" '
            "into belvedere.toml, and `IMPORT db.orders AS Orders`",
        ),
        ("'url' = 'jdbc:mysql://crm/shop', 'table-name' = 'orders'", "Postgres is the only database"),
    ],
)
def test_a_database_is_a_source_of_the_project_file(tmp_path: Path, options: str, hint: str) -> None:
    _, found = compiled(tmp_path, f"'connector' = 'jdbc', {options}")
    (error,) = [d for d in found.diagnostics if d.severity == "error"]
    assert error.code == "B6117"
    assert (error.hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("columns", "clause", "hint"),
    [
        ("id INT, n INT DEFAULT 3", "DEFAULT", "`coalesce(n, 3) AS n`"),
        ("id INT, CHECK (id > 1)", "CHECK", "WHERE of a view"),
        ("id INT, t TIMESTAMP METADATA FROM 'timestamp'", "METADATA", "remove `t`: `_ingest_time`"),
    ],
)
def test_what_only_pushed_rows_have(tmp_path: Path, columns: str, clause: str, hint: str) -> None:
    _, found = compiled(tmp_path, "'connector' = 'filesystem', 'path' = 'a'", columns)
    (error,) = [d for d in found.diagnostics if d.severity == "error"]
    assert error.message == f"{clause} is for rows that clients push, and WITH names another source"
    assert hint in (error.hint or "")


def test_comments_describe_columns(tmp_path: Path) -> None:
    _, found = compiled(tmp_path, "'connector' = 'filesystem', 'path' = 'a'", "id INT COMMENT 'its number'")
    assert found.ok, found.diagnostics
    assert found.catalog.inputs["Orders"].schema["id"].doc == "its number"
