"""belvedere.toml: what it says, and what is wrong with it."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

from belvedere.compiler import compile_script
from belvedere.connectors import sensor_data
from belvedere.connectors.keys import sensors
from belvedere.connectors.project_file import load_project, read_project
from belvedere.connectors.registry import OWN_CONNECTORS, known_connectors
from belvedere.project import setting_rules, settings
from belvedere.project.connector_keys import ConnectorKeys, SourceKeys, TableKey
from belvedere.project.settings import KnownConnectors, ProjectSettings
from belvedere.terminal.diagnostics import render

FILE = Path("/project/belvedere.toml")


def read(text: str, **environ: str) -> ProjectSettings:
    return read_project(text, FILE.parent, FILE, environ)


def test_all_of_it() -> None:
    project = read(
        """
store = "postgresql://${env:WHO}:${env:SECRET}@db/views"
on_error = "null"
script_path = ["shared", "/elsewhere"]

[sources.sensordata]
path = "data/sensordata"
format = "csv"
delimiter = ";"
[sources.sensordata.options]
null = "NA"
[sources.sensordata.tables.Sensors]
columns = { sensorid = "BIGINT" }
primary_key = ["sensorid"]

[sources.made_up]
connector = "sensors"
seed = 7

[sinks.alerts]
path = "out"
[sinks.print]
connector = "console"

[spark]
"spark.sql.shuffle.partitions" = 4
"spark.ui.enabled" = false

[run]
driver_memory_mb = 64

[api]
port = 9000
""",
        WHO="me",
        SECRET="hidden",
    )
    assert project.diagnostics == ()
    assert project.store == "postgresql://me:hidden@db/views"
    assert (project.on_error, project.script_path) == ("null", (Path("/project/shared"), Path("/elsewhere")))
    assert project.driver_memory == 64 << 20
    source = project.source("SENSORDATA")
    assert source is not None
    assert (source.path, source.format) == (Path("/project/data/sensordata"), "csv")
    assert source.options == {"delimiter": ";", "null": "NA"}
    assert source.tables == {"Sensors": {"columns": {"sensorid": "BIGINT"}, "primary_key": ["sensorid"]}}
    assert project.sources["made_up"].options == {"seed": 7}
    assert project.sinks["alerts"].path == Path("/project/out")
    assert project.spark == {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"}
    assert project.api == {"port": 9000}


def test_secrets_are_not_shown() -> None:
    project = read('store = "postgresql://me:${env:SECRET}@db/views"', SECRET="hidden")
    assert "hidden" not in repr(project)


@pytest.mark.parametrize(
    ("text", "code", "line", "hint"),
    [
        ('stor = "x"', "B9103", 1, "did you mean `store`?"),
        ('\n[sources.a]\npath = "x"\nfromat = "csv"', "B9103", 4, "did you mean `format`?"),
        ("[sources.a]", "B9106", 1, 'write `path = "data/..."`'),
        ('[sources.a]\npath = "x"\nformat = "xml"', "B9104", 3, "write one of `json`, `csv`, `parquet`"),
        ('[sources.a]\nconnector = "fils"\npath = "x"', "B9104", 2, "did you mean `files`?"),
        ('[sources.a]\npath = "${env:NOWHERE}"', "B9105", 2, "set it: `export NOWHERE=...`"),
        ('[spark]\nstart = "fast"', "B9104", 2, "write one of `full`, `quick`"),
        ('on_error = "ignore"', "B9104", 1, "write one of `stop`, `null`, `quarantine`"),
        ("store = 1", "B9104", 1, 'write `store = "..."`'),
        ("sources = 1", "B9104", 1, "write `[sources]` and its keys below"),
        ("[sources]\na = 1", "B9104", 2, "write `[sources.a]`"),
        ("[api]\nport = 99999", "B9104", 2, None),
        ("[sinks.a]", "B9106", 1, 'write `path = "out/..."`'),
        ("store = ", "B9102", 1, None),
        ("a = 1\nb = [", "B9102", 2, None),
    ],
)
def test_what_is_wrong(text: str, code: str, line: int, hint: str | None) -> None:
    diagnostics = read(text).diagnostics
    found = next(d for d in diagnostics if d.code == code)
    assert found.hint == hint
    assert f"{FILE}:{line}:" in render([found], {str(FILE): text})


WRONG_API = {
    "host": ['""', "1", '"a b"', '"http://x"'],
    "port": ["99999", "-1", '"80"', "true", "8080.0"],
    "limit": ['"abc"', "0", "-1", "true", "2147483648"],
    "max_limit": ['"abc"', "0", "1.5"],
    "max_depth": ['"deep"', "0", "101"],
    "max_cost": ["[]", "0"],
    "max_push_bytes": ["0", '"1 MB"'],
    "max_push_rows": ["0", "{}"],
    "max_requests_per_address": ["0", '"x"', "0.5"],
    "max_requests_per_token": ["0", "[]"],
    "store_connections": ["0", '"8"', "1001"],
    "timeout_seconds": ["0", '"5 s"', "-1.0", "nan", "inf", "false"],
    "cors_origins": ["1", '["app.example"]', '["https://app.example/"]', "[true]"],
    "cors_headers": ["1", '"X-Team"', '["a b"]', "[true]", '[""]'],
    "longs": ["1", '"int"', "true"],
    "introspection": ["0", '"false"'],
    "token": ["1", '""', '"a b"', '"päss"', '"a\\n"'],
    "jwt": ["1", '"secret"', "[]"],
    "tokens": ["1", '"secret"', "[]"],
    "anonymous_role": ["1", '""', "[]"],
}


@pytest.mark.parametrize("key", setting_rules.API_RULES)
def test_every_value_of_the_api_is_checked(key: str) -> None:
    for value in WRONG_API[key]:
        project = read(f"store = 'sqlite:///a.db'\n[api]\n{key} = {value}")
        (found,) = project.diagnostics
        assert (found.code, found.span is not None, project.api) == ("B9104", True, {}), value
        assert found.message.startswith(f"`{key}` is ")
        assert "päss" not in found.message


def test_values_of_the_api_that_fit() -> None:
    text = """
