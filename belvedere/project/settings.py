"""The project file: sources, sinks, store, Spark and API settings for the scripts in its folder.

In: the folder of a script, and optionally a profile (`belvedere.project.profiles`). Out: a `ProjectSettings`, with
diagnostics for errors in the file. Values may contain `${env:NAME}` or `${env:NAME:-default}`. It opens no source:
connectors (`belvedere.connectors`) find tables and their columns.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from belvedere.errors import Diagnostic, Span
from belvedere.project.api_settings import ApiReader
from belvedere.project.connector_keys import DOTTED, TABLE_KEYS, ConnectorKeys, TableKey
from belvedere.project.profiles import (
    DEFAULT_CONNECTOR,
    PROFILE_KEY,
    PROFILE_VARIABLE,
    chosen_tables,
    given_variables,
    laid_over,
)
from belvedere.project.role_settings import RoleSettings
from belvedere.project.setting_rules import OPTIMIZE_RULES, RUN_RULES

if TYPE_CHECKING:
    import pyarrow as pa

    from belvedere.functions.project_functions import OwnFunction

FILE_NAME = "belvedere.toml"
PROFILE_KEYS = (
    *(
        "store",
        "on_error",
        "script_path",
        "variables",
        "sources",
        "sinks",
        "spark",
        "run",
        "api",
        "roles",
        "optimize",
        "functions",
    ),
)
TOP_KEYS = (*PROFILE_KEYS, PROFILE_KEY)
DRIVER_MEMORY_MB = 1024
STARTS = ("full", "quick")
"""Modes of Spark's JVM: the default compilation, or quick compilation for a fast start."""
OWN_FIELDS = ("connector", "path", "format", "options", "tables", "new_columns")
"""Keys of sources and sinks that are fields of `Source` and `Sink`; all others are options of the connector."""
NEW_COLUMNS = ("ignore", "add", "reject")
ON_ERROR = ("stop", "null", "quarantine")


@dataclass(frozen=True)
class Source:
    """A `[sources.name]`: the origin of imports. `path` is absolute. `options` may contain secrets, so it is never
    shown.

    `tables` are the `[sources.name.tables.T]`: `columns` (name -> SQL type) and `primary_key`, if they are not inferred
    from rows.
    """

    name: str
    connector: str = "files"
    path: Path | None = None
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stored: Mapping[str, pa.Schema] = field(default_factory=dict)
    """Columns of tables as recorded in the store, which inferred them from rows at its first start."""
    new_columns: str = "ignore"
    """Action for a new column in later files: `ignore`, `add` (at the next start), or `reject` the rows that have it.
    """

    def declared(self, table: str) -> Mapping[str, Any]:
        """Return the section `[sources.name.tables.T]` of a table, in any case; empty if there is none."""
        return next((d for n, d in self.tables.items() if n.casefold() == table.casefold()), {})


class TableFinder(Protocol):
    """Finder of the tables of sources: `belvedere.connectors.registry`."""

    def tables(self, source: Source) -> Sequence[str]: ...

    def columns(self, source: Source, table: str) -> pa.Schema: ...

    def file_columns(self, file: Path) -> pa.Schema: ...


@dataclass(frozen=True)
class Sink:
    """A `[sinks.name]`: the target of exports."""

    name: str
    connector: str = "files"
    path: Path | None = None
    format: str = "json"
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)


def read_file(path: Path) -> str:
    """Return the text of a file. Raises OSError and UnicodeDecodeError."""
    return path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class ProjectSettings:
    """Settings of `belvedere.toml`; an empty project if there is no file. `on_error` is `quarantine`, `null` or `stop`.

    If the file does not set it, it is empty: a run then uses `quarantine`, a Workbench and `belvedere test` use `stop`.
    """

    directory: Path
    file: Path | None = None
    text: str = field(default="", repr=False)
    store: str | None = field(default=None, repr=False)
    on_error: str = ""
    script_path: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    """Values of `{{name}}` in scripts: from the file, then from the environment; `--var` overrides both."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)
    driver_memory: int = DRIVER_MEMORY_MB << 20
    """Maximum bytes of an epoch's rows in the memory of the driver."""
    state: Path | str | None = None
    """Folder or URL of the operators' state; None: beside the store."""
    retain: str = "1 minute"
    """Time for which files of the state remain after the last epoch that uses them."""
    ahead: str = "1 day"
    """Maximum time by which a pushed event time may be ahead of the clock and still advance a bound."""
    standby: bool = False
    """Whether a run waits while another run holds the store, and then takes over."""
    lease: str | None = None
    """Time after which a lease that its run does not renew expires; None: the default of the database."""
    state_copies: int = 10 << 30
    """Maximum bytes of the local cache for remote state."""
    scratch: Path | None = None
    """Folder for files between the driver and executors; None: beside the store."""
    api: Mapping[str, Any] = field(default_factory=dict, repr=False)
    roles: Mapping[str, RoleSettings] = field(default_factory=dict)
    optimize: Mapping[str, Any] = field(default_factory=dict)
    """Expected load of requests: `latency`, `rate`."""
    module: Path | None = None
    """Python module with the project's user-defined functions."""
    module_place: Span | None = None
    functions: Mapping[str, OwnFunction] = field(default_factory=dict, compare=False, repr=False)
    """Functions of its module by folded name, after the import (`belvedere.compiler`)."""
    diagnostics: tuple[Diagnostic, ...] = ()
    finder: TableFinder | None = field(default=None, compare=False, repr=False)
    """Finder of its sources' tables."""
    read_script: Callable[[Path], str] = field(default=read_file, compare=False, repr=False)
    """Function that reads imported scripts: an editor's text may differ from the saved file."""

    def source(self, name: str) -> Source | None:
        """Return the source with that name, in any case."""
        return next((s for key, s in self.sources.items() if key.casefold() == name.casefold()), None)

    def sink(self, name: str) -> Sink | None:
        """Return the sink with that name, in any case."""
        return next((s for key, s in self.sinks.items() if key.casefold() == name.casefold()), None)

    def with_columns(self, stored: Mapping[str, Mapping[str, pa.Schema]]) -> ProjectSettings:
        """Return the project with the columns that a store has recorded for tables of sources, by source and table."""
        return replace(self, sources={n: replace(s, stored=stored.get(s.name, {})) for n, s in self.sources.items()})


