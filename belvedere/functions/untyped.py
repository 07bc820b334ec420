"""Functions of Spark whose type Belvedere does not know: their number of arguments, and those that a CAST can type.

In: nothing. Out: numbers of arguments by name; names. A CAST around a call of a scalar function (`CAST_NEEDED`) gives
its type.
"""

from __future__ import annotations

from collections.abc import Mapping

from belvedere.functions.function import MANY

_GROUPS: Mapping[tuple[int, int], str] = {
    (0, 0): ("now"),
    (0, MANY): ("grouping_id map named_struct struct"),
    (1, 1): (
        "bigint binary bitmap_and_agg bitmap_construct_agg bitmap_or_agg boolean collect_union date decimal "
        "double explode explode_outer float grouping hll_sketch_estimate inline inline_outer int "
        "kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_to_string_bigint "
        "kll_sketch_to_string_double kll_sketch_to_string_float percentile_cont percentile_disc posexplode "
        "posexplode_outer raise_error schema_of_variant_agg smallint st_geogfromwkb st_srid string "
        "theta_intersection_agg theta_sketch_estimate time time_from_micros time_from_millis time_from_seconds "
        "time_to_micros time_to_millis time_to_seconds timestamp timestamp_nanos tinyint tuple_sketch_estimate_double "
        "tuple_sketch_estimate_integer tuple_sketch_theta_double tuple_sketch_theta_integer unix_nanos vector_avg "
        "vector_sum"
    ),
    (1, 2): (
        "approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate assert_true counter_diff hll_sketch_agg "
        "hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint "
        "kll_sketch_agg_double kll_sketch_agg_float schema_of_avro st_asbinary st_geomfromwkb theta_sketch_agg "
        "theta_union_agg to_avro to_time to_timestamp try_to_time tuple_intersection_agg_double "
        "tuple_intersection_agg_integer tuple_sketch_summary_double tuple_sketch_summary_integer variant_strip_nulls "
        "vector_norm vector_normalize"
    ),
    (1, 3): ("approx_top_k tuple_union_agg_double tuple_union_agg_integer"),
    (2, 2): (
        "element_at filter histogram_numeric kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double "
        "kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double "
        "kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float "
        "map_from_arrays mod st_setsrid theta_difference theta_intersection time_trunc transform "
        "tuple_difference_double tuple_difference_integer tuple_difference_theta_double "
        "tuple_difference_theta_integer vector_cosine_similarity vector_inner_product vector_l2_distance"
    ),
    (2, 3): (
        "from_avro hll_union theta_union time_bucket tuple_intersection_double tuple_intersection_integer "
        "tuple_intersection_theta_double tuple_intersection_theta_integer"
    ),
    (2, 4): (
        "from_protobuf to_protobuf tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_double "
        "tuple_union_integer tuple_union_theta_double tuple_union_theta_integer"
    ),
    (2, MANY): ("variant_delete"),
    (3, 3): ("if make_time time_diff try_variant_array_append try_variant_insert variant_array_append variant_insert"),
    (3, 4): ("aggregate reduce try_variant_set variant_set"),
    (4, 4): ("count_min_sketch"),
}
COUNTED: Mapping[str, tuple[int, int]] = {name: counts for counts, names in _GROUPS.items() for name in names.split()}

_NO_VALUE_OF_A_ROW = (
    "approx_top_k approx_top_k_accumulate approx_top_k_combine bitmap_and_agg bitmap_construct_agg bitmap_or_agg "
    "collect_union count_min_sketch counter_diff explode explode_outer grouping grouping_id histogram_numeric "
    "hll_sketch_agg hll_union_agg inline inline_outer kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float "
    "kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float percentile_cont percentile_disc posexplode "
    "posexplode_outer schema_of_variant_agg theta_intersection_agg theta_sketch_agg theta_union_agg "
    "tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer "
    "tuple_union_agg_double tuple_union_agg_integer vector_avg vector_sum"
)
"""Aggregates and generators: a CAST around them would not define how they are maintained."""
_IN_A_PACKAGE = "from_avro from_protobuf schema_of_avro to_avro to_protobuf"
"""Functions that Spark loads from a separate package."""
CAST_NEEDED = frozenset(COUNTED) - {*_NO_VALUE_OF_A_ROW.split(), *_IN_A_PACKAGE.split()}
"""Scalar functions whose type a CAST around the call gives."""
