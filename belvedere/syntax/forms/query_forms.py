"""Forms of a whole query or FROM item: DISTINCT ON, `window(...)`, `range(...)`, `generate_series(...)`,
`json_tuple(...)`.

In: the parsed node. Out: the same rows in the forms that lowering reads. `belvedere.syntax.forms.rewriting` lists the
rewrites.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import sqlglot
from sqlglot import exp

from belvedere.spark_sql.dialect import SparkSql
from belvedere.syntax.forms.builders import UNITS, make_interval
from belvedere.syntax.problems import Problem
from belvedere.syntax.query_tree import WindowCall, place_of


def filled(text: str, **parts: exp.Expr) -> exp.Expr:
    """Parse a text and replace names in it by these parts."""
    tree: exp.Expr = sqlglot.parse_one(text, dialect=SparkSql)
    return tree.transform(lambda n: parts[n.name].copy() if isinstance(n, exp.Column) and n.name in parts else n)


def rewritten_select(select: exp.Select) -> exp.Expr:
    """Rewrite DISTINCT ON and window functions in GROUP BY of a SELECT."""
    return first_of_keys(time_windows(select))


def first_of_keys(select: exp.Select) -> exp.Expr:
    """Rewrite `SELECT DISTINCT ON (k) ... ORDER BY k, t`, the first row of each k, as `QUALIFY row_number() OVER (...)
    = 1`."""
    distinct: Any = select.args.get("distinct")
    on = distinct.args.get("on") if distinct is not None else None
    if on is None:
        return select
    if select.args.get("qualify") is not None:
        raise Problem(
            "B3040", "DISTINCT ON together with QUALIFY is not supported", *place_of(select), "filter in an outer query"
        )
    order: Any = select.args.get("order")
    keys = [_item(select, k) for k in on.expressions]
    orders = []
    for ordered in order.expressions if order is not None else ():
        sorted_ = ordered.copy()
        sorted_.set("this", _item(select, ordered.this))
        orders.append(sorted_)
    if not orders:
        hint = "write ORDER BY after it: the first row in that order is kept"
        raise Problem("B3040", "DISTINCT ON without ORDER BY keeps an arbitrary row", *place_of(select), hint)
    number = exp.Window(this=exp.RowNumber(), partition_by=keys, order=exp.Order(expressions=orders), over="OVER")
    select.set("distinct", None)
    select.set("qualify", exp.Qualify(this=exp.EQ(this=number, expression=exp.Literal.number(1))))
    return select


def _item(select: exp.Select, key: exp.Expr) -> exp.Expr:
    """Return the expression of a key, which may be the number or name of a select item. As in ORDER BY, output names
    come first."""
    if isinstance(key, exp.Column) and len(key.parts) == 1:
        named = (
            i.this for i in select.expressions if isinstance(i, exp.Alias) and i.alias.casefold() == key.name.casefold()
        )
        item: exp.Expr = next(named, key)
        return item.copy()
    if isinstance(key, exp.Literal) and not key.is_string and key.name.isdigit():
        items = select.expressions
        if not 1 <= int(key.name) <= len(items) or any(i.is_star for i in items):
            raise Problem("B3042", f"there is no select item {key.name}", *place_of(key), "name the column")
        numbered: exp.Expr = items[int(key.name) - 1].unalias()
        return numbered.copy()
    return key.copy()


RANGE = (
    "CASE WHEN (c_ > 0 AND a_ < b_) OR (c_ < 0 AND a_ > b_) THEN sequence(a_, b_ - CAST(sign(c_) AS BIGINT), c_) END"
)
SERIES = "CASE WHEN (c_ > 0 AND a_ <= b_) OR (c_ < 0 AND a_ >= b_) THEN sequence(a_, b_, c_) END"
TIMES = "CASE WHEN a_ <= b_ THEN sequence(a_, b_, c_) END"


def series(table: exp.Table) -> exp.Expr:
    """Rewrite `range(end)`, `range(start, end[, step])` and `generate_series(start, end[, step])` in FROM as rows of an
    array."""
    call: Any = table.this
    if isinstance(call, exp.GenerateSeries):
        name, arguments = (
            "generate_series",
            [call.args[k] for k in ("start", "end", "step") if call.args.get(k) is not None],
        )
    elif isinstance(call, exp.Anonymous) and call.name.lower() == "range" and 1 <= len(call.expressions) <= 3:
        name, arguments = "range", call.expressions
    else:
        return table
    if (
        name == "range"
        and (interval := next((a for a in arguments if isinstance(a.unnest(), exp.Interval)), None)) is not None
    ):
        hint = "write generate_series(start, end, INTERVAL '1' DAY)"
        raise Problem("B3002", "`range` takes whole numbers", *place_of(interval), hint)
    if name == "range":
        arguments = [exp.cast(a.copy(), "BIGINT") for a in arguments]
        arguments = [exp.cast(exp.Literal.number(0), "BIGINT"), *arguments] if len(arguments) == 1 else arguments
    start, end, *rest = arguments
    one = exp.cast(exp.Literal.number(1), "BIGINT") if name == "range" else exp.Literal.number(1)
    step = rest[0] if rest else one
    text = RANGE if name == "range" else TIMES if isinstance(step, exp.Interval) else SERIES
    values = filled(text, a_=start, b_=end, c_=exp.paren(step.copy(), copy=False))
    alias: Any = table.args.get("alias")
    column = "id" if name == "range" else alias.name if alias is not None and alias.name else name
    query = exp.Select(expressions=[exp.alias_(exp.Explode(this=values), column, quoted=True)])
    alias = alias.copy() if alias is not None else exp.TableAlias(this=exp.to_identifier(name))
    return exp.Subquery(this=query, alias=alias)


def json_fields(call: exp.Anonymous) -> exp.Expr:
    """Rewrite `json_tuple(text, 'a', 'b')` in a select list or a LATERAL VIEW as one row of `get_json_object` calls."""
    text, *names = call.expressions or [exp.Null()]
    if not names or not all(isinstance(n, exp.Literal) and n.is_string and "'" not in n.name for n in names):
        raise Problem("B3040", "json_tuple takes names as strings", *place_of(call), "write json_tuple(text, 'a', 'b')")
    return _rows_of([[filled(f"get_json_object(t_, '$[\\'{name.name}\\']')", t_=text) for name in names]], "c")


def stacked(call: exp.Stack) -> exp.Expr:
    """Rewrite `stack(2, a, b, c)`: two rows of two columns, the last of which is NULL."""
    count, values = call.this, call.expressions
    if not isinstance(count, exp.Literal) or count.is_string or not count.name.isdigit() or count.name == "0":
        raise Problem(
            "B3071", "`stack` takes a number of rows first", *place_of(count), "write stack(2, 'a', a, 'b', b)"
        )
    width = -(-len(values) // int(count.this))
    padded = [*(v.copy() for v in values), *(exp.Null() for _ in range(width * int(count.this) - len(values)))]
    return _rows_of([padded[n : n + width] for n in range(0, len(padded), width)], "col")


def _rows_of(rows: Sequence[Sequence[exp.Expr]], name: str) -> exp.Expr:
    """Return the rows unchanged, with numbered columns."""
    structs = [
        exp.Struct(
            expressions=[exp.PropertyEQ(this=exp.to_identifier(f"{name}{n}"), expression=v) for n, v in enumerate(row)]
        )
        for row in rows
    ]
    return exp.Inline(this=exp.Array(expressions=structs))


# -- window(t, '10 minutes') ------------------------------------------------------------------------------------------


def time_windows(select: exp.Select) -> exp.Select:
    """Rewrite Spark's `GROUP BY window(t, length[, slide[, start]])` as Tumble or Hop in FROM, with `window.start` and
    `window.end`.

    Rewrite `TUMBLE(t, length)`, `HOP(t, slide, length)` and `SESSION(t, gap)` in the same way, with `TUMBLE_START(...)`
    and similar calls.
    """
    group: Any = select.args.get("group")
    call: Any = next((e for e in (group.expressions if group is not None else ()) if _is_window(e)), None)
    if call is None:
        return select
    word = WORDS[call.name.lower()]
    item: Any = select.args["from_"].this if select.args.get("from_") is not None else None
    plain = (
        isinstance(item, (exp.Table, exp.Subquery)) and not select.args.get("joins") and not select.args.get("laterals")
    )
    most = 2 if word == SESSION else 4
    if not plain or not 2 <= len(call.expressions) <= most or not isinstance(call.expressions[0], exp.Column):
        hint = (
            f"read one table or subquery: FROM t ... GROUP BY {word}(time, '10 minutes'), or write Tumble(...) in FROM"
        )
        raise Problem("B3040", f"{word}(...) is not supported here", *place_of(call), hint)
    time, *lengths = call.expressions
    if call.name.lower() == "hop":
        lengths = [*reversed(lengths[:2]), *lengths[2:]]
    names = ("gap",) if word == SESSION else ("dur", "hopsize", "offset")
    gap = _gap_of_rows(lengths[0], call) if word == SESSION else None
    intervals = {} if gap is not None else dict(zip(names, (_length(length, call) for length in lengths), strict=False))
    sliding = "hopsize" in intervals and intervals["hopsize"] != intervals["dur"]
    if not sliding:
        intervals.pop("hopsize", None)
    data = item.copy()
    alias = data.args.get("alias")
    data.set("alias", None)
    keys = [e for e in group.expressions if e is not call]
    if word == SESSION and not all(isinstance(k, exp.Column) for k in keys):
        hint = "compute the other keys in a subquery of FROM"
        raise Problem("B3040", "session_window(...) can only be grouped together with columns", *place_of(call), hint)
    kind = "session" if word == SESSION else "hop" if sliding else "tumble"
    source = data.this if isinstance(data, exp.Subquery) else data
    if gap is not None:
        own = exp.column(time.this.copy())
        until = exp.alias_(exp.Add(this=own, expression=gap), UNTIL)
        source = exp.select(exp.Star(), until).from_(item.copy())
        source.meta.update(call.meta)
        intervals = {"until": exp.column(UNTIL)}
    windows = WindowCall(function=kind, data=source, timecol=exp.column(time.this.copy()), flink=False, **intervals)
    if word == SESSION:
        windows.set("keys", [exp.column(k.this.copy()) for k in keys])
    windows.meta.update(call.meta)
    name = alias or exp.TableAlias(this=exp.to_identifier(item.name if isinstance(item, exp.Table) else "windowed"))
    item.replace(exp.Table(this=windows, alias=name.copy()))
    group.set("expressions", [p for e in group.expressions for p in (_bounds() if e is call else [e])])
    for node in list(select.find_all(exp.Column, exp.Anonymous)):
        if node.find_ancestor(exp.Select) is select:
            _replace_window(node, call, word)
    return select


SESSION = "session_window"
WORDS = {"window": "window", "tumble": "window", "hop": "window", SESSION: SESSION, "session": SESSION}
"""Functions of windows in GROUP BY, and the names of their columns."""
UNTIL = "session_until"
"""Name of the column with the end of each row's own gap."""
GROUP_WINDOWS = ("tumble", "hop", "session")
ENDS = {"START": "s_", "END": "e_", "ROWTIME": "e_ - INTERVAL '0.001' SECOND"}
"""Value of `TUMBLE_START(...)`, `TUMBLE_END(...)` and `TUMBLE_ROWTIME(...)`, by the last word of the name; HOP and
SESSION have the same."""


