"""Maintenance of a script's views, planned once for a catalog.

In: a catalog without errors. Out: its pipeline and explanations; None if it cannot be maintained, which `check`
reports.
"""

from __future__ import annotations

from functools import lru_cache

from belvedere.catalog.catalog import Catalog
from belvedere.engine.pipeline import Pipeline
from belvedere.errors import BelvedereError
from belvedere.pipeline.choose import maintain
from belvedere.pipeline.explain import ViewExplanation, explain


class _ById:
    """Hash key that compares catalogs by identity."""

    def __init__(self, catalog: Catalog):
        self.catalog = catalog

    def __hash__(self) -> int:
        return id(self.catalog)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.catalog is self.catalog


def pipeline_of(catalog: Catalog) -> Pipeline | None:
    """Return the pipeline of a catalog; None if it cannot be maintained."""
    return _pipeline(_ById(catalog))


def explanations(catalog: Catalog) -> tuple[ViewExplanation, ...]:
    """Return how each view is maintained and read."""
    return _explanations(_ById(catalog))


@lru_cache(maxsize=8)
def _pipeline(of: _ById) -> Pipeline | None:
    try:
        return maintain(of.catalog)
    except BelvedereError:
        return None


@lru_cache(maxsize=8)
def _explanations(of: _ById) -> tuple[ViewExplanation, ...]:
    pipeline = _pipeline(of)
    return explain(of.catalog, pipeline) if pipeline is not None else ()
