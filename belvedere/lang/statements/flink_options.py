"""`WITH ('connector' = ...)` of Flink's tables as settings of Belvedere's connectors.

In: the name of an input and its options as written, and the folder of the script. Out: `DeclaredSource`: the source and
the table in it, or none if rows are pushed, and a warning (B6119) for each setting without a counterpart. Reads no
files or services.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from belvedere.errors import BelvedereError, Diagnostic, Severity, fail
from belvedere.project.settings import Source
from belvedere.syntax.statement_tree import OptionClause, Part
from belvedere.syntax.wording import did_you_mean

CONNECTORS = ("filesystem", "kafka", "upsert-kafka", "datagen")
FORMATS = {"json": "json", "csv": "csv", "parquet": "parquet"}
MESSAGES = {
    "json": "json", "debezium-json": None, "avro": "avro", "avro-confluent": "avro", "protobuf": "protobuf",
    "raw": "text",
}  # fmt: skip
STARTING = {"earliest-offset": "earliest", "latest-offset": "latest"}
OURS = {"csv.field-delimiter": "delimiter", "csv.null-literal": "null"}
REGISTRY = ("avro-confluent.url", "value.avro-confluent.url", "avro-confluent.schema-registry.url")
IGNORED = frozenset(("properties.group.id",))


@dataclass(frozen=True)
class DeclaredSource:
    """Source of an input's rows according to its WITH clause; no source if clients push them."""

    source: Source | None
    table: str
    diagnostics: tuple[Diagnostic, ...] = ()


class _Options:
    """The options that are not read yet."""

    def __init__(self, name: str, options: Sequence[OptionClause]):
        self.name, self.first = name, options[0]
        self.given = {o.key.casefold(): o for o in options}

    def take(self, key: str) -> str | None:
        found = self.given.pop(key, None)
        return found.value if found is not None else None

    def need(self, key: str) -> str:
        if key not in self.given:
            raise self.fail(f"its connector needs `{key}`", f"write '{key}' = '...'")
        return str(self.take(key))

    def choice(self, key: str, known: Mapping[str, str | None]) -> str:
        clause = self.given.pop(key)
        found = known.get(clause.value.casefold())
        if found is None:
            names = [n for n, ours in known.items() if ours is not None]
            raise self.fail(f"`{key}` cannot be `{clause.value}`", did_you_mean(clause.value, names), clause)
        return found

    def fail(self, what: str, hint: str | None, clause: OptionClause | None = None) -> BelvedereError:
        return fail("B6117", f"WITH of `{self.name}`: {what}", span=(clause or self.first).span, hint=hint)

    def left(self) -> tuple[Diagnostic, ...]:
        """Return a warning for each unread option."""
        hint = "leave it out, or set what you need in belvedere.toml"
        return tuple(
            Diagnostic(
                "B6119", f"`{o.key}` has no counterpart here and is ignored", Severity.WARNING, o.span, hint=hint
            )
            for o in self.given.values()
        )


def declared_source(name: Part, options: Sequence[OptionClause], folder: Path) -> DeclaredSource:
    """Return the source that the options of an input describe. Raises B6117 if they cannot be read."""
    given = _Options(name.text, options)
    connector = given.need("connector").casefold()
    readers: Mapping[str, Callable[[], tuple[Source | None, str]]] = {
        "filesystem": lambda: _files(given, folder),
        "kafka": lambda: _kafka(given),
        "upsert-kafka": lambda: _kafka(given),
        "datagen": lambda: (None, given.name),
    }
    if connector not in readers:
        hint = "write a section [sources.NAME] into belvedere.toml, and IMPORT the table"
        if connector in ("print", "blackhole"):
            hint = "write EXPORT V TO sink.Name for a view's changes"
        if connector == "jdbc":
            hint = _database(given)
        raise given.fail(f"there is no connector `{connector}` for inputs of a script", hint)
    source, table = readers[connector]()
    found = given.left()
    if connector == "datagen":
        hint = "remove WITH, or import a source of belvedere.toml"
        message = "`datagen` makes no rows here: clients push the rows of this input"
        found = (Diagnostic("B6119", message, Severity.WARNING, options[0].span, hint=hint), *found)
    return DeclaredSource(source, table, found)


def _database(given: _Options) -> str:
    """Return a hint with the section of the project file for a database."""
    url, table = given.take("url") or "", given.take("table-name") or given.name
    if not url.startswith("jdbc:postgresql://"):
        return "Postgres is the only database that [sources.NAME] of belvedere.toml reads: export the table to files"
    *schema, name = table.split(".")
    place = url.removeprefix("jdbc:").partition("?")[0]
    further = f', schema = "{schema[-1]}"' if schema else ""
    return (
        f'write `[sources.db]` with connector = "postgres", url = "{place}"{further} into belvedere.toml, and '
        f"`IMPORT db.{name} AS {given.name}`"
    )


def _files(given: _Options, folder: Path) -> tuple[Source, str]:
    path = given.need("path")
    clause = given.first
    if "://" in path and not path.startswith("file://"):
        raise given.fail(f"`{path}` is not on this machine", "mount the bucket, and name its folder here", clause)
    place = folder / path.removeprefix("file://")
    form = given.choice("format", FORMATS) if "format" in given.given else None
    options = {ours: value for key, ours in OURS.items() if (value := given.take(key)) is not None}
    table = place.stem if place.suffix else place.name
    return Source(given.name, "files", place.parent, form, options), table


def _kafka(given: _Options) -> tuple[Source, str]:
    topic, servers = given.need("topic"), given.need("properties.bootstrap.servers")
    options: dict[str, Any] = {"servers": servers}
    if "scan.startup.mode" in given.given:
        options["starting"] = given.choice("scan.startup.mode", STARTING)
    key = next((k for k in ("value.format", "format") if k in given.given), None)
    form = given.choice(key, MESSAGES) if key is not None else "json"
    for name in REGISTRY:
        if (address := given.take(name)) is not None:
            options["registry"] = address
    for name in [n for n in given.given if n.startswith("properties.") and n not in IGNORED]:
        options[name.removeprefix("properties.")] = given.take(name)
    table: dict[str, Any] = {"topic": topic}
    if "key.format" in given.given:
        table["key_format"] = given.choice("key.format", MESSAGES)
    return Source(given.name, "kafka", None, form, options, {given.name: table}), given.name
