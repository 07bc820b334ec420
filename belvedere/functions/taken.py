"""What functions take: a class of types for each argument.

In: nothing. Out: `takes`. A class is as wide as Spark's implicit casts under ANSI rules; what depends on values is not told here. Rows of
`belvedere.functions.table` say more of some functions. Of functions whose type a CAST around the call says (`belvedere.functions.counted`)
this is all that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from belvedere.functions import types as t

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
    ".": lambda _: True,
}
"""A single value, a number, bytes, a list, a map, either of them, a struct, anything."""

_FORMS: Mapping[str, str] = {
    "a.": "date_trunc schema_of_csv schema_of_json schema_of_xml",
    "a": (
        "add_months aes_encrypt atan2 bigint bit_count bit_get boolean ceil collation contains conv convert_timezone date "
        "date_add date_format date_part datediff dayofmonth dayofweek dayofyear decimal double encode endswith "
        "find_in_set float floor format_number from_base32 get_json_object getbit hypot int is_valid_variant "
        "is_variant_null jaro_winkler_similarity json_object_keys left levenshtein locate log10 log2 lpad luhn_check "
        "make_date months_between nanvl next_day overlay parse_json parse_url pmod pow raise_error regexp_count "
        "regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr repeat replace right round rpad "
        "schema_of_variant sequence shiftleft shiftright shiftrightunsigned smallint split split_part st_asbinary "
        "st_setsrid st_srid startswith substring substring_index time time_bucket time_diff time_to_micros time_to_millis "
        "time_to_seconds time_trunc timestamp timestamp_seconds tinyint to_date to_number to_time to_timestamp translate "
        "try_parse_json try_parse_url try_to_number try_to_time try_validate_utf8 try_variant_array_append "
        "try_variant_get try_variant_insert try_variant_set unix_date unix_nanos validate_utf8 variant_array_append "
        "variant_delete variant_get variant_insert variant_set variant_strip_nulls weekofyear width_bucket xpath "
        "xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string"
    ),
    "n": (
        "bitmap_bit_position bitmap_bucket_number make_time time_from_micros time_from_millis time_from_seconds timestamp_nanos"
    ),
    "b": (
        "bitmap_count hll_sketch_estimate kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float "
        "kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint "
        "kll_sketch_to_string_double kll_sketch_to_string_float st_geogfromwkb theta_difference theta_intersection "
        "theta_sketch_estimate to_base32 tuple_difference_double tuple_difference_integer tuple_difference_theta_double "
        "tuple_difference_theta_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer "
        "tuple_sketch_theta_double tuple_sketch_theta_integer"
    ),
    "b.": (
        "kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float "
        "kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float"
    ),
    "ba": "st_geomfromwkb tuple_sketch_summary_double tuple_sketch_summary_integer",
    "bba": "aes_decrypt hll_union hmac theta_union try_aes_decrypt",
    "l": (
        "array_except array_intersect array_union arrays_overlap map_from_arrays vector_cosine_similarity "
        "vector_inner_product vector_l2_distance"
    ),
    "la": "vector_norm vector_normalize",
    "l.": "array_append array_contains array_insert array_position array_prepend array_remove slice",
    "la.": "array_join",
    "m.": "map_contains_key",
    "c": "array_size cardinality size",
    "s.": "to_xml",
    "aa.": "from_csv from_xml",
}
TAKEN: Mapping[str, str] = {name: form for form, names in _FORMS.items() for name in names.split()}
"""The classes of a function's arguments by its name; the last one is that of all further arguments."""


def takes(names: Iterable[str], types: Sequence[pa.DataType]) -> bool:
    """Whether a function of these names may take arguments of these types. NULL goes anywhere."""
    form = next((TAKEN[name] for name in names if name in TAKEN), ".")
    return all(type_ == t.NULL or CLASSES[form[min(i, len(form) - 1)]](type_) for i, type_ in enumerate(types))
