"""Words of SPL's window clause, in lower case, with their spelling."""

from __future__ import annotations

KINDS = {"tumbling": "tumbling", "sliding": "sliding", "timeinterval": "timeInterval"}
POLICIES = {"punct": "punct", "count": "count", "time": "time", "delta": "delta"}
INTERVALS = {
    "intervalduration": "intervalDuration",
    "creationperiod": "creationPeriod",
    "discardage": "discardAge",
    "intervaloffset": "intervalOffset",
}
FORGETTING = {"partitionage": "partitionAge", "partitioncount": "partitionCount", "tuplecount": "tupleCount"}
PARTITIONED, PARTITION_BY = "partitioned", "partitionby"
INCOMPLETE, EVICTED, FINAL = "aggregateincompletewindows", "aggregateevictedpartitions", "flushonfinal"
OPTIONS = {
    INCOMPLETE: "aggregateIncompleteWindows",
    EVICTED: "aggregateEvictedPartitions",
    FINAL: "flushOnFinal",
}
WORDS = {**KINDS, **POLICIES, **INTERVALS, **FORGETTING, PARTITIONED: "partitioned", **OPTIONS}
"""All words of a clause except column names."""
