"""Test results as JUnit XML, which CI services read.

In: outcomes by file. Out: the text of the XML: a suite per file, a case per scenario, its differences as a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as xml

from click import unstyle

from belvedere.errors import Diagnostic
from belvedere.scenarios import Outcome


def junit_text(results: Mapping[Path, Sequence[Outcome]], reported: Callable[[Path, Outcome], str]) -> str:
    """Return the results; `reported` describes the differences of a scenario."""
    root = xml.Element("testsuites")
    for path, outcomes in results.items():
        suite = _suite(root, str(path), len(outcomes), failures=sum(not o.ok for o in outcomes))
        suite.set("time", f"{sum(o.seconds for o in outcomes):.3f}")
        for outcome in outcomes:
            case = _case(suite, str(path), outcome.scenario.title, outcome.scenario.line)
            case.set("time", f"{outcome.seconds:.3f}")
            if not outcome.ok:
                _fault(case, "failure", "not as expected", unstyle(reported(path, outcome)))
    return _printed(root)


def junit_errors(malformed: Sequence[Diagnostic]) -> str:
    """Return a report of test files that cannot be parsed."""
    root = xml.Element("testsuites")
    files: dict[str, list[str]] = {}
    for found in malformed:
        text = f"{found.code}: {found.message}" + (f"; {found.hint}" if found.hint else "")
        files.setdefault(found.span.file if found.span is not None else "test", []).append(text)
    for file, texts in files.items():
        case = _case(_suite(root, file, 1, errors=1), file, "the file can be read", 1)
        _fault(case, "error", texts[0], "\n".join(texts))
    return _printed(root)


def _suite(root: xml.Element, name: str, tests: int, failures: int = 0, errors: int = 0) -> xml.Element:
    counts = {"tests": str(tests), "failures": str(failures), "errors": str(errors), "skipped": "0"}
    return xml.SubElement(root, "testsuite", {"name": name, **counts})


def _case(suite: xml.Element, file: str, title: str, line: int) -> xml.Element:
    names = {"classname": _allowed(file), "name": _allowed(title), "file": _allowed(file), "line": str(line)}
    return xml.SubElement(suite, "testcase", names)


def _fault(case: xml.Element, kind: str, message: str, text: str) -> None:
    xml.SubElement(case, kind, {"message": _allowed(message)}).text = _allowed(text)


def _allowed(text: str) -> str:
    """Return the text without characters that XML cannot represent."""
    return "".join(
        c if c in "\t\n\r" or (c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff") else "\ufffd"
        for c in text
    )


def _printed(root: xml.Element) -> str:
    xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"
