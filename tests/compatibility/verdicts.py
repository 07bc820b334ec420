"""The compiler's result for a script as short text: errors, and for each view hashes of its columns and plan.

In: a script. Out: a verdict, `V 1f2e3d4c`: after each view's name four digits of a hash of its columns (names, types,
NULL, key) and four of that of its printed plan; behind `!` the codes of errors. Of a list of queries there is a verdict
for each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate

from belvedere.catalog.views import View
from belvedere.compiler import Compiled, compile_script
from belvedere.errors import Severity
from belvedere.functions.spark_types import type_text
from belvedere.plan.plan_text import plan_text
from belvedere.project.settings import ProjectSettings

CRASH = "crash"


@dataclass(frozen=True)
class Script:
    """A whole script of `name`, compiled in a project or without one."""

    name: str
    text: str
    project: ProjectSettings | None = None


@dataclass(frozen=True)
class Queries:
    """Queries over what the script `before` defines."""

    name: str
    before: str
    texts: tuple[str, ...]


def of_script(script: Script) -> tuple[str, str]:
    """Its line in the list: what it is called, and its verdict."""
    try:
        compiled = compile_script(script.text, project=script.project)
    except Exception as error:  # a crash is a verdict like others: it is compared
        return _line(script.name, script.text), f"! {CRASH} {type(error).__name__}"
    views = [f"{i} {_of_view(v)}" for i, v in compiled.catalog.views.items()]
    codes = sorted({d.code for d in compiled.diagnostics if d.severity is Severity.ERROR})
    return _line(script.name, script.text), " ".join([*views, *(["!", *codes] if codes else [])])


def of_queries(queries: Queries) -> dict[str, str]:
    """Their lines: each query is judged by itself; they are compiled as one script."""
    lines = [f"V{n} := {' '.join(q.split())};\n" for n, q in enumerate(queries.texts)]
    compiled = compile_script(queries.before + "".join(lines))
    refused = _codes(compiled, list(accumulate(map(len, lines), initial=len(queries.before))))
    views = {v.name: _of_view(v) for v in compiled.catalog.views.values()}
    found = (f"! {refused[n]}" if n in refused else views.get(f"V{n}", "! lost") for n in range(len(lines)))
    return {_line(queries.name, text): v for text, v in zip(queries.texts, found, strict=True)}


def _codes(compiled: Compiled, starts: Sequence[int]) -> dict[int, str]:
    """The code of the first error of each line; -1 is what stands before them."""
    found: dict[int, str] = {}
    for d in compiled.diagnostics:
        if d.severity is Severity.ERROR:
            found.setdefault(bisect_right(starts, d.span.start if d.span is not None else -1) - 1, d.code)
    return found


def _of_view(view: View) -> str:
    columns = [f"{c.name} {type_text(c.type)} {c.nullable} {c.hidden}" for c in view.schema]
    return _hash(f"{columns} {view.schema.key}") + _hash(plan_text(view.plan))


def _line(name: str, text: str) -> str:
    """A name and a hash of the text: what is written anew is another line, and moves none."""
    return f"{name} {_hash(text, 3)}"


def _hash(text: str, size: int = 2) -> str:
    return blake2b(text.encode(), digest_size=size).hexdigest()
