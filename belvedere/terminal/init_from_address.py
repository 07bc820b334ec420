"""A project from an address: a cluster of Kafka, or a database of Postgres.

In: `kafka://host:port` (settings of its client after a `?`, a user before an `@`) and its schema registry's address, or
`postgres://...`. Out: a `NewProject`. A password becomes an environment variable of the project, which is set in this
process only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from belvedere.errors import BelvedereError, fail
from belvedere.functions.spark_types import type_text
from belvedere.project.settings import FILE_NAME, Source
from belvedere.terminal.init_from import Imports, NewProject, left_out, no_tables, source_name
from belvedere.terminal.output import in_quotes

SCHEMES = ("kafka", "postgres", "postgresql")
BUS = "bus"
PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
SECRET = re.compile("password|secret|token")


def project_from_address(address: str, registry: str | None = None) -> NewProject:
    """Return the project over an address. Raises B9113 if it has no tables, and the errors of its connector."""
    return _from_kafka(address, registry) if urlsplit(address).scheme == "kafka" else _from_postgres(address)


# -- Kafka ------------------------------------------------------------------------------------------------------------


def _from_kafka(address: str, registry: str | None) -> NewProject:
    from belvedere.connectors.kafka.proposal import (
        ProposedTopic,
        proposed_topics,
    )  # loads PySpark, which takes a second

    options, written, to_do = _client(address)
    named, more = ("", []) if registry is None else _without_password(registry, f"{BUS}_registry_password".upper())
    imports, skipped, sections = Imports(), list[str](), dict[str, list[str]]()
    asked = options if registry is None else options | {"registry": registry}
    for found in proposed_topics(Source(BUS, "kafka", options=asked)):
        if not isinstance(found, ProposedTopic):
            reported = found.diagnostics[0]
            skipped.append(f"{reported.message}: it is skipped" + (f"; {reported.hint}" if reported.hint else ""))
            continue
        source = BUS if found.format == "json" else f"{BUS}_{found.format}"
        if source not in sections:
            form = [] if found.format == "json" else [f'format = "{found.format}"']
            if found.format in ("avro", "protobuf"):
                form.append(f"registry = {in_quotes(named)}")
                to_do += [t for t in more if t not in to_do]
            sections[source] = [
                f'[sources.{source}]\nconnector = "kafka"\n' + "\n".join([*_lines(written), *form]) + "\n"
            ]
        name = imports.free(re.sub(r"\W+", "_", found.topic, flags=re.ASCII).strip("_") or "topic")
        name = name if not name[0].isdigit() else f"topic_{name}"
        imports.add(source, name, found.columns)
        sections[source].append(f"[sources.{source}.tables.{name}]\n" + "\n".join(_declared(found)) + "\n")
    if not imports.statements:
        raise no_tables(
            "no topic can become a table",
            "send JSON or text messages to a topic, or pass `--registry` for other formats",
            skipped,
        )
    project = "\n".join(part for parts in sections.values() for part in parts)
    return NewProject(
        {Path(f"{BUS}.sqrl"): "\n".join(imports.statements), Path(FILE_NAME): project}, tuple(skipped), tuple(to_do)
    )


def _client(address: str) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Return the options of the source, their form in the project file, and the remaining steps for the user."""
    parts = urlsplit(address)
    user, _, servers = parts.netloc.rpartition("@")
    if not servers:
        raise fail("B6200", "the address has no servers", hint="write kafka://host:9092")
    options: dict[str, Any] = {"servers": servers, **dict(parse_qsl(parts.query))}
    if user:
        name, _, password = user.partition(":")
        options |= {"sasl.username": unquote(name), "sasl.password": unquote(password)}
    written, to_do = dict[str, str](), list[str]()
    for key, value in options.items():
        variable = f"{BUS}_{key.rpartition('.')[2]}".upper()
        is_secret = SECRET.search(key) is not None
        written[key] = f"${{env:{variable}}}" if is_secret else value
        to_do += [f"set the environment variable {variable} to the value of {key}"] if is_secret else []
    return options, written, to_do


