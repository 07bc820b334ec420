"""Rejection of a changed script whose needed rows are gone, with a remedy that loses no more rows.

In: the catalog, its pipeline, the rebuilt relations. Out: nothing, or a diagnostic. Files can be re-read. Pushed rows
are only in the store, so a new store is only suggested for scripts without pushes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from belvedere.catalog.catalog import Catalog, pushed_inputs
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.relation import name_in_script
from belvedere.engine.stage import Stage
from belvedere.errors import BelvedereError, fail

EMPTY: Mapping[str, str] = {}
RESUME = (
    "or write /*+ resume */ before a corrected view: its rows so far are kept, and its new definition applies "
    "to later rows"
)


def refuse(found: Iterable[tuple[str, BelvedereError]]) -> None:
    """Raise the first error of `lost_rows` or `changed_inputs`, if there is one."""
    for _, error in found:
        raise error


def lost_rows(
    catalog: Catalog,
    pipeline: Pipeline,
    fresh: frozenset[str],
    restored: frozenset[str],
    known: Container[str],
    why: Mapping[str, str] = EMPTY,
    again: Container[str] = frozenset(),
    held: Container[str] = frozenset(),
) -> Iterator[tuple[str, BelvedereError]]:
    """Yield diagnostics by id of a view or input.

    By id of a view: B7030 if a stage is recomputed (`fresh`, not `restored`) from rows that were not kept, which would
    give a partial answer. By id of an input: B7031 if a pushed input that the store knows (`known`) has changed, which
    is then the cause. Rows of inputs in `again` are re-read from their sources; the changes that the stages of `held`
    outputs missed were kept.
    """
    for stage, relation in not_retained(pipeline, fresh, restored):
        if relation in again or stage.output in held:
            continue
        feeding = _inputs_of(pipeline, relation)
        yield from changed_inputs(catalog, {i for i in feeding if i in fresh and i in known}, why)
        view, read = name_in_script(stage.owner), name_in_script(relation)
        reason = f'not all earlier rows of "{read}" were kept'
        message = f'view "{view}" is new or changed, but {reason}'
        yield stage.owner, fail("B7030", message, hint=f"{_hint(catalog, feeding)}; {RESUME}", reason=reason)


def not_retained(pipeline: Pipeline, fresh: frozenset[str], restored: frozenset[str]) -> Iterator[tuple[Stage, str]]:
    """Yield the recomputed stages, each with the input relations whose rows are not all stored."""
    computed = fresh & {s.output for s in pipeline.stages if not s.is_input}
    for stage in pipeline.stages:
        for slot in stage.slots:
            is_read = stage.output in fresh - restored and slot.relation not in computed
            if is_read and not pipeline.relations[slot.relation].is_state:
                yield stage, slot.relation


def changed_inputs(
    catalog: Catalog, changed: Container[str], why: Mapping[str, str] = EMPTY
) -> Iterator[tuple[str, BelvedereError]]:
    """Yield B7031 by id for each input among `changed` to which clients push.

    `why` gives the reason why its rows are no longer valid.
    """
    for id_, table in pushed_inputs(catalog).items():
        if id_ in changed:
            what = (
                f"{table.name}: {why[id_]}" if id_ in why else f'"{table.name}" has changed since its rows were pushed'
            )
            error = fail(
                "B7031",
                f"{what}: the rows that were pushed would be lost",
                span=table.span,
                hint="undo the change (you can add nullable columns, and change INT to BIGINT, DECIMAL or "
                "DOUBLE), or define "
                "a stream of another name and read both; pushed rows are only in this store: a new store loses "
                "them as well",
            )
            yield id_, error


def _hint(catalog: Catalog, feeding: set[str]) -> str:
    pushed = pushed_inputs(catalog)
    names = _quoted(t.name for t in pushed.values())
    if feeding & pushed.keys():
        return (
            "undo the change of the view, or push to a stream of another name from now on and read it by a new "
            "view; pushed rows cannot "
            f"be re-read, and a new store loses those of {names} too"
        )
    if pushed:
        return (
            f"make the input public: it is re-read, and its rows are kept; a new store loses the rows pushed to {names}"
        )
    return (
        "make the input public: the rows that its source still has are re-read, and rows are kept from then on; or "
        "start "
        "with another store (--store)"
    )


def _inputs_of(pipeline: Pipeline, relation: str) -> set[str]:
    """Return the inputs that feed a relation; for an input, itself."""
    requested, found = [relation], {relation}
    while requested:
        stage = next((s for s in pipeline.stages if s.output == requested[-1]), None)
        requested.pop()
        new = {s.relation for s in stage.slots} - found if stage is not None else set()
        found |= new
        requested += new
    return found


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{n}"' for n in names)