@dataclass(frozen=True)
class KnownConnectors:
    """The connectors that a project file may name."""

    keys: Mapping[str, ConnectorKeys] = field(default_factory=dict)
    """Keys of Belvedere's own connectors."""
    others: Callable[[], tuple[str, ...]] = tuple
    """Function that finds connectors of other packages. It is called for unknown names; these connectors check their
    own keys."""


def load_project(
    directory: Path | str, connectors: KnownConnectors, environ: Mapping[str, str] | None = None
) -> ProjectSettings:
    """Read `belvedere.toml` of a folder. Invalid values are reported in `diagnostics`, and omitted.

    The environment's BELVEDERE_PROFILE chooses a profile. Raises B9108 if the file does not define it.
    """
    directory = Path(directory).resolve()
    file = directory / FILE_NAME
    environ = os.environ if environ is None else environ
    if not file.is_file():
        chosen_tables({}, environ.get(PROFILE_VARIABLE))
        return ProjectSettings(directory, variables=given_variables(environ))
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        wrong = Diagnostic("B9102", f"{FILE_NAME} cannot be read: {error}")
        return ProjectSettings(directory, file, variables=given_variables(environ), diagnostics=(wrong,))
    return read_project(text, directory, file, connectors, environ)


def read_project(
    text: str, directory: Path, file: Path, connectors: KnownConnectors, environ: Mapping[str, str]
) -> ProjectSettings:
    """Return the project in the text of its file."""
    reader = _ProjectReader(text, file, directory, environ, connectors)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reader.report("B9102", f"{FILE_NAME} is not TOML: {_first_lower(str(error))}", reader.at_message(str(error)))
        return ProjectSettings(directory, file, text, diagnostics=tuple(reader.diagnostics))
    return reader.project(raw)


def _first_lower(text: str) -> str:
    return text[:1].lower() + text[1:]


