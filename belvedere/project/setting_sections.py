"""Sections of a project file: their checked values, and the position of each.

In: the file's text, the environment. Out: values, and diagnostics for those that do not fit.
`belvedere.project.settings` and `belvedere.project.api_settings` interpret the keys. Values may contain `${env:NAME}`
or `${env:NAME:-default}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from belvedere.errors import Diagnostic, Severity, Span
from belvedere.project.setting_rules import Requirement

VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class SectionReader:
    """Reads values of the parsed file and collects diagnostics."""

    def __init__(self, text: str, file: Path, directory: Path, environ: Mapping[str, str]):
        self.text, self.file, self.directory, self.environ = text, file, directory, environ
        self.diagnostics: list[Diagnostic] = []
        self.above: Mapping[str, Any] = {}
        self.above_section = ""
        """Section of the profile's tables, which override the others; the tables are in `above`."""

    # -- values -------------------------------------------------------------------------------------------------------

    def ruled(self, values: Mapping[str, Any], section: str, rules: Mapping[str, Requirement]) -> dict[str, Any]:
        """Return the values of a section that match its rules, and report the others."""
        table = self.table(values, section)
        self.known(table, tuple(rules), section)
        valid = {k: v for k, v in table.items() if k in rules and rules[k].fits(v)}
        for key in [k for k in table if k in rules and k not in valid]:  # the value may be a secret: it is not shown
            self.report("B9104", f"`{key}` is {rules[key].what}", self.at(section, key))
        return valid

    def expand(self, value: Any, key: str, section: str) -> Any:
        """Return a value with its `${env:NAME}` expanded."""
        if isinstance(value, str):
            return VARIABLE.sub(lambda found: self.variable(found.group(1), found.group(2), key, section), value)
        if isinstance(value, dict):
            inner = f"{section}.{key}".strip(".")
            return {k: self.expand(v, k, inner) for k, v in value.items()}
        if isinstance(value, list):
            return [self.expand(v, key, section) for v in value]
        return value

    def variable(self, name: str, default: str | None, key: str, section: str) -> str:
        if default is not None:
            return self.environ.get(name) or default
        if name not in self.environ:
            message = f"the environment variable `{name}` is not set"
            self.report("B9105", message, self.at(section, key), f"set it: `export {name}=...`")
        return self.environ.get(name, "")

    def known(self, table: Mapping[str, Any], keys: tuple[str, ...], section: str) -> None:
        for key in table:
            if key not in keys:
                where = f" in [{section}]" if section else ""
                self.report("B9103", f"unknown key `{key}`{where}", self.at(section, key), suggest(key, keys))

    def choice(self, table: Mapping[str, Any], key: str, section: str, allowed: tuple[str, ...], default: str) -> str:
        value = table.get(key, default)
        if value in allowed:
            return str(value)
        self.report("B9104", f"`{key}` cannot be {value!r}", self.at(section, key), suggest(str(value), allowed))
        return default

    def text_value(self, table: Mapping[str, Any], key: str, section: str, default: str | None) -> str | None:
        value = table.get(key, default)
        if value is not None and not isinstance(value, str):
            self.report("B9104", f"`{key}` must be a text", self.at(section, key), f'write `{key} = "..."`')
            return default
        return value

    def list_value(self, table: Mapping[str, Any], key: str) -> list[Any]:
        value = table.get(key, [])
        return value if isinstance(value, list) else [value]

    def table(self, table: Mapping[str, Any], key: str) -> dict[str, Any]:
        value = table.get(key, {})
        if not isinstance(value, dict):
            self.report("B9104", f"`{key}` must be a table", self.at("", key), f"write `[{key}]` and its keys below")
            return {}
        return value

    def variables(self, table: Mapping[str, Any], key: str) -> dict[str, str]:
        """Return a table of strings, numbers and booleans, all as strings."""
        found = {}
        for name, value in self.table(table, key).items():
            if isinstance(value, bool):
                found[name] = str(value).lower()
            elif isinstance(value, str | int | float):
                found[name] = str(value)
            else:
                hint = f'write `{name} = "production"`'
                self.report("B9104", f"`{name}` is a text, a number, true or false", self.at(key, name), hint)
        return found

    def tables(self, table: Mapping[str, Any], key: str) -> dict[str, dict[str, Any]]:
        found = {}
        for name, value in self.table(table, key).items():
            if isinstance(value, dict):
                found[name] = value
            else:
                self.report("B9104", f"`{key}.{name}` must be a table", self.at(key, name), f"write `[{key}.{name}]`")
        return found

    # -- places -------------------------------------------------------------------------------------------------------

    def report(self, code: str, message: str, span: Span | None, hint: str | None = None) -> None:
        self.diagnostics.append(Diagnostic(code, message, Severity.ERROR, span, hint=hint))

    def at(self, section: str, key: str | None) -> Span | None:
        """Return the position of a key, or of its section's heading: in the profile's tables, if they have it."""
        if self.is_above(section, key):
            section = f"{self.above_section}.{section}".strip(".")
        start = 0
        if section:
            heading = re.search(rf"^[ \t]*\[\s*{re.escape(section)}\s*\]", self.text, re.MULTILINE)
            if heading:
                start = heading.start()
                if key is None:
                    return Span(str(self.file), start, heading.end())
        if key is None:
            return None
        found = re.compile(rf"""^\s*\[?["']?({re.escape(key)})(?!\w)""", re.MULTILINE).search(self.text, start)
        return Span(str(self.file), found.start(1), found.end(1)) if found else None

    def is_above(self, section: str, key: str | None) -> bool:
        """Return whether the profile's tables have a key, or a section."""
        table: Any = self.above
        for name in (*filter(None, section.split(".")), *([] if key is None else [key])):
            if not isinstance(table, Mapping) or name not in table:
                return False
            table = table[name]
        return bool(self.above)

    def within(self, section: str, key: str, text: str) -> Span | None:
        """Return the position of a text in the value of a key, if it is there unchanged; else that of the key."""
        place = self.at(section, key)
        start = -1 if place is None else self.text.find(text, place.end)
        return place if start < 0 else Span(str(self.file), start, start + len(text))

    def inside(self, section: str, table: str, key: str, text: str | None) -> Span | None:
        """Return the position of a key of a table inside a section, or of a text in its value."""
        headed = self.at(f"{section}.{table}", None) is not None
        if headed:
            named = f"{section}.{table}"
            return self.at(named, key) if text is None else self.within(named, key, text)
        return self.within(section, table, key if text is None else text)

    def at_message(self, message: str) -> Span | None:
        """Return the position that tomllib reports as `(at line 3, column 5)`."""
        found = re.search(r"at line (\d+), column (\d+)", message)
        if not found:
            return Span(str(self.file), len(self.text), len(self.text))
        lines = self.text.split("\n")
        offset = sum(len(line) + 1 for line in lines[: int(found.group(1)) - 1]) + int(found.group(2)) - 1
        return Span(str(self.file), offset, min(offset + 1, len(self.text)))


def suggest(word: str, allowed: tuple[str, ...]) -> str:
    """Return the hint for a word that is not allowed."""
    close = get_close_matches(word, allowed, n=1)
    return f"did you mean `{close[0]}`?" if close else "write one of " + ", ".join(f"`{a}`" for a in allowed)
