"""Paths into JSON text in the syntax of other systems: `text:a.b[0]`, `text -> 'a' ->> 'b'`, `text ->> '$.a.b'`.

In: the parsed operands. Out: `get_json_object(text, '$.a.b[0]')`, or Spark's functions of VARIANT. A last `->` gives
the part as JSON, so a text keeps its quotes; `->>` and a colon give the text itself.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from belvedere.syntax.forms.builders import call
from belvedere.syntax.problems import Problem
from belvedere.syntax.query_tree import place_of

_KEYS = "write the name of a field in quotes, a number, or a path: text -> 'a', text -> 0, text ->> '$.a[0]'"
TAKE_LAMBDAS = (exp.Transform, exp.ArrayFilter, exp.Exists, exp.Reduce, exp.ArraySort)
OTHERS = frozenset(
    "forall map_filter transform_keys transform_values zip_with map_zip_with filter transform aggregate reduce".split()
)
"""Functions in which `x -> 'a'` is a lambda: classes of sqlglot, and names that it does not know."""
VARIANTS = frozenset({"parse_json", "try_parse_json", "variant_get", "try_variant_get", "to_variant_object"})


def json_step(parser: Any, text: exp.Expr, key: Any) -> exp.Expr:
    """Build `text -> 'a'`: an extraction that the next operator continues."""
    return _step(text, key, as_text=False)


def json_text(parser: Any, text: exp.Expr, key: Any) -> exp.Expr:
    """Build `text ->> 'a'`: the same as text."""
    return _step(text, key, as_text=True)


def _step(text: exp.Expr, key: Any, *, as_text: bool) -> exp.Expr:
    """Build one extraction of `a -> 'b' ->> 'c'`. sqlglot parses a key with all following operators; they are moved to
    this step."""
    first = _first(key)
    step = exp.JSONExtract(this=text, expression=exp.Literal.string(_key(text, first)), only_json_types=as_text)
    if first is key:
        return step
    first.replace(step)
    return key  # type: ignore[no-any-return]


def _first(key: Any) -> Any:
    while isinstance(key, exp.JSONExtract):
        key = key.this
    return key


def _key(text: exp.Expr, key: Any) -> str:
    if not isinstance(key, exp.Literal):
        raise Problem("B3040", "a JSON path must be a constant", *place_of(key if key is not None else text), _KEYS)
    if not key.is_string:
        return f"$[{key.name}]"
    return key.name if key.name.startswith("$") else f"$['{key.name}']"


def extracted_json(node: Any) -> exp.Expr:
    """Rewrite an extraction as calls of Spark: `->`, `->>` and the colon, one after the other."""
    text, steps, source = "", [node], node.this
    while isinstance(source, exp.JSONExtract):
        steps.append(source)
        source = source.this
    for step in reversed(steps):
        text += _path(step.expression).removeprefix("$")
    path = exp.Literal.string("$" + text)
    if _is_variant(source):
        return call("variant_get", source.copy(), path, exp.Literal.string("variant"))
    if node.args.get("only_json_types") or node.args.get("variant_extract"):
        return exp.JSONExtractScalar(this=source.copy(), expression=path)
    variant = call("try_variant_get", call("try_parse_json", source.copy()), path, exp.Literal.string("variant"))
    return exp.JSONFormat(this=variant)


def _is_variant(source: exp.Expr) -> bool:
    called = source.unnest()
    name = called.name.lower() if isinstance(called, exp.Anonymous) else ""
    return isinstance(called, exp.ParseJSON) or name in VARIANTS


def _path(path: exp.Expr) -> str:
    if isinstance(path, exp.Literal):
        return path.name
    text = ""
    for part in path.expressions:
        if isinstance(part, exp.JSONPathKey):
            text += f"['{part.name}']"
        elif isinstance(part, exp.JSONPathSubscript):
            text += "[*]" if isinstance(part.this, exp.JSONPathWildcard) else f"[{part.this}]"
    return text


def lambda_or_json(node: exp.Lambda) -> exp.Expr:
    """Rewrite a lambda as JSON access if the function accepts no lambda, as in `upper(js -> 'a')`."""
    owner: Any = node.parent
    takes = isinstance(owner, TAKE_LAMBDAS) or (isinstance(owner, exp.Anonymous) and owner.name.lower() in OTHERS)
    first = _first(node.this)
    if takes or len(node.expressions) != 1 or not isinstance(first, exp.Literal):
        return node
    return extracted_json(json_step(None, exp.column(node.expressions[0].copy()), node.this))