def _declared(found: Any) -> list[str]:
    lines = [f"topic = {in_quotes(found.topic)}"]
    lines.append(
        "columns = { " + ", ".join(f"{_key(f.name)} = {in_quotes(type_text(f.type))}" for f in found.columns) + " }"
    )
    if found.has_other_keys:
        from belvedere.connectors.kafka.proposal import KEY_COLUMN  # loads PySpark, which takes a second

        lines[-1] = lines[-1].replace(" }", f', {KEY_COLUMN} = "STRING" }}')
        lines.append(f'metadata = {{ {KEY_COLUMN} = "key" }}')
    if found.primary_key:
        lines.append(f"primary_key = [{', '.join(map(in_quotes, found.primary_key))}]")
    if found.key_format:
        lines.append(f"key_format = {in_quotes(found.key_format)}")
    return lines


def _lines(written: Mapping[str, str]) -> list[str]:
    return [f"{_key(k)} = {in_quotes(v)}" for k, v in written.items()]


def _key(name: str) -> str:
    return name if PLAIN_KEY.fullmatch(name) else in_quotes(name)


# -- Postgres ---------------------------------------------------------------------------------------------------------


def _from_postgres(address: str) -> NewProject:
    from belvedere.connectors.postgres.server import Server  # loads the driver

    name = source_name(urlsplit(address).path, "database")
    url, to_do = _without_password(address, f"{name}_password".upper())
    imports, skipped, requested = Imports(), list[str](), list[Any]()
    with Server(Source(name, "postgres", options={"url": address})) as server:
        for table in server.tables():
            try:
                found = server.table(table)
            except BelvedereError as error:
                skipped.append(left_out(table, error))
                continue
            requested.append(found)
            imports.add(name, table, found.schema)
        if not requested:
            hint = "tables need a primary key, and this role needs the right to read them"
            raise no_tables(f'schema "{server.schema}" of the database has no table', hint, skipped)
        lines = [f"[sources.{name}]", 'connector = "postgres"', f"url = {in_quotes(url)}"]
        if server.confirmed() is not None:  # another store's
            lines.append(f'slot = "belvedere_{name}"')
        to_do += _publication(server, requested)
    project = "\n".join(lines) + "\n"
    return NewProject(
        {Path(f"{name}.sqrl"): "\n".join(imports.statements), Path(FILE_NAME): project}, tuple(skipped), tuple(to_do)
    )


def _publication(server: Any, requested: list[Any]) -> list[str]:
    """Return the statements that the owner of the tables has to run."""
    from belvedere.connectors.postgres.publication import addition_statement, publication_statement  # loads the driver

    ((level,),) = server.ask("SELECT current_setting('wal_level')")
    found = [] if level == "logical" else ["on the server: ALTER SYSTEM SET wal_level = logical; then restart it"]
    rows = server.ask(
        "SELECT tablename FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s",
        server.publication,
        server.schema,
    )
    published = {n for (n,) in rows}
    missing = [t.name for t in requested if t.name not in published]
    if not missing:
        return found
    if server.ask("SELECT 1 FROM pg_publication WHERE pubname = %s", server.publication):
        return [*found, f"the owner of the tables runs: {addition_statement(server, missing)};"]
    return [*found, f"the owner of the tables runs: {publication_statement(server, missing)};"]


def _without_password(address: str, variable: str) -> tuple[str, list[str]]:
    """Return the address with a variable in place of its password, and the remaining steps for the user."""
    parts = urlsplit(address)
    user, at, host = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    reported = f"${{env:{variable}}}"
    query = [(k, v) for k, v in parse_qsl(parts.query) if k != "password"]
    given = password or quote(dict(parse_qsl(parts.query)).get("password", ""), safe="")
    netloc = f"{name}:{reported}@{host}" if given else f"{name}{at}{host}"
    written = urlunsplit((parts.scheme, netloc, parts.path, urlencode(query, safe="/"), ""))
    return written, [f"set the environment variable {variable} to the password, percent-encoded"] if given else []
