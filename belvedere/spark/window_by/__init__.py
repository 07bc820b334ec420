"""Evaluate SQL++ queries with WINDOW BY on Spark.

The path of a query: `runner` takes it apart into blocks, `tuples` does the steps before and after the clause, `windowed` the clause itself.
`native` writes what Spark SQL can say; `plan` says which columns and outputs the kernels need (`belvedere.kernels`); `interpret` is the
plain evaluator that every query can fall back to.
"""

from belvedere.spark.window_by import interpret_query

__all__ = ["interpret_query"]