def _is_window(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in WORDS


def _bounds() -> list[exp.Expr]:
    return [exp.column("wstart"), exp.column("wend")]


def _replace_window(node: Any, call: exp.Expr, word: str) -> None:
    """Replace `window.start`, `window.end` and `window` itself."""
    start, end = _bounds()
    if isinstance(node, exp.Column) and node.table.lower() == word and node.name.lower() in ("start", "end"):
        new: exp.Expr = start if node.name.lower() == "start" else end
        new = exp.alias_(new, node.name, quoted=True) if isinstance(node.parent, exp.Select) else new
    elif _end_of_group_window(node, call) is not None:
        new = filled(ENDS[_end_of_group_window(node, call) or ""], s_=start, e_=end)
    elif isinstance(node, exp.Anonymous) and node.name.lower() == "window_time" and _names(node.expressions, word):
        new = filled("e_ - INTERVAL '1' MICROSECOND", e_=end)
    elif node == call or (isinstance(node, exp.Column) and not node.table and node.name.lower() == word):
        new = filled("named_struct('start', s_, 'end', e_)", s_=start, e_=end)
        new = exp.alias_(new, word) if isinstance(node.parent, exp.Select) else new
    else:
        return
    new.meta.update(node.meta)
    node.replace(new)


def _end_of_group_window(node: Any, call: exp.Expr) -> str | None:
    """Return START, END or ROWTIME if a node is this end of a window of TUMBLE, HOP or SESSION, else None."""
    name, _, end = node.name.upper().rpartition("_") if isinstance(node, exp.Anonymous) else ("", "", "")
    same = name.lower() in GROUP_WINDOWS and name.lower() == call.name.lower() and node.expressions == call.expressions
    return end if same and end in ENDS else None


def _names(arguments: Sequence[exp.Expr], word: str) -> bool:
    only = arguments[0] if len(arguments) == 1 else None
    return isinstance(only, exp.Column) and only.name.lower() == word


def _gap_of_rows(written: exp.Expr, call: exp.Expr) -> exp.Expr | None:
    """Return a gap that depends on the row, with texts as intervals; None for a literal."""
    if isinstance(written.unnest(), exp.Literal | exp.Interval):
        return None
    gap = written.copy()
    for text in [e for e in _results(gap) if isinstance(e, exp.Literal)]:
        text.replace(_length(text, call))
    return gap


def _results(expr: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the expressions that can be the value of a CASE, IF or COALESCE."""
    match expr:
        case exp.Paren():
            yield from _results(expr.this)
        case exp.Case():
            for branch in expr.args["ifs"]:
                yield from _results(branch.args["true"])
            if expr.args.get("default") is not None:
                yield from _results(expr.args["default"])
        case exp.If():
            yield from _results(expr.args["true"])
            if expr.args.get("false") is not None:
                yield from _results(expr.args["false"])
        case exp.Coalesce():
            for part in (expr.this, *expr.expressions):
                yield from _results(part)
        case _:
            yield expr


def _written_length(written: exp.Expr) -> exp.Expr | None:
    """Return the interval of a text like '10 minutes'; None for any other expression."""
    found = re.fullmatch(r"\s*(\d+)\s+(\w+)\s*", written.name) if isinstance(written, exp.Literal) else None
    return make_interval(found[1], found[2]) if found is not None and found[2].upper() in UNITS else None


def _length(written: exp.Expr, call: exp.Expr) -> exp.Expr:
    found = _written_length(written)
    if found is not None:
        return found
    if isinstance(written, exp.Interval):
        return written.copy()
    hint = f"write {call.name.lower()}(time, '10 minutes')"
    raise Problem("B5002", f"{call.name.lower()}() needs intervals", *place_of(call), hint)
