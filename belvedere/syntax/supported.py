"""Supported forms of SQL: for each class of sqlglot's trees, the arguments that lowering or Spark's printer reads.

In: a tree whose nodes have positions. Out: a problem for each part that would be silently dropped: an unread argument,
a word with another meaning, an unknown class. `READ` is the complete list: code that lowers a further clause adds its
argument there, and everything else is rejected. Arguments of functions and operators are read if Spark's printer writes
them. `belvedere.functions.function_table` has the number of arguments of each function.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from belvedere.functions.function_table import function_of, shown_name
from belvedere.spark_sql.dialect import SparkSql
from belvedere.syntax.forms.call_forms import misplaced
from belvedere.syntax.problems import Problem
from belvedere.syntax.query_tree import EmitClause, WindowByBlock, WindowCall, place_of
from belvedere.syntax.spl.window_tree import SplClause, SplPart

Class = type[exp.Expr]

_SET_OPERATION = "with_ this expression distinct by_name order limit offset emit"
_NAMES: dict[str, str] = {
    "Select": "with_ expressions distinct from_ laterals joins where group having qualify windows order limit "
    "offset emit stream spl "
    "sort distribute cluster",
    "Union Except Intersect": _SET_OPERATION,
    "Subquery": "this alias with_ joins order limit offset emit sample pivots spl",
    "With": "expressions recursive",
    "CTE": "this alias materialized levels",  # the rows are the same in all cases
    "Null": "",
    (
        "Where Having Qualify From Paren Not Neg BitwiseNot Var Any All Boolean RawString National IgnoreNulls "
        "RespectNulls"
    ): "this",
    "Table": "this alias db catalog joins version when sample pivots over spl",
    "Version": "this kind expression",
    "TableSample": "*",  # rejected with the table
    "Pivot": "expressions fields unpivot include_nulls alias "
    "columns pivot_column_naming value_columns_first",  # names of columns in sqlglot's dialect
    "TableAlias": "this columns",
    "Values": "expressions alias",
    "Join": "this on side kind using method match_condition",
    "Lateral": "this view outer alias",
    "Unnest": "expressions alias offset",
    "Star": "except_ replace rename",
    "PivotAlias": "this alias",
    "Column": "this table db catalog",
    "Group": "expressions grouping_sets cube rollup all",
    "GroupingSets Rollup Cube Tuple Cluster Distribute Sort": "expressions",
    "Order": "this expressions within",
    "Ordered": "this desc nulls_first",
    "Limit": "expression limit_options",
    "LimitOptions": "rows",
    "Fetch": "direction count limit_options",
    "Offset": "expression",
    "Window": "this partition_by order spec alias over",
    "WindowSpec": "kind start start_side end end_side",
    "Distinct": "expressions on",
    "Filter WithinGroup Escape Dot PropertyEQ Kwarg Parameter DataTypeParam": "this expression",
    "Alias": "this alias",
    "Aliases Lambda": "this expressions",
    "Bracket": "this expressions offset safe returns_list_for_maps",
    "In": "this expressions query",
    "Between": "this low high",
    "Is Like ILike": "this expression negate",
    "Interval": "this unit",
    "IntervalSpan": "this expression",
    "Literal": "this is_string",
    "HexString": "this is_integer",
    "ByteString": "this is_bytes",
    "Identifier": "this quoted",
    "Placeholder": "this kind",
    "AtTimeZone FromTimeZone": "this zone",
    "DataType": "this expressions nested kind nullable",
    "ColumnDef": "this kind constraints",
    "ColumnConstraint NotNullColumnConstraint CommentColumnConstraint": "*",
    "Cast TryCast": "this to safe as_written",
    "Extract": "this expression",
    "Trim": "this expression position",
    "GroupConcat": "this separator",
    "JSONPath JSONPathRoot JSONPathKey JSONPathSubscript JSONPathWildcard": "*",
}


def _read() -> dict[Class, frozenset[str]]:
    read = {
        getattr(exp, name): frozenset(getattr(exp, name).arg_types if names == "*" else names.split())
        for classes, names in _NAMES.items()
        for name in classes.split()
    }
    own = {
        class_: frozenset(class_.arg_types) for class_ in (EmitClause, WindowCall, WindowByBlock, SplClause, SplPart)
    }
    return {**read, **own}


READ: dict[Class, frozenset[str]] = _read()
"""Supported arguments. For operators and functions that are not listed: the arguments that Spark's printer writes
(`printed`)."""

REPORTED_BY_FALSE: frozenset[tuple[Class, str]] = frozenset({(exp.Window, "first"), (exp.Lateral, "cross_apply")})
"""Arguments that have a meaning even if they are False."""

WORDS: dict[tuple[Class, str], frozenset[str]] = {
    (exp.Join, "side"): frozenset({"LEFT", "RIGHT", "FULL"}),
    (exp.Join, "kind"): frozenset({"INNER", "OUTER", "CROSS", "SEMI", "ANTI"}),
    (exp.Join, "method"): frozenset({"NATURAL", "ASOF"}),
    (exp.WindowSpec, "kind"): frozenset({"ROWS", "RANGE"}),
    (exp.Window, "over"): frozenset({"OVER"}),
}
"""Arguments that hold a word, and the supported words."""

ONE = frozenset({(exp.Unnest, "expressions"), (exp.Bracket, "expressions")})
"""Lists of which only the first element is read."""

_NARROW = frozenset(name for _, name in (*WORDS, *ONE))
_SHOWN: dict[tuple[Class, str], tuple[str, str | None]] = {
    (exp.Select, "kind"): ("SELECT AS", "write struct(...)"),
    (exp.Select, "into"): ("INTO", "write `name := SELECT ...`"),
    (exp.Select, "locks"): ("FOR UPDATE", "remove it: a view locks nothing"),
    (exp.Select, "match"): ("MATCH_RECOGNIZE", "use WINDOW BY, which finds windows of rows by conditions"),
    (exp.Select, "connect"): ("CONNECT BY", "write ORDER BY ... LIMIT"),
    (exp.SetOperation, "kind"): ("CORRESPONDING", "write UNION BY NAME, with the same columns on both sides"),
    (exp.Star, "ilike"): ("ILIKE after *", "name the columns"),
    (exp.Group, "totals"): ("WITH TOTALS", "write GROUP BY ROLLUP (...), which adds a total"),
    (exp.Limit, "expressions"): (
        "LIMIT ... BY",
        "write QUALIFY row_number() OVER (PARTITION BY ... ORDER BY ...) <= n",
    ),
    (exp.Limit, "this"): ("LIMIT in a function", "write slice(array_sort(...), 1, n)"),
    (exp.LimitOptions, "percent"): (
        "PERCENT",
        "write a number of rows, or QUALIFY percent_rank() OVER (ORDER BY ...) < 0.4",
    ),
    (exp.LimitOptions, "with_ties"): ("WITH TIES", "write QUALIFY rank() OVER (ORDER BY ...) <= n"),
    (exp.WindowSpec, "exclude"): ("EXCLUDE", "subtract the row's own value"),
    (exp.Window, "first"): ("FIRST and LAST in OVER", "write OVER (PARTITION BY ... ORDER BY ...)"),
    (exp.WindowSpec, "kind"): ("a frame of {}", "write ROWS or RANGE"),
    (exp.Lateral, "cross_apply"): ("APPLY", "write JOIN LATERAL (...), or LEFT JOIN LATERAL (...) ON TRUE"),
    (exp.Lateral, "ordinality"): ("WITH ORDINALITY", "write posexplode(...), or unnest(...) WITH ORDINALITY"),
    (exp.Table, "ordinality"): ("WITH ORDINALITY", "write posexplode(...), or unnest(...) WITH ORDINALITY"),
    (exp.In, "unnest"): ("IN UNNEST", "write array_contains(list, value)"),
    (exp.In, "field"): ("IN without parentheses", "write x IN (...), or array_contains(list, x)"),
    (exp.Between, "symmetric"): ("SYMMETRIC", "write BETWEEN least(a, b) AND greatest(a, b)"),
    (exp.Cast, "format"): ("FORMAT in CAST", "write date_format(...) or to_timestamp(text, format)"),
    (exp.Column, "join_mark"): ("(+)", "write LEFT JOIN ... ON"),
    (exp.DataType, "collate"): ("COLLATE", "write lower(...) to compare without case"),
    (exp.Unnest, "expressions"): ("unnest of more than one list", "write inline(arrays_zip(a, b))"),
    (exp.Bracket, "expressions"): ("more than one index", "write a[i][j]"),
    (exp.Join, "side"): ("{} before JOIN", "write LEFT, RIGHT or FULL"),
    (exp.Join, "kind"): ("{} before JOIN", "write JOIN ... ON, LEFT SEMI JOIN or LEFT ANTI JOIN"),
    (exp.Join, "method"): ("{} before JOIN", "write JOIN ... ON"),
}
_REFUSED: dict[Class, tuple[str, str | None]] = {
    exp.Collate: ("COLLATE", "write lower(...) to compare without case"),  # keys and hashes use the bytes
    exp.JSONKeyValue: ("JSON_OBJECT", "write to_json(named_struct('name', value))"),
    exp.HavingMax: ("HAVING in a function", "write max_by(x, y) or min_by(x, y)"),
    exp.SimilarTo: ("SIMILAR TO", "write RLIKE with a regular expression"),
    exp.Slice: ("a slice", "write slice(list, start, length)"),
}


def unsupported(tree: exp.Expr) -> Iterator[Problem]:
    """Yield the parts of the tree that no later step would read, from the outside in."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        found = _unread(node) or misplaced(node)
        if found is not None:
            yield found
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [v for v in value if isinstance(v, exp.Expr)]


