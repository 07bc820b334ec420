"""The views for other tools in a store: created, removed, and recorded in a document of the store.

In: `ShownView`s, in the open transaction of the session. Out: nothing. A view with unchanged statements is not touched,
so its readers never wait for an epoch that does not change it. A recreated view gets its former grants.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from belvedere.schema import Schema
from belvedere.store.dialects.session import Session
from belvedere.store.identifiers import stored_name
from belvedere.store.public_views import (
    EPOCH_VIEW,
    ShownView,
    ViewGrant,
    ViewSchema,
    dropping,
    granting,
    making,
    making_epoch,
)
from belvedere.store.stored_table import StoredTable
from belvedere.store.system import DOCUMENT, SET_DOCUMENT, SHOWN

Made = dict[str, tuple[str, list[str]]]


class Views:
    """The views of one store for other tools."""

    def __init__(self, session: Session):
        self._session = session
        self._granted: dict[str, tuple[ViewGrant, ...]] = {}
        """Grants on views that were removed since the last `show`."""

    def hide(self, tables: Collection[StoredTable]) -> None:
        """Drop the views that read these tables, and those whose names these tables will have."""
        made = self._made()
        place = self._session.place_of_views() if made else None
        if place is not None:
            requested = {t.name for t in tables}
            self._drop(
                made, [n for n, (table, _) in made.items() if table in requested or place.name(n) in requested], place
            )

    def show(self, views: Sequence[ShownView]) -> None:
        """Create these views and drop all others, if this user can create views."""
        place = self._session.place_of_views()
        if place is None:
            return
        dialect, made = self._session.dialect, self._made()
        own = {place.name(n).lower() for n in made}
        free = replace(place, taken=place.taken - own)
        shown = {v.name: v for v in views if free.is_free(v.name)}
        requested = {v.name: (v.table.name, list(making(v, place, dialect))) for v in shown.values()}
        if free.is_free(EPOCH_VIEW):
            requested[EPOCH_VIEW] = ("", list(making_epoch(place, dialect)))
        left = self._drop(made, [n for n in made if requested.get(n) != made[n]], place)
        fresh = {name: statements for name, (_, statements) in requested.items() if name not in left}
        epoch = ShownView(EPOCH_VIEW, StoredTable(EPOCH_VIEW, Schema(())))
        granted = (self._granting(shown.get(name, epoch), place) for name in fresh)
        for statement in (
            *(place.first if fresh else ()),
            *chain.from_iterable(fresh.values()),
            *chain.from_iterable(granted),
        ):
            self._session.execute(statement)
        self._granted.clear()
        if requested != made:
            self._note(requested)

    def _drop(self, made: Made, going: Collection[str], place: ViewSchema) -> Made:
        """Drop some of the views, and return the remaining ones."""
        for name in going:
            self._granted[name] = self._session.grants_on(place.target(name))
            self._session.execute(dropping(name, place))
        left = {n: content for n, content in made.items() if n not in going}
        if going:
            self._note(left)
        return left

    def _granting(self, view: ShownView, place: ViewSchema) -> Iterator[str]:
        columns = {stored_name(c.name) for c in view.table.schema.visible}
        return granting(self._granted.get(view.name, ()), columns, place.target(view.name))

    def _made(self) -> Made:
        rows = self._session.execute(f"SELECT content FROM {DOCUMENT} WHERE name = ?", (SHOWN,))
        text = self._session.dialect.unescape(str(rows[0][0])) if rows else "{}"
        return {name: (table, statements) for name, (table, statements) in json.loads(text).items()}

    def _note(self, made: Made) -> None:
        text = json.dumps(made, ensure_ascii=True)
        self._session.execute(SET_DOCUMENT, (SHOWN, self._session.dialect.escape(text)))
