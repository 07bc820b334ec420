"""Generate the parts of pages that `make docs` inserts: options of commands, the Python API, examples of codes,
llms.txt.

In: the command line, docstrings, examples of codes, docs/contents.md. Out: Markdown. The parts are not committed, so
they always match the code.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from code_examples import shown

ROOT = Path(__file__).parents[2]
MARK = re.compile(r"^<!-- made by tools/site: (\w+) -->$", re.MULTILINE)
CODE_HEADING = re.compile(r"^## (B\d{4}) .*$", re.MULTILINE)


def with_made_parts(text: str) -> str:
    """Return the page with the parts that its marks request."""
    made = {"commands": commands, "python": python_api}
    return MARK.sub(lambda found: "\n".join(made[found[1]]()), text)


def commands() -> Iterator[str]:
    """Yield a section with the help text of each command."""
    from typer.main import get_command  # only the site needs it

    from belvedere.cli import COMMANDS, app

    os.environ["COLUMNS"] = "110"
    group: Any = get_command(app)
    with group.make_context("belvedere", [], resilient_parsing=True) as context:
        for name in COMMANDS:
            command = group.get_command(context, name)
            if command is not None:
                inner = command.make_context(name, [], parent=context, resilient_parsing=True)
                yield from (f"## belvedere {name}", "", "```text", command.get_help(inner), "```", "")


def python_api() -> Iterator[str]:
    """Yield a section for each public name of the package, with the public methods of classes."""
    import belvedere

    for name in sorted(belvedere._LAZY):
        value = getattr(belvedere, name)
        yield from _described(f"## belvedere.{name}", name, value)
        if inspect.isclass(value):
            for method, member in inspect.getmembers(value):
                if not method.startswith("_") and _is_ours(member):
                    yield from _described(f"### {name}.{method}", f"{name}.{method}", member)


def _is_ours(member: Any) -> bool:
    return callable(member) and (getattr(member, "__module__", None) or "").startswith("belvedere")


def _described(heading: str, name: str, value: Any) -> Iterator[str]:
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        signature = ""
    yield from (heading, "", "```text", f"{name}{signature}", "```", "")
    yield from (inspect.getdoc(value) or "", "")


def with_examples(text: str) -> str:
    """Return a page of codes with the example of each code below its text."""
    found = shown()
    headings = list(CODE_HEADING.finditer(text))
    parts = [text[: headings[0].start()] if headings else text]
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        section = text[heading.start() : following.start() if following else len(text)].rstrip("\n")
        parts.append(f"{section}\n\n{found.get(heading[1], '')}")
    return "".join(parts)


def llms_text(site: str) -> str:
    """Return llms.txt: the name, a sentence, and the links of docs/contents.md as paths of the site."""
    contents = (ROOT / "docs" / "contents.md").read_text(encoding="utf-8")
    links = re.sub(r"\]\(([\w/-]+)\.md\)", rf"]({site}\1.html)", contents.partition("\n")[2])
    links = links.replace("](../ARCHITECTURE.md)", f"]({site}about/architecture.html)")
    links = links.replace("design/README.html", "design/index.html")
    summary = "> Incremental materialized views on Apache Spark, served as a GraphQL and REST API."
    return f"# Belvedere\n\n{summary}\n{links}"
