"""The condition of `belvedere why` and `why-not` on a command line: the rows that it selects, and its errors.

In: a view's name, a condition, the script's definitions. Out: the selected rows; diagnostics with their places in the
condition. Reads no rows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from belvedere.catalog.templates import QueryTemplate
from belvedere.editor.quoted_names import written
from belvedere.errors import BelvedereError, Diagnostic, fail, in_other_text
from belvedere.functions.other_systems import OTHER_NAMES
from belvedere.plan.expressions import conjuncts
from belvedere.plan.operators.nodes import Filter, Scan
from belvedere.plan.rewrites.rewrite import push_down
from belvedere.provenance.row_predicates import RowPredicate
from belvedere.provenance.why_not.impossible_literals import check_literals
from belvedere.queries.store_queries import QUERY_FILE, Vocabulary, compile_read
from belvedere.syntax.wording import nearest_name
from belvedere.terminal.output import diagnostics_json, print_json, show

FILE = "<condition>"
ADVICE = "write `column = value`, with AND between them"


def predicate_of_condition(view: str, condition: str, known: Vocabulary) -> RowPredicate:
    """Return the rows of a view, named with or without backticks, for which a condition is TRUE.

    Raises diagnostics with places in it.
    """
    if not condition.strip():
        raise fail("B8114", "the condition must compare columns of the row with literals", hint=ADVICE)
    name = ".".join(written(part) for part in view.replace("`", "").split("."))
    begin = f"SELECT * FROM {name} WHERE "
    relation = known.definitions.find(name)
    columns = () if relation is None else tuple(relation.schema.names)
    _compiled(begin, condition, "", known, columns)
    try:
        template = _compiled(f"{begin}(", condition, "\n)", known, columns)
    except BelvedereError as error:
        raise fail(
            "B8114", "there is more text after the condition", span=error.diagnostics[0].span, hint=ADVICE
        ) from error
    found = next((n for n in template.plan.walk() if isinstance(n, Filter)), None)
    if found is None or any(not isinstance(n, Scan) and len(n.inputs) != 1 for n in template.plan.walk()):
        raise fail("B8114", "the condition must compare columns of the row with literals", hint=ADVICE)
    tests = push_down(found.input, conjuncts(found.condition))
    check_literals(tests, next(n.schema for n in found.walk() if isinstance(n, Scan)))
    return RowPredicate(tests)


def _compiled(begin: str, condition: str, end: str, known: Vocabulary, columns: Sequence[str]) -> QueryTemplate:
    try:
        return compile_read(begin + condition + end, known)[1]
    except BelvedereError as error:
        raise BelvedereError([_in_condition(d, len(begin), condition, columns) for d in error.diagnostics]) from error


def show_refused(error: BelvedereError, condition: str, *, json: bool) -> None:
    """Print the errors: for people on stderr, as JSON on stdout."""
    texts = {FILE: condition}
    if json:
        print_json({"ok": False, "diagnostics": diagnostics_json(error.diagnostics, texts)})
    else:
        show(error.diagnostics, texts, stream=sys.stderr)


def _in_condition(diagnostic: Diagnostic, by: int, condition: str, columns: Sequence[str]) -> Diagnostic:
    """Return a diagnostic of a query with its places in the condition.

    It hints that an unknown column may be meant as a text.
    """
    found = in_other_text(diagnostic, QUERY_FILE, by, FILE)
    word = "" if found.span is None else condition[found.span.start : found.span.end]
    if found.code == "B2002" and word and word.upper() not in OTHER_NAMES and nearest_name(word, columns) is None:
        return replace(found, hint=f"{found.hint}; write a string in quotes: '{word}'")
    return found
