"""Building blocks of random queries: tables, literals and functions, by kinds of values.

In: nothing. Out: texts by kind. A kind stands for one or more types of Spark: `int`, `long`, `dec`, `dbl`, `str`,
`bin`, `bool`, `date`, `ts`, `ntz`, `iv` (day-time), `ym` (year-month), `xs` (ARRAY<INT>), `ss` (ARRAY<STRING>), `m`
(MAP<STRING, INT>), `r` (STRUCT<a: INT, b: STRING>).
"""

from __future__ import annotations

SCRIPT = """
CREATE TABLE T (id INT, i INT, j INT, l BIGINT, h SMALLINT, n DECIMAL(10, 2), d DOUBLE, f FLOAT, s STRING,
  y BINARY, b BOOLEAN, day DATE, t TIMESTAMP, ntz TIMESTAMP_NTZ, iv INTERVAL DAY TO SECOND, xs ARRAY<INT>,
  ss ARRAY<STRING>, m MAP<STRING, INT>, r STRUCT<a: INT, b: STRING>, PRIMARY KEY (id));
CREATE TABLE U (id INT, i INT, s STRING, n DECIMAL(10, 2), d DOUBLE, t TIMESTAMP, b BOOLEAN, PRIMARY KEY (id));
CREATE STREAM E (i INT, s STRING, l BIGINT, day DATE, t TIMESTAMP, xs ARRAY<INT>);
"""
TABLES = {
    "T": {
        "id": "int", "i": "int", "j": "int", "l": "long", "h": "int", "n": "dec", "d": "dbl", "f": "dbl", "s": "str",
        "y": "bin", "b": "bool", "day": "date", "t": "ts", "ntz": "ntz", "iv": "iv", "xs": "xs", "ss": "ss",
        "m": "m", "r": "r",
    },
    "U": {"id": "int", "i": "int", "s": "str", "n": "dec", "d": "dbl", "t": "ts", "b": "bool"},
    "E": {"i": "int", "s": "str", "l": "long", "day": "date", "t": "ts", "xs": "xs"},
}  # fmt: skip
SPARK_TYPES = {
    "T": "id INT, i INT, j INT, l BIGINT, h SMALLINT, n DECIMAL(10,2), d DOUBLE, f FLOAT, s STRING, y BINARY, b "
    "BOOLEAN, day DATE, t TIMESTAMP, ntz TIMESTAMP_NTZ, iv INTERVAL DAY TO SECOND, xs ARRAY<INT>, ss "
    "ARRAY<STRING>, m MAP<STRING,INT>, r STRUCT<a:INT,b:STRING>",
    "U": "id INT, i INT, s STRING, n DECIMAL(10,2), d DOUBLE, t TIMESTAMP, b BOOLEAN",
    "E": "i INT, s STRING, l BIGINT, day DATE, t TIMESTAMP, xs ARRAY<INT>",
}
LITERALS = {
    "int": ("0", "1", "2", "3", "-1", "10", "7S", "5Y", "CAST(NULL AS INT)"),
    "long": ("1L", "0L", "-5L", "CAST(7 AS BIGINT)"),
    "dec": ("1.5", "0.10", "2.00BD", "-3.25", "CAST(1 AS DECIMAL(10, 2))", "12.", ".5"),
    "dbl": ("1.5D", "2e1", "0D", "CAST(1 AS DOUBLE)", "1.5F", "double(2)"),
    "str": ("'a'", "''", "'ab c'", '"b"', "'é'", "'1'", "'2024-03-01'", "'a' 'b'", "r'\\d+'", "'%a%'"),
    "bin": ("X'4142'", "x''", "CAST('a' AS BINARY)", "binary('b')"),
    "bool": ("TRUE", "FALSE", "true", "NULL"),
    "date": ("DATE '2024-02-29'", "DATE'2024-03-01'", "date('2023-12-31')", "make_date(2024, 1, 31)"),
    "ts": (
        "TIMESTAMP '2024-02-29 12:00:00'",
        "TIMESTAMP '2024-03-01 00:00:01.5'",
        "timestamp('2024-01-01')",
        "timestamp_seconds(1700000000)",
    ),
    "ntz": ("TIMESTAMP_NTZ '2024-02-29 12:00:00'", "CAST('2024-01-01' AS TIMESTAMP_NTZ)"),
    "iv": (
        "INTERVAL '1' DAY",
        "INTERVAL 2 HOURS",
        "INTERVAL '1 02:03:04' DAY TO SECOND",
        "INTERVAL 1 DAY 2 HOURS",
        "INTERVAL '1.5' SECOND",
        "make_dt_interval(1, 2)",
    ),
    "ym": ("INTERVAL '1' MONTH", "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL 2 YEARS"),
    "xs": ("array(1, 2)", "array(3)", "sequence(1, 3)", "array(1, NULL)", "split('1,2', ',')::ARRAY<INT>"),
    "ss": ("array('a', 'b')", "split('a b', ' ')", "array('x')"),
    "m": ("map('a', 1)", "map('k', 2, 'z', 3)", "map_from_arrays(array('a'), array(1))"),
    "r": ("named_struct('a', 1, 'b', 'x')", "struct(1 AS a, 'b' AS b)"),
}
NUMBERS = ("int", "long", "dec", "dbl")
KINDS = tuple(
    (
        "int int int int int int str str str str long long dec dec dbl dbl "
        "bool bool date date ts ts bin ntz iv xs ss m r"
    ).split()
)
ORDERED = ("int", "long", "dec", "dbl", "str", "bool", "date", "ts")
TYPES = {
    "int": ("INT", "SMALLINT", "TINYINT", "INTEGER"),
    "long": ("BIGINT", "LONG"),
    "dec": ("DECIMAL(10, 2)", "DECIMAL(20, 4)", "DEC(5,1)", "NUMERIC(12, 3)", "DECIMAL"),
    "dbl": ("DOUBLE", "FLOAT", "REAL"),
    "str": ("STRING", "VARCHAR(20)"),
    "bin": ("BINARY",),
    "bool": ("BOOLEAN",),
    "date": ("DATE",),
    "ts": ("TIMESTAMP", "TIMESTAMP_LTZ"),
    "ntz": ("TIMESTAMP_NTZ",),
    "iv": ("INTERVAL DAY TO SECOND", "INTERVAL HOUR", "INTERVAL DAY"),
    "ym": ("INTERVAL YEAR TO MONTH",),
    "xs": ("ARRAY<INT>",),
    "ss": ("ARRAY<STRING>",),
    "m": ("MAP<STRING, INT>",),
    "r": ("STRUCT<a: INT, b: STRING>",),
}
CASTS = {
    "int": "long dec dbl bool int str",
    "long": "int dec dbl bool ts str",
    "dec": "int long dbl str",
    "dbl": "int long dec str",
    "str": "int long dec dbl bool date ts ntz bin iv xs m r",
    "bin": "str int",
    "bool": "int str",
    "date": "ts str ntz",
    "ts": "date ntz str long",
    "ntz": "ts date str",
    "iv": "str iv",
    "ym": "ym str",
    "xs": "ss",
    "ss": "xs",
    "m": "m",
    "r": "r",
}
"""The kinds that a kind is cast from."""


