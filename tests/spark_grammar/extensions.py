"""What is accepted that Spark's analyzer refuses, and why."""

from __future__ import annotations

EXTENSIONS = {
    "PARSE_SYNTAX_ERROR": "GROUP BY () is one group of all rows, as in standard SQL",
    "UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE": "DISTINCT and UNION tell maps apart, as groups do",
    "INVALID_EXTRACT_FIELD": "an interval has all the fields of its kind: years and months, or days to seconds",
    "INVALID_EXTRACT_BASE_FIELD_TYPE": "columns of both sides of a FULL JOIN with USING can be named",
    "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES": "tuples are compared by their places",
    "DATATYPE_MISMATCH.DATA_DIFF_TYPES IN": "tuples are compared by their places",
    "AMBIGUOUS_REFERENCE": "a table's alias comes before a column of that name",
    "MISSING_ATTRIBUTES": "rows of LATERAL explode(...) stand in every expression",
    "UNRESOLVED_ROUTINE": "ALL (x) in an aggregate is ALL",
    "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY": "a subquery that is linked stands in every expression",
}
"""By the condition of Spark's error, or how it begins."""


OTHERWISE = {
    "`x IN (SELECT ...)` as a value": "NULL where no element is equal and x or an element is NULL, as in standard "
    "SQL; Spark says FALSE",
    "`second(t)`, `minute`, `hour`, `day`, `week`, `month`, `quarter`, `year`": "the time rounded down; "
    "Spark gives a number: `extract(HOUR FROM t)`",
}
"""What is answered in another way than by Spark, on purpose."""


def is_extension(condition: str, text: str) -> bool:
    """Whether the condition of Spark's error is on the list. Of types that differ only those beside IN are."""
    if "Input to `in` should" in text:
        condition += " IN"
    return any(condition.startswith(known) for known in EXTENSIONS)
