"""Hints for functions and names of other systems that have another name in Belvedere.

In: nothing. Out: hints by name.
"""

from __future__ import annotations

from collections.abc import Mapping

_PARSED = "write to_timestamp(text, 'yyyy-MM-dd HH:mm:ss'), with the letters of Java's patterns"
_JSON = "write get_json_object(text, '$.a'), or from_json(text, 'a INT')"

OTHER_FUNCTIONS: Mapping[str, str] = {
    "PROCTIME": (
        "write now(), the clock of the epoch; for the time of arrival declare `p TIMESTAMP METADATA FROM 'timestamp'`"
    ),
    "WINDOW": "write GROUP BY window(ts, '10 minutes'), or Tumble(...) in FROM and GROUP BY wend",
    "MZ_NOW": "write now(), the clock of the epoch: WHERE ts >= now() - INTERVAL '1' HOUR",
    "DATE_BIN_HOPPING": (
        "take HOP(TABLE t, DESCRIPTOR(ts), slide => INTERVAL '1' MINUTE, size => INTERVAL '5' MINUTES) in FROM"
    ),
    "CURRENT_ROW_TIMESTAMP": "write now(), the clock of the epoch",
    "ROW": "write struct(a, b), or named_struct('name', a, ...)",
    "CURRENT_WATERMARK": "a watermark is not a value of a row: EMIT AFTER WATERMARK emits the rows below it",
    "SOURCE_WATERMARK": "write WATERMARK FOR ts without an expression: producers send the bounds",
    "JSON_VALUE": _JSON,
    "JSON_QUERY": _JSON,
    "JSON_EXISTS": "write get_json_object(text, '$.a') IS NOT NULL",
    "JSON_STRING": "write to_json(x)",
    "JSON_ARRAY": "write to_json(array(a, b))",
    "SPLIT_INDEX": "write split_part(text, ',', 1), which counts from 1",
    "CONVERT_TZ": "write to_utc_timestamp(t, zone) or from_utc_timestamp(t, zone)",
    "HASH_CODE": "write hash(x)",
    "ELEMENT": "write the index in brackets, counted from 0: list[0]",
    "ARRAY_CONCAT": "write concat(a, b)",
    "ARRAY_REVERSE": "write reverse(list)",
    "MAP_UNION": "write map_concat(a, b)",
    "GROUP_ID": "write grouping_id()",
    **dict.fromkeys(("DATE_PARSE", "PARSE_DATETIME", "PARSE_TIMESTAMP", "STRPTIME"), _PARSED),
    **dict.fromkeys(
        ("STR_TO_DATE", "PARSE_DATE"), "write to_date(text, 'yyyy-MM-dd'), with the letters of Java's patterns"
    ),
    **dict.fromkeys(("GETDATE", "SYSDATE", "SYSDATETIME", "SYSTIMESTAMP"), "write now(), the clock of the epoch"),
    "IS_DECIMAL": "write try_cast(text AS DOUBLE) IS NOT NULL",
    "IS_DIGIT": "write text RLIKE '^[0-9]+$'",
    "IS_ALPHA": "write text RLIKE '^[A-Za-z]+$'",
    **{f"SHA{bits}": f"write sha2(text, {bits})" for bits in (224, 256, 384, 512)},
    **{
        f"ENDOF{unit}": f"write date_trunc('{unit}', t) + 1 {unit}, the end of the {unit.lower()}"
        for unit in ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
    },
}
"""Hints for functions that Belvedere does not have."""
OTHER_ARGUMENTS: Mapping[str, str] = {
    "to_timestamp_ltz": "for milliseconds write timestamp_millis(n), for seconds timestamp_seconds(n)",
}
"""Hints for functions that take other arguments in other systems."""
TRUNCATED = "write sign(x) * floor(abs(x), 2) for two digits after the point"
"""Hint for `truncate(x, n)`."""
OTHER_NAMES: Mapping[str, str] = {
    "LOCALTIMESTAMP": "write localtimestamp(), or now()",
    "LOCALTIME": "write date_format(now(), 'HH:mm:ss')",
    "CURRENT_TIME": "write date_format(now(), 'HH:mm:ss')",
}
"""Hints for names that are not columns."""