def refused_forms() -> list[tuple[str, str]]:
    """Return the forms rejected by name, with their replacements."""
    shown = [(text, hint) for text, hint in (*_SHOWN.values(), *_REFUSED.values()) if "{}" not in text]
    return sorted({text: hint or "remove it" for text, hint in shown}.items())


def _unread(node: exp.Expr) -> Problem | None:
    class_ = type(node)
    shown = _REFUSED.get(class_)
    if shown is not None:
        return _problem(node, *shown)
    read = READ.get(class_)
    if read is None:
        return _unlisted(node)
    for name, value in node.args.items():
        if name in read and name not in _NARROW:
            continue
        shown = _refused(class_, name, value, read)
        if shown is not None and _is_map(node):
            return _problem(node, "MAP[...]", "write map('a', 1)")
        if shown is not None:
            return _problem(value if isinstance(value, exp.Expr) and "start" in value.meta else node, *shown)
    return None


def _is_map(node: exp.Expr) -> bool:
    """Return whether a node is a map in Flink's syntax."""
    return isinstance(node, exp.Bracket) and isinstance(node.this, exp.Column) and node.this.name.upper() == "MAP"


PRINTED_AS_LISTED: dict[Class, str] = {
    exp.Case: "this ifs default",
    **dict.fromkeys((exp.Concat, exp.ConcatWs, exp.Chr), "expressions"),
    **dict.fromkeys((exp.Map, exp.VarMap), "keys values"),
    exp.ToChar: "this format",  # rewritten
    exp.DateBin: "this expression unit",  # rewritten
    exp.ArraySort: "this expression asc nulls_first",  # NULL first follows from the direction
    exp.JSONExtract: "this expression only_json_types variant_extract",  # rewritten
    exp.RegexpReplace: "this expression replacement position",
}
"""Arguments that the printer writes, for classes that it does not print with all arguments."""


