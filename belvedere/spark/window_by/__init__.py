"""Evaluate SQL++ queries with WINDOW BY on Spark.

The path of a query: `run` takes it apart into stages; `native` writes what Spark SQL can say; `bounds` and `aggregates` are
the vectorised kernels over sorted partitions; `interpret` is the plain evaluator that every query can fall back to.
"""
