"""Argument types of functions: a class of types for each argument.

In: nothing. Out: `takes`. A class is as wide as Spark's implicit casts under ANSI rules; dependencies on values are not
covered here. Rows of `belvedere.functions.function_table` restrict some functions further. A function whose type comes
from a CAST around the call (`belvedere.functions.untyped`) has no other check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from belvedere.functions import spark_types as t
from belvedere.schema import has_map

Test = Callable[[pa.DataType], bool]


def _single(type_: pa.DataType) -> bool:
    return not pa.types.is_nested(type_)


CLASSES: Mapping[str, Test] = {
    "a": _single,
    "n": lambda type_: t.is_number(type_) or pa.types.is_string(type_),
    "b": lambda type_: pa.types.is_binary(type_) or pa.types.is_string(type_),
    "l": t.is_array,
    "m": pa.types.is_map,
    "c": lambda type_: t.is_array(type_) or pa.types.is_map(type_),
    "s": pa.types.is_struct,
    "t": lambda type_: t.is_time(type_) or pa.types.is_string(type_),
    "i": lambda type_: type_ in (t.INT8, t.INT16, t.INT32) or pa.types.is_string(type_),
    "x": pa.types.is_string,
    "k": lambda type_: not has_map(type_),
    "d": t.is_number,
    "w": t.is_integer,
    "v": lambda type_: t.is_integer(type_) or type_ == t.BOOLEAN,
    "j": lambda type_: type_ in (t.INT8, t.INT16, t.INT32),
    "z": lambda type_: type_ in (t.BOOLEAN, t.STRING),
    "q": lambda type_: _single(type_) or t.is_array(type_),
    ".": lambda _: True,
}
"""Test of each class of types, by its letter.

- Classes that also accept a text: `a` a single value, `n` a number, `b` bytes, `t` a date or timestamp, `i` an INT or
  narrower.
- Classes of numbers that do not: `d` a number, `w` an integer, `v` an integer or BOOLEAN, `j` an INT or narrower.
- Nested values: `l` a list, `m` a map, `c` a list or map, `s` a struct, `q` a single value or list.
- Others: `x` a text, `z` a BOOLEAN or text, `k` a comparable value (without maps), `.` any value.
"""

_FORMS: Mapping[str, str] = {
    "a": (
        "bigint boolean btrim contains convert_timezone date date_add datediff decimal double encode endswith "
        "find_in_set float from_base32 int is_valid_variant is_variant_null jaro_winkler_similarity ltrim luhn_check "
        "parse_json raise_error regexp regexp_count regexp_like regexp_replace regexp_substr replace rlike rtrim "
        "schema_of_variant sentences sequence smallint st_asbinary st_setsrid st_srid startswith time time_bucket "
        "time_diff time_to_micros time_to_millis time_to_seconds time_trunc timestamp timestamp_seconds tinyint "
        "to_date to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz translate trim try_parse_json "
        "try_to_date try_to_number try_to_time try_to_timestamp try_validate_utf8 try_variant_array_append "
        "try_variant_get try_variant_insert try_variant_set unix_nanos validate_utf8 variant_array_append "
        "variant_delete variant_get variant_insert variant_set variant_strip_nulls xpath xpath_boolean xpath_double "
        "xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string"
    ),
    "b": (
        "bitmap_count hll_sketch_estimate kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float "
        "kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint "
        "kll_sketch_to_string_double kll_sketch_to_string_float st_geogfromwkb theta_difference theta_intersection "
        "theta_sketch_estimate to_base32 tuple_difference_double tuple_difference_integer "
        "tuple_difference_theta_double tuple_difference_theta_integer tuple_sketch_estimate_double "
        "tuple_sketch_estimate_integer tuple_sketch_theta_double tuple_sketch_theta_integer"
    ),
    "c": "array_size cardinality size",
    "k": "collect_set decode equal_null hash nullif xxhash64",
    "l": (
        "array_except array_intersect array_union arrays_overlap map_from_arrays vector_cosine_similarity "
        "vector_inner_product vector_l2_distance"
    ),
    "m": "map_concat",
    "n": (
        "atan2 bitmap_bit_position bitmap_bucket_number corr covar_pop covar_samp hypot log log10 log2 make_date "
        "make_dt_interval make_time make_ym_interval nanvl pmod pow power "
        "regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx "
        "regr_sxy regr_syy shiftleft shiftright shiftrightunsigned time_from_micros time_from_millis time_from_seconds "
        "timestamp_nanos try_mod width_bucket"
    ),
    "t": "day dayofmonth dayofweek dayofyear hour minute month quarter second weekofyear year",
    "x": "json_object_keys collation get_json_object parse_url str_to_map try_parse_url",
    ".a": "to_char to_varchar",
    ".t": "datepart",
    "a.": "listagg schema_of_csv schema_of_json schema_of_xml string_agg to_binary try_to_binary",
    "ak": "concat_ws",
    "an": "conv left repeat right substr substring",
    "at": "date_part date_trunc",
    "b.": (
        "kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float "
        "kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float"
    ),
    "ba": "st_geomfromwkb tuple_sketch_summary_double tuple_sketch_summary_integer",
    "bn": "sha2",
    "ci": "try_element_at",
    "l.": "array_append array_contains array_insert array_position array_prepend array_remove",
    "la": "vector_norm vector_normalize",
    "li": "slice",
    "ln": "get",
    "lx": "array_join",
    "mx": "map_contains_key",
    "n.": "ceiling percentile",
    "na": "ceil elt floor from_unixtime round",
    "s.": "to_csv to_xml",
    "ta": "date_format from_utc_timestamp next_day to_utc_timestamp trunc",
    "ti": "date_sub",
    "tn": "add_months",
    "tx": "to_unix_timestamp unix_timestamp",
    "xx": "mask",
    "..i": "lag lead",
    ".k.": "max_by min_by",
    "aa.": "from_csv from_xml ilike like",
    "aan": (
        "instr levenshtein locate overlay position regexp_extract regexp_extract_all regexp_instr split split_part "
        "substring_index"
    ),
    "ana": "lpad rpad",
    "bba": "aes_decrypt aes_encrypt hll_union hmac theta_union try_aes_decrypt",
    "wn": "bit_get getbit",
    "v": "bit_count",
    "di": "format_number",
    "nn": "bround",
    "ttz": "months_between",
    "q": "reverse",
    ".j": "array_repeat",
}
TAKEN: Mapping[str, str] = {name: form for form, names in _FORMS.items() for name in names.split()}
"""Argument classes of a function by its name; the last class applies to all further arguments."""


def takes(names: Iterable[str], types: Sequence[pa.DataType]) -> bool:
    """Return whether one of these functions may take arguments of these types. NULL fits every class."""
    form = next((TAKEN[name] for name in names if name in TAKEN), ".")
    return all(type_ == t.NULL or CLASSES[form[min(i, len(form) - 1)]](type_) for i, type_ in enumerate(types))