class _ProjectReader(ApiReader):
    """Reads the parsed file, section by section."""

    def __init__(self, text: str, file: Path, directory: Path, environ: Mapping[str, str], connectors: KnownConnectors):
        super().__init__(text, file, directory, environ)
        self.connectors = connectors

    def project(self, raw: Mapping[str, Any]) -> ProjectSettings:
        self.known(raw, TOP_KEYS, "")
        for name, profile in self.tables(raw, PROFILE_KEY).items():
            self.known(profile, PROFILE_KEYS, f"{PROFILE_KEY}.{name}")
        chosen = self.environ.get(PROFILE_VARIABLE)
        self.above = chosen_tables(raw, chosen)
        self.above_section = f"{PROFILE_KEY}.{chosen}"
        below = {k: v for k, v in raw.items() if k != PROFILE_KEY}
        values = {k: self.expand(v, k, "") for k, v in laid_over(below, self.above).items()}
        run = self.ruled(values, "run", RUN_RULES)
        module = self.module(values)
        return ProjectSettings(
            self.directory,
            self.file,
            self.text,
            store=self.text_value(values, "store", "", None),
            on_error=self.choice(values, "on_error", "", ON_ERROR, "stop") if "on_error" in values else "",
            script_path=tuple(self.directory / str(p) for p in self.list_value(values, "script_path")),
            variables=self.variables(values, "variables") | given_variables(self.environ),
            sources={n: self.source(n, t) for n, t in self.tables(values, "sources").items()},
            sinks={n: self.sink(n, t) for n, t in self.tables(values, "sinks").items()},
            spark=self.spark(values),
            driver_memory=run.get("driver_memory_mb", DRIVER_MEMORY_MB) << 20,
            state=run.get("state") if "://" in run.get("state", "://") else self.directory / run["state"],
            scratch=self.directory / run["scratch"] if "scratch" in run else None,
            retain=run.get("retain", "1 minute"),
            ahead=run.get("ahead", "1 day"),
            standby=run.get("standby", False),
            lease=run.get("lease"),
            state_copies=run.get("state_cache_mb", 10 << 10) << 20,
            api=self.api(values),
            roles={n: self.role(n, t) for n, t in self.tables(values, "roles").items()},
            optimize=self.ruled(values, "optimize", OPTIMIZE_RULES),
            module=module,
            module_place=self.at("functions", "module") if module is not None else None,
            diagnostics=tuple(self.diagnostics),
        )

    def spark(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Return `[spark]`: Belvedere's own settings, and Spark's settings by name."""
        table = self.table(values, "spark")
        if "start" in table:
            self.choice(table, "start", "spark", STARTS, STARTS[0])
        return {k: _spark_text(v) for k, v in table.items()}

    def module(self, values: Mapping[str, Any]) -> Path | None:
        """Return the path of `[functions] module`."""
        table = self.table(values, "functions")
        self.known(table, ("module",), "functions")
        named = self.text_value(table, "module", "functions", None)
        return self.directory / named if named else None

    def source(self, name: str, table: Mapping[str, Any]) -> Source:
        section, own = f"sources.{name}", {n: k for n, k in self.connectors.keys.items() if k.source is not None}
        connector = self.connector(table, section, tuple(own))
        path = self.path(table, section, connector, 'write `path = "data/..."`')
        keys = own[connector].source if connector in own else None
        form = self.format(table, section, None if keys is None else keys.formats)
        options = self.options(
            table, section, None if keys is None else keys.keys, None if keys is None else keys.options
        )
        new = self.choice(table, "new_columns", section, NEW_COLUMNS, "ignore")
        declared = self.declared(table, section, {**TABLE_KEYS, **({} if keys is None else keys.table_keys)})
        return Source(name, connector, path, form, options, declared, new_columns=new)

    def connector(self, table: Mapping[str, Any], section: str, own: tuple[str, ...]) -> str:
        """Return the connector's name: one of Belvedere's `own`, or one of another package."""
        named = table.get("connector", DEFAULT_CONNECTOR)
        if named in own:
            return str(named)
        return self.choice(table, "connector", section, (*own, *self.connectors.others()), DEFAULT_CONNECTOR)

    def path(self, table: Mapping[str, Any], section: str, connector: str, hint: str) -> Path | None:
        """Return the path, which some connectors require."""
        path, keys = self.text_value(table, "path", section, None), self.connectors.keys.get(connector, ConnectorKeys())
        if keys.needs_path and path is None:
            kind, _, name = section.partition("s.")
            self.report("B9106", f"{kind} `{name}` has no path", self.at(section, None), hint)
        if path is not None and "://" in path and keys.address_hint is not None:
            message = f'`path` of `{section}` is an address: "{path}"'
            self.report("B9104", message, self.at(section, "path"), keys.address_hint)
            return None
        return self.directory / path if path else None

    def format(self, table: Mapping[str, Any], section: str, known: tuple[str, ...] | None) -> str | None:
        """Return the format. For Belvedere's own connectors it must be a known one."""
        if known is not None and "format" in table:
            return self.choice(table, "format", section, known, "json")
        return self.text_value(table, "format", section, None)

    def options(
        self, table: Mapping[str, Any], section: str, keys: tuple[str, ...] | None, inner: tuple[str, ...] | None = None
    ) -> dict[str, Any]:
        """Return the options for the connector.

        `keys` and those of `options` are checked if the connector is Belvedere's own.
        """
        options = self.table(table, "options")
        if keys is not None:
            self.known(_without_dotted(table, keys), keys, section)
        if inner is not None:
            self.known(_without_dotted(options, inner), inner, f"{section}.options")
        return {k: v for k, v in table.items() if k not in OWN_FIELDS} | options

    def declared(
        self, table: Mapping[str, Any], section: str, keys: Mapping[str, TableKey]
    ) -> dict[str, dict[str, Any]]:
        found = self.tables(table, "tables")
        for name, declared in found.items():
            self.known(declared, tuple(keys), f"{section}.tables.{name}")
            for key, known in keys.items():
                value = declared.get(key)
                if key in declared and not isinstance(value, known.type):
                    message = f"`{key}` of table `{name}` does not fit"
                    self.report("B9104", message, self.at(section, key), f"write `{known.example}`")
                elif known.is_file and value is not None and "://" not in value:
                    declared[key] = str(self.directory / value)
        return found

    def sink(self, name: str, table: Mapping[str, Any]) -> Sink:
        section, own = f"sinks.{name}", {n: k for n, k in self.connectors.keys.items() if k.sink is not None}
        connector = self.connector(table, section, tuple(own))
        path = self.path(table, section, connector, 'write `path = "out/..."`')
        keys = own[connector].sink if connector in own else None
        form = self.format(table, section, None if keys is None else keys.formats)
        return Sink(
            name, connector, path, form or "json", self.options(table, section, None if keys is None else keys.keys)
        )


def _without_dotted(table: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the part to check: for some connectors keys with a dot belong to their client."""
    return {k: v for k, v in table.items() if "." not in k or DOTTED not in keys}


def _spark_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
