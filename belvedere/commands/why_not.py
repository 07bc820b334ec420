"""`belvedere why-not`: where the input rows of a missing row of a view are dropped.

In: a script, a view, a condition that no row of the view meets, the store. Out: each path down, with the rows that
nearly matched, as text or JSON.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from belvedere.commands.why import open_query_runner
from belvedere.errors import BelvedereError
from belvedere.provenance.document import visible, why_not_document
from belvedere.provenance.found_rows import SAMPLE
from belvedere.provenance.trees import print_tree, why_not_tree
from belvedere.provenance.why.why import relation_named
from belvedere.provenance.why_not.why_not import why_not
from belvedere.terminal.output import print_json
from belvedere.terminal.progress_line import UnderWay
from belvedere.terminal.row_condition import predicate_of_condition, show_refused


def command(
    script: Annotated[Path, typer.Argument(help="the script (.sqrl)", metavar="SCRIPT")],
    view: Annotated[str, typer.Argument(help="the view", metavar="VIEW")],
    row: Annotated[str, typer.Argument(help="a condition that no row of the view meets", metavar="CONDITION")],
    store: Annotated[str | None, typer.Option("--store", help="the store's URL", metavar="URL")] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, max=1000, help="the number of near matches to show")] = SAMPLE,
    json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> int:
    """Explain why a view has no such row: the operators that drop its rows, and the near matches."""
    try:
        with UnderWay(quiet=json), open_query_runner(store, script) as (query_runner, known):
            id_ = relation_named(query_runner.catalog, view.replace("`", ""))
            answer = why_not(query_runner, id_, predicate_of_condition(view, row, known), size=rows)
    except BelvedereError as error:
        show_refused(error, row, json=json)
        return 1
    if json:
        print_json(why_not_document(query_runner.catalog, answer, partial(visible, query_runner.catalog)))
    else:
        print_tree(why_not_tree(answer))
    return 0
