"""Window clause of IBM Streams' SPL in SQL: text -> clause -> policies -> plan.

In: the parser's tokens, a SELECT. Out: an `SplAggregate` (`belvedere.plan.operators.spl_aggregate`) with ordinary
operators around it.
"""
