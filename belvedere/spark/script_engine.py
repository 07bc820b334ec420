"""The engine of a script on a Spark session."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from belvedere.catalog.catalog import Catalog
from belvedere.connectors.exporting.exports import Exports
from belvedere.engine.epoch import Engine
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.store_folders import open_state
from belvedere.project.settings import Sink
from belvedere.spark.buckets import spreading_of
from belvedere.spark.compute import DRIVER_MEMORY, SMALL, SparkCompute
from belvedere.spark.project_functions import register_functions
from belvedere.state.state import COPIES, RETAIN
from belvedere.store.protocol import Store

_ENGINES = itertools.count()


def open_engine(
    spark: SparkSession,
    catalog: Catalog,
    pipeline: Pipeline,
    store: Store,
    sinks: Mapping[str, Sink] | None = None,
    driver_memory: int = DRIVER_MEMORY,
    state: Path | str | None = None,
    retain: float = RETAIN,
    copies: int = COPIES,
    again: Collection[str] = frozenset(),
) -> Engine:
    """Return the engine. `driver_memory`: the maximum bytes of an epoch's rows in this process.

    `state` is the folder of the operators' state or its address; its files stay `retain` seconds after their last use,
    and of an address `copies` bytes are cached here. The rows of inputs in `again` can be re-read from their sources.
    """
    register_functions(spark, catalog.functions)
    prefix = f"belvedere_{os.getpid()}_{next(_ENGINES)}"
    compute = SparkCompute(spark, prefix, memory=driver_memory, spreading=spreading_of(spark, SMALL))
    opened = open_state(store, state, compute.memory.chunk, retain, copies)
    return Engine(compute, catalog, pipeline, store, opened, Exports(catalog, sinks or {}, store), again)