[api]
host = "::1"
limit = 10
max_limit = 20
timeout_seconds = 0.5
cors_origins = ["https://app.example", "http://localhost:3000", "*"]
introspection = false
token = "${env:TOKEN}"
"""
    project = read(text, TOKEN="s3cret")
    assert (project.diagnostics, project.api["token"], len(project.api)) == ((), "s3cret", 7)
    assert read('[api]\ncors_origins = "https://app.example"').diagnostics == ()
    (found,) = read("[api]\nlimit = 30\nmax_limit = 20").diagnostics
    assert found.message == "`limit` is greater than `max_limit`"


def test_no_file_is_an_empty_project(tmp_path: Path) -> None:
    project = load_project(tmp_path)
    assert (project.file, project.sources, project.diagnostics) == (None, {}, ())


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "belvedere.toml").write_bytes(b"\xff\xfe")
    assert [d.code for d in load_project(tmp_path).diagnostics] == ["B9102"]


def test_the_options_of_the_sensors_are_known() -> None:
    assert tuple(f.name for f in fields(sensor_data.SensorOptions)) == sensors.OPTIONS


def test_only_connectors_know_their_keys(tmp_path: Path) -> None:
    """Of another package's connector any key is taken; of Belvedere's own those that its module of keys declares."""
    text = (
        '[sources.s]\nconnector = "telegraph"\nwire = 1\n[sources.s.tables.T]\ncolumns = { a = "INT" }\ntopic = "t"\n'
    )
    others = settings.read_project(text, tmp_path, FILE, KnownConnectors(others=lambda: ("telegraph",)), {})
    assert others.sources["s"].options == {"wire": 1}
    assert [d.message for d in others.diagnostics] == ["unknown key `topic` in [sources.s.tables.T]"]
    keys = ConnectorKeys(
        SourceKeys(("connector", "tables", "line"), table_keys={"topic": TableKey(str, 'topic = "t"')})
    )
    own = settings.read_project(text, tmp_path, FILE, KnownConnectors({"telegraph": keys}), {})
    assert [d.message for d in own.diagnostics] == ["unknown key `wire` in [sources.s]"]
    assert own.sources["s"].tables["T"]["topic"] == "t"
    for name in OWN_CONNECTORS:
        known = known_connectors().keys[name]
        assert (known.source is not None) == hasattr(import_module(f"belvedere.connectors.{name}"), "open_feed"), name
    rooms = Path(settings.__file__).parent.glob("*.py")
    assert [
        p.name for p in rooms for n in OWN_CONNECTORS if n != "files" and f'"{n}"' in p.read_text(encoding="utf-8")
    ] == ["settings.py"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    text = '[sources.shop]\npath = "data"\n\n[sources.shop.tables.Orders]\ncolumns = {id = "INT"}\n'
    (tmp_path / "belvedere.toml").write_text(text)
    project = load_project(tmp_path)
    (found,) = (
        d for d in compile_script("IMPORT shop.Customers", project=project).diagnostics if d.severity == "error"
    )
    assert found.code == "B6101"
    assert f"{tmp_path / 'data'} does not exist" in (found.hint or "")
