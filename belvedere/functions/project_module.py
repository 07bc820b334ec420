"""Import and validation of the module with a project's functions.

In: the path of a Python module. Out: its declared functions, by folded name, and diagnostics at their positions in it.
The module is executed with its folder on the path, and so are the neighbouring modules that it imports. All of them are
then removed from `sys.modules`. So a changed module is imported again, modules of several projects do not collide, and
executors get the code by value.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.parsers.spark import SparkParser

from belvedere.errors import BelvedereError, Diagnostic, Severity, Span, counted, fail
from belvedere.functions import spark_types as t
from belvedere.functions.function_table import BY_KEY, WINDOW_BY
from belvedere.functions.project_functions import DECLARED, OwnFunction
from belvedere.functions.untyped import CAST_NEEDED, COUNTED

EXAMPLE = '@belvedere.function("price DOUBLE, qty INT", "DOUBLE")'
CODE = 12
"""Number of characters of the hash in a function's name."""


def read_functions(path: Path, place: Span | None = None) -> tuple[Mapping[str, OwnFunction], tuple[Diagnostic, ...]]:
    """Return the functions of a module and diagnostics (B9130 to B9132). `place` is the position in the project file
    that names the module."""
    try:
        text = path.read_text(encoding="utf-8")
        module, sources = _run(path)
    except BelvedereError as error:
        return {}, error.diagnostics
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = 'write the path of a Python file: `module = "pricing.py"`'
        return {}, (
            Diagnostic(
                "B9130", f"the module of functions `{path.name}` cannot be read: {reason}", span=place, hint=hint
            ),
        )
    code = sha256("\0".join(sources).encode()).hexdigest()[:CODE]
    found: dict[str, OwnFunction] = {}
    diagnostics: list[Diagnostic] = []
    for name, written in vars(module).items():
        if not hasattr(written, DECLARED) or not callable(written):
            continue
        span = _place(path, text, getattr(written, "__name__", name))
        try:
            made = _declared(name, written, code, path, span)
            if name.casefold() in found:
                raise fail(
                    "B9132",
                    f"two functions are called `{name}`",
                    span=span,
                    hint="names in SQL ignore case: rename one of them",
                )
            found[name.casefold()] = made
        except BelvedereError as error:
            diagnostics += error.diagnostics
    if not found and not diagnostics:
        message, hint = f"`{path.name}` declares no function", f"write {EXAMPLE} before one"
        diagnostics.append(Diagnostic("B9131", message, Severity.WARNING, place, hint=hint))
    return found, tuple(diagnostics)


# -- running the module --


def _run(path: Path) -> tuple[ModuleType, list[str]]:
    """Execute the module. Return it with the sources on which its behaviour depends."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        hint = 'write the path of a Python file: `module = "pricing.py"`'
        raise fail("B9130", f"`{path.name}` is not a Python module", hint=hint)
    module = importlib.util.module_from_spec(spec)
    with _alone(path.parent) as imported:
        sys.modules[path.stem] = module
        try:
            exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
        except Exception as error:  # report any exception of the user's code
            raise _failed(path, error) from None
        files = sorted({path, *imported()})
    return module, [f.read_text(encoding="utf-8") for f in files]


@contextmanager
def _alone(folder: Path) -> Iterator[Callable[[], Iterator[Path]]]:
    """Import the folder's modules even if other modules of the same names are loaded; restore those afterwards.

    The yielded function returns the files imported meanwhile.
    """
    names = {p.stem for p in folder.glob("*.py")} | {p.parent.name for p in folder.glob("*/__init__.py")}
    names -= sys.stdlib_module_names
    before = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in names}
    for name in before:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()

    def here() -> Iterator[Path]:
        for name, module in list(sys.modules.items()):
            if (
                name.partition(".")[0] in names
                and (file := getattr(module, "__file__", None))
                and Path(file).suffix == ".py"
            ):
                yield Path(file)

    keeps = sys.dont_write_bytecode
    sys.dont_write_bytecode = (
        True  # Python compares a cached module by the second and size of its source, so it may miss a change
    )
    try:
        yield here
    finally:
        sys.dont_write_bytecode = keeps
        sys.path.remove(str(folder))
        for name in [n for n in sys.modules if n.partition(".")[0] in names]:
            del sys.modules[name]
        sys.modules.update(before)


def _failed(path: Path, error: Exception) -> BelvedereError:
    """Return B9130 for a module that raises an exception, at its line."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(path) else None
    trace = error.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == str(path) else line
        trace = trace.tb_next
    span = None if line is None else _line(path, path.read_text(encoding="utf-8"), line)
    message = f"the module of functions `{path.name}` fails: {type(error).__name__}: {error}"
    return fail("B9130", message, span=span, hint="correct the module: it is imported first")


# -- checking a declaration --


def _declared(name: str, written: Any, code: str, path: Path, span: Span | None) -> OwnFunction:
    if name.lower() in _taken():
        raise fail("B9132", f"`{name}` is already a function of SQL", span=span, hint=f"rename it: `own_{name}`")
    parameters, result = getattr(written, DECLARED)
    listed = _types(f"STRUCT<{parameters}>") if isinstance(parameters, str) and parameters.strip() else None
    if listed is None or not pa.types.is_struct(listed):
        message = f"the parameters of `{name}` cannot be read: {parameters!r}"
        raise fail("B9131", message, span=span, hint=f"write names with types of SQL, one or more: {EXAMPLE}")
    found = _types(result) if isinstance(result, str) else None
    if found is None or found == t.NULL or t.is_interval(found):
        message = f"the result of `{name}` has no type that can be stored: {result!r}"
        raise fail("B9131", message, span=span, hint=f"write a type of SQL: {EXAMPLE}")
    fields = tuple((f.name, f.type) for f in listed)
    _check_parameters(name, written, len(fields), span)
    return OwnFunction(name, fields, found, code, str(path), written)


def _check_parameters(name: str, written: Any, count: int, span: Span | None) -> None:
    try:
        inspect.signature(written).bind(*range(count))
    except TypeError as error:
        message = (
            f"`{name}` is declared with {counted(count, 'parameter')}, but the Python function has others: {error}"
        )
        raise fail(
            "B9131", message, span=span, hint="declare each parameter of the Python function, in order"
        ) from None


def _types(text: str) -> pa.DataType | None:
    try:
        return t.arrow_type(exp.DataType.build(text, dialect="spark"))
    except (SqlglotError, ValueError):
        return None


def _taken() -> frozenset[str]:
    """Return the names of functions in SQL and in SQL++, in lower case."""
    calls = (name for row in BY_KEY.values() for name in row.calls)
    return frozenset(n.lower() for n in (*calls, *COUNTED, *CAST_NEEDED, *WINDOW_BY, *SparkParser.FUNCTIONS))


# -- places in the module --


def _place(path: Path, text: str, name: str) -> Span | None:
    """Return the span of the name in a function's definition; None if the text does not have it."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    lines = [n.lineno for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    return _line(path, text, lines[-1]) if lines else None


def _line(path: Path, text: str, line: int) -> Span:
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: line - 1]))
    return Span(str(path), start, start + len(lines[line - 1].rstrip()) if line <= len(lines) else start)