@cache
def printed(class_: Any) -> frozenset[str]:
    """Return the arguments of a function or an operator that Spark's printer writes."""
    if class_ in PRINTED_AS_LISTED:
        return frozenset(PRINTED_AS_LISTED[class_].split())
    required = [name for name, is_required in class_.arg_types.items() if is_required]
    return frozenset(name for name in class_.arg_types if _is_printed(class_, name, required))


def _is_printed(class_: Class, name: str, required: list[str]) -> bool:
    arguments: dict[str, Any] = {n: exp.column(f"argument_{n}") for n in (*required, name)}
    last = next(reversed(class_.arg_types), None)
    if issubclass(class_, exp.Func) and class_.is_var_len_args and last in arguments:
        arguments[last] = [arguments[last]]
    text: str = class_(**arguments).sql(SparkSql, unsupported_level=ErrorLevel.IGNORE)
    return f"argument_{name}" in text.lower()


def _unprinted(node: exp.Expr) -> Problem | None:
    """Return the problem with a written argument of a function or operator that Spark's printer would omit, or None."""
    class_: Any = type(node)
    for name, value in node.args.items():
        values = value if isinstance(value, list) else [value]
        first = next((v for v in values if isinstance(v, exp.Expr) and _is_written(v, node)), None)
        if first is not None and name not in printed(class_):
            shown = f"`{shown_name(node)}`" if isinstance(node, exp.Func) else "this operator"
            place = first if "start" in first.meta else node
            hint = "remove it, or use other functions"
            return Problem("B3015", f"{shown} with this argument ({name}) is not supported", *place_of(place), hint)
    return None


def _is_written(argument: exp.Expr, call: exp.Expr) -> bool:
    """Return whether the argument is in the text. Arguments that the parser adds have the position of the whole
    call."""
    places = [(n.meta.get("start"), n.meta.get("end")) for n in (argument, call)]
    return isinstance(argument, exp.Var) or places[0] != places[1]


def _unlisted(node: exp.Expr) -> Problem | None:
    """Return the problem with a function, operator or class that no rule covers, or None."""
    row = function_of(node)
    if row is not None or isinstance(node, exp.Binary):
        found = _unprinted(node)
        if found is not None:
            return found
    elif not isinstance(node, exp.Func):
        return _problem(node, f"`{node.sql('spark', unsupported_level=ErrorLevel.IGNORE)}`", None)
    if row is None or row.deterministic:
        return None
    message = f"`{node.sql('spark')}` is not deterministic: a view must depend only on its input"
    return Problem("B3006", message, *place_of(node), "use `now()` for the time, `_uid` for a unique number per row")


def _refused(class_: Class, name: str, value: Any, read: frozenset[str]) -> tuple[str, str | None] | None:
    """Return the name of an argument, and its replacement, if the argument is not read."""
    at = (class_, name)
    if value is None or value == [] or (value is False and at not in REPORTED_BY_FALSE):
        return None
    plain = name in read
    if at in WORDS:
        plain = str(value).upper() in WORDS[at]
    elif at in ONE:
        plain = len(value) <= 1
    if plain:
        return None
    word = name.strip("_").replace("_", " ").upper()
    shown, hint = next((_SHOWN[c, name] for c in class_.__mro__ if (c, name) in _SHOWN), (word, None))
    return shown.format(value), hint


def _problem(node: exp.Expr, shown: str, hint: str | None) -> Problem:
    return Problem("B3040", f"{shown} is not supported", *place_of(node), hint or "remove it")