def _signatures(text: str) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for line in text.strip().split("\n"):
        kinds, _, names = line.strip().partition(":")
        *arguments, result = kinds.replace(">", " ").split()
        for name in names.split():
            found.setdefault(result, []).append((name, tuple(arguments)))
    return found


FUNCTIONS = _signatures("""num > num: abs negative positive
    num > dbl: sqrt exp ln log10 log2 log1p cbrt sin cos tan asin acos atan
    num > dbl: sinh cosh tanh degrees radians sign signum rint expm1 cot sec csc log
    num > long: ceil floor ceiling
    dbl 'int > dbl: round bround ceil floor
    dec 'int > dec: round bround ceil floor
    dec > dec: round abs
    num num > dbl: pow power atan2 hypot nanvl try_divide
    int int > int: pmod mod try_mod try_add try_subtract bit_get getbit nullif
    int int > long: div
    int 'int > int: shiftleft shiftright shiftrightunsigned
    int > int: bit_count factorial
    int > str: bin hex char chr space
    int > bool: isnan
    str > str: upper lower ucase lcase trim ltrim rtrim initcap reverse soundex md5 sha1 sha quote url_encode base64 hex
    str > int: length char_length len character_length ascii bit_length octet_length
    str > long: crc32
    str str > int: instr levenshtein locate position find_in_set
    str str > bool: contains startswith endswith like ilike rlike regexp regexp_like
    str str > str: concat trim btrim ltrim
    str 'str > str: regexp_extract regexp_substr
    str 'str > int: regexp_count regexp_instr
    str 'str 'str > str: regexp_replace replace translate
    str int > str: left right repeat substring substr
    str int int > str: substring substr
    str int str > str: lpad rpad
    str int > str: lpad rpad
    str 'str int > str: split_part substring_index
    str str int > str: overlay
    str 'str > ss: split sentences
    str str str > str: concat concat_ws mask
    str 'str > m: str_to_map
    str 'int > str: sha2
    int str str > str: elt
    any > str: to_json typeof
    any any > long: xxhash64
    any > int: hash
    any any > bool: equal_null
    any > bool: isnull isnotnull
    any any any > long: xxhash64
    str > bin: unbase64 to_binary binary
    str 'utf > bin: encode
    bin 'utf > str: decode
    bin > str: base64 hex md5 sha1
    bin > int: length octet_length bit_length
    bin bin > bin: concat
    date > int: year month day dayofmonth dayofweek dayofyear quarter weekofyear weekday unix_date
    ts > int: year month dayofmonth dayofweek dayofyear weekofyear weekday
    ts > long: unix_seconds unix_millis unix_micros unix_timestamp to_unix_timestamp
    date > date: last_day
    date > str: dayname monthname
    date int > date: date_add date_sub add_months dateadd
    date date > int: datediff date_diff
    ts ts > dbl: months_between
    date 'day > date: next_day
    date 'unit > date: trunc
    'unit ts > ts: date_trunc
    ts 'fmt > str: date_format
    date 'fmt > str: date_format to_char to_varchar
    str > date: to_date try_to_date
    ts > date: to_date date
    str > ts: to_timestamp try_to_timestamp to_timestamp_ltz
    str > ntz: to_timestamp_ntz
    str 'fmt > ts: to_timestamp try_to_timestamp
    str 'fmt > date: to_date
    date > ts: to_timestamp timestamp
    int int int > date: make_date
    int int int int int dec > ts: make_timestamp try_make_timestamp make_timestamp_ltz
    int int int int int dec > ntz: make_timestamp_ntz
    long > ts: timestamp_seconds timestamp_millis timestamp_micros
    long > str: from_unixtime
    ts 'zone > ts: from_utc_timestamp to_utc_timestamp
    'zone 'zone ntz > ntz: convert_timezone
    'field ts > int: date_part datepart
    int int int dec > iv: make_dt_interval
    int int > ym: make_ym_interval
    !unit int ts > ts: timestampadd dateadd date_add
    !unit ts ts > long: timestampdiff datediff
    xs > int: size array_size cardinality array_max array_min
    ss > int: size array_size cardinality
    ss > str: array_max array_min
    m > int: size cardinality
    xs > xs: array_distinct sort_array array_sort array_compact reverse
    ss > ss: array_distinct sort_array reverse array_sort
    xs xs > xs: array_union array_intersect array_except concat
    ss ss > ss: array_union array_intersect array_except concat
    xs xs > bool: arrays_overlap
    xs int > xs: array_append array_prepend array_remove
    xs 'int int > xs: array_insert
    int 'int > xs: array_repeat
    xs int > bool: array_contains
    ss str > bool: array_contains
    xs int > long: array_position
    xs 'pos 'int > xs: slice
    xs int > int: get try_element_at element_at
    m str > int: element_at try_element_at
    m str > bool: map_contains_key
    m > ss: map_keys
    m > xs: map_values
    m m > m: map_concat
    ss xs > m: map_from_arrays
    ss 'str > str: array_join
    'int 'int > xs: sequence
    xs 'bool > xs: sort_array
    str 'path > str: get_json_object
    str > int: json_array_length
    int int int > int: greatest least coalesce
    int int > int: greatest least coalesce ifnull nvl nullif
    str str > str: coalesce ifnull nvl nullif greatest least
    dec dec > dec: coalesce nvl greatest nullif
    dbl dbl > dbl: coalesce nvl greatest nullif
    ts ts > ts: coalesce greatest least nullif
    date date > date: coalesce greatest least nullif
    long long > long: coalesce greatest nullif
    any int int > int: nvl2
    bool int int > int: if
    bool str str > str: if
    bool dec dec > dec: if
    int > int: zeroifnull nullifzero int smallint tinyint
    int > dec: decimal
    int > dbl: double float
    any > str: string
    int int int int > int: width_bucket
    num 'int > str: format_number
    str any > str: format_string printf
    str 'url > str: parse_url
    num 'b 'b > str: conv
    > dbl: pi e
    dec num > dbl: try_multiply
    str 'num > dec: to_number try_to_number
    int 'num > str: to_char
    str > str: url_decode try_url_decode luhn_check
    any > r: struct
    r > str: to_csv
    str 'schema > r: from_json from_csv
    m > ss: map_keys
    """)
