"""Parameters and descriptions of Spark's functions, read from the installed package's source.

In: a function's name. Out: its parameters and description, or None. Nothing is imported, since importing the module of
functions takes half a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_DEFINED = (
    r"^def {name}\((?P<parameters>.*?)\)\s*->[^:]*:\s*\n\s*r?\"\"\"(?P<text>.*?)"
    r"(?:\n\s*\n\s*(?:\.\. |Parameters\n|Returns\n|Examples\n|Notes\n)|\"\"\")"
)
_PARAMETER = re.compile(r"(\*?\w+)\s*(?::[^,\[]*(?:\[[^\]]*\][^,]*)?)?(?:,|$)", re.DOTALL)
_ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")


@dataclass(frozen=True)
class FunctionText:
    """The names of a function's parameters, and its description."""

    parameters: tuple[str, ...]
    text: str


@cache
def _source() -> str:
    found = find_spec("pyspark")
    places = found.submodule_search_locations if found is not None else None
    file = Path(next(iter(places or [""]))) / "sql" / "functions" / "builtin.py"
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""


@cache
def function_text(name: str) -> FunctionText | None:
    """Return Spark's description of a function."""
    found = re.search(_DEFINED.format(name=re.escape(name.lower())), _source(), re.MULTILINE | re.DOTALL)
    if found is None:
        return None
    parameters = tuple(p.lstrip("*") for p in _PARAMETER.findall(found["parameters"]) if p not in ("", "*"))
    text = " ".join(_ROLE.sub(r"`\1`", found["text"]).replace("``", "`").split())
    text = text.removeprefix("Aggregate function: ").removeprefix("Window function: ")
    return FunctionText(parameters, text[:1].upper() + text[1:])