AGGREGATES = _signatures("""> long: count(*)
    any > long: count
    any any > long: count
    bool > long: count_if
    int > long: sum
    long > long: sum try_sum
    dec > dec: sum try_sum
    dec > dec: avg
    num > dbl: avg mean stddev stddev_pop stddev_samp std variance var_pop var_samp skewness kurtosis median
    dbl > dbl: sum try_avg
    num num > dbl: corr covar_pop covar_samp regr_avgx regr_avgy regr_slope regr_r2
    num num > dbl: regr_intercept regr_sxx regr_syy regr_sxy
    num num > long: regr_count
    num 'half > dbl: percentile
    num 'half > num: approx_percentile percentile_approx
    num 'half > dbl: ~cont
    num 'half > num: ~disc
    any > long: approx_count_distinct
    ord > ord: max min any_value first last first_value last_value mode
    any ord > any: max_by min_by
    int > int: bit_and bit_or bit_xor
    bool > bool: bool_and bool_or every some any
    int > xs: collect_list collect_set array_agg
    str > ss: collect_list collect_set array_agg
    str > str: listagg string_agg
    str 'str > str: listagg string_agg ~listagg
    int > int: ~mode
    iv > iv: sum avg max min
    """)
"""`~name`: an ordered aggregate, `name(...) WITHIN GROUP (ORDER BY ...)`."""
UNORDERED = frozenset(
    "first last first_value last_value any_value collect_list collect_set array_agg listagg string_agg mode max_by "
    "min_by ~mode ~listagg approx_percentile percentile_approx approx_count_distinct".split()
)
"""Aggregates whose answer hangs on the order of rows, or is a guess."""
ROUNDED = frozenset("second minute hour day week month quarter year".split())
"""Functions that round times down in scripts, and give numbers in Spark."""
CONSTANTS = {
    "'int": ("0", "1", "2", "3"),
    "'pos": ("1", "2"),
    "'str": ("','", "'a'", "'(b)'", "'[ab]+'", "''"),
    "'bool": ("true", "false"),
    "'utf": ("'UTF-8'", "'utf-16'"),
    "'day": ("'Mon'", "'FRIDAY'"),
    "'unit": ("'YEAR'", "'month'", "'WEEK'", "'quarter'"),
    "!unit": ("DAY", "HOUR", "MONTH", "YEAR", "MINUTE", "SECOND", "WEEK", "MICROSECOND"),
    "'fmt": ("'yyyy-MM-dd'", "'yyyy'", "'dd/MM/yyyy HH:mm'", "'y'", "'E'", "'MMM'"),
    "'zone": ("'Europe/Berlin'", "'UTC'", "'+02:00'", "'Asia/Tokyo'"),
    "'field": ("'year'", "'MONTH'", "'dow'", "'hour'", "'seconds'", "'doy'"),
    "'path": ("'$.a'", "'$.a.b'", "'$[0]'"),
    "'half": ("0.5", "0.25", "1"),
    "'url": ("'HOST'", "'PATH'"),
    "'b": ("10", "16", "2"),
    "'num": ("'999'", "'99.9'"),
    "'schema": ("'a INT, b STRING'",),
}
