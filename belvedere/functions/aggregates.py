"""Aggregates and window functions: one row each.

In: nothing. Out: rows for `belvedere.functions.function_table`. `belvedere.functions.function` defines the fields of a
row.
"""

from __future__ import annotations

from belvedere.functions import algebra
from belvedere.functions.function import Function, Ties, aggregate, window_function
from belvedere.functions.spark_types import BOOLEAN, DOUBLE, INT32, INT64, is_integer
from belvedere.functions.type_rules import (
    approximate_percentile,
    average,
    average_of_second,
    boolean_or_text,
    listed,
    listed_text,
    most_frequent,
    no_map,
    nth,
    number_interval_or_text,
    number_or_text,
    percentile,
    summed,
)

AGGREGATES: tuple[Function, ...] = (
    aggregate("AnyValue", "any_value:1-2", nth(0), ties=Ties.FIRST, skips_nulls=True),
    aggregate("ApproxDistinct", "approx_count_distinct:1-2", INT64, over_nothing="0"),
    aggregate("ApproxQuantile", "approx_percentile:2-3 percentile_approx:2-3", approximate_percentile),
    aggregate("ArgMax", "arg_max:2-3 argmax:2-3 max_by:2-3", nth(0), ties=Ties.EXTREME),
    aggregate("ArgMin", "arg_min:2-3 argmin:2-3 min_by:2-3", nth(0), ties=Ties.EXTREME),
    aggregate(
        "ArrayAgg", "array_agg:1 collect_list:1 collect:1", listed, over_nothing="[]", ties=Ties.LIST, skips_nulls=True
    ),
    aggregate("ArrayUniqueAgg", "collect_set:1", listed, over_nothing="[]", ties=Ties.SET),
    aggregate("Avg", "avg:1", average),
    aggregate("BitwiseAndAgg", "bit_and:1", nth(0), first=is_integer),
    aggregate("BitwiseOrAgg", "bit_or:1", nth(0), first=is_integer),
    aggregate("BitwiseXorAgg", "bit_xor:1", nth(0), first=is_integer),
    aggregate("Corr", "corr:2", DOUBLE),
    aggregate("Count", "count:1+", INT64, over_nothing="0"),
    aggregate("CountIf", "count_if:1", INT64, first=boolean_or_text, over_nothing="0"),
    aggregate("CovarPop", "covar_pop:2", DOUBLE),
    aggregate("CovarSamp", "covar_samp:2", DOUBLE),
    window_function("CumeDist", "cume_dist:0", DOUBLE, ties=Ties.PEERS),
    window_function("DenseRank", "dense_rank:0", INT32, ties=Ties.PEERS),
    aggregate("every", "every:1", BOOLEAN, first=boolean_or_text),
    aggregate("First", "first:1-2", nth(0), ties=Ties.FIRST, skips_nulls=True),
    aggregate("FirstValue", "first_value:1-2", nth(0), ties=Ties.FIRST, skips_nulls=True),
    aggregate("GroupConcat", "listagg:1-2 string_agg:1-2", listed_text, ties=Ties.TEXT),
    aggregate("Kurtosis", "kurtosis:1", DOUBLE, first=number_or_text),
    window_function("Lag", "lag:1-3", nth(0), ties=Ties.ROW, skips_nulls=True),
    aggregate("Last", "last:1-2", nth(0), ties=Ties.LAST, skips_nulls=True),
    aggregate("LastValue", "last_value:1-2", nth(0), ties=Ties.LAST, skips_nulls=True),
    window_function("Lead", "lead:1-3", nth(0), ties=Ties.ROW, skips_nulls=True),
    aggregate("LogicalAnd", "bool_and:1", BOOLEAN, first=boolean_or_text),
    aggregate("LogicalOr", "any:1 bool_or:1", BOOLEAN, first=boolean_or_text),
    aggregate("Max", "max:1", nth(0), first=no_map, algebra=algebra.MAX),
    aggregate("mean", "mean:1", average),
    aggregate("Median", "median:1", percentile, first=number_interval_or_text, algebra=algebra.MEDIAN),
    aggregate("Min", "min:1", nth(0), first=no_map, algebra=algebra.MIN),
    aggregate("Mode", "mode:0-2", most_frequent, ties=Ties.MODE),
    window_function("NthValue", "nth_value:2-3", nth(0), ties=Ties.NTH, skips_nulls=True),
    window_function("Ntile", "ntile:0-1", INT32, ties=Ties.ROW),
    window_function("PercentRank", "percent_rank:0", DOUBLE, ties=Ties.PEERS),
    aggregate("Quantile", "percentile:2", percentile),
    window_function("Rank", "rank:0", INT32, ties=Ties.PEERS),
    aggregate("RegrAvgx", "regr_avgx:2", average_of_second),
    aggregate("RegrAvgy", "regr_avgy:2", average),
    aggregate("RegrCount", "regr_count:2", INT64, over_nothing="0"),
    aggregate("RegrIntercept", "regr_intercept:2", DOUBLE),
    aggregate("RegrR2", "regr_r2:2", DOUBLE),
    aggregate("RegrSlope", "regr_slope:2", DOUBLE),
    aggregate("RegrSxx", "regr_sxx:2", DOUBLE),
    aggregate("RegrSxy", "regr_sxy:2", DOUBLE),
    aggregate("RegrSyy", "regr_syy:2", DOUBLE),
    window_function("RowNumber", "row_number:0", INT32, ties=Ties.ROW),
    aggregate("Skewness", "skewness:1", DOUBLE, first=number_or_text),
    aggregate("some", "some:1", BOOLEAN, first=boolean_or_text),
    aggregate("std", "std:1", DOUBLE, first=number_or_text),
    aggregate("Stddev", "stddev:1", DOUBLE, first=number_or_text, algebra=algebra.STDDEV_SAMP),
    aggregate("StddevPop", "stddev_pop:1", DOUBLE, first=number_or_text, algebra=algebra.STDDEV_POP),
    aggregate("StddevSamp", "stddev_samp:1", DOUBLE, first=number_or_text, algebra=algebra.STDDEV_SAMP),
    aggregate("Sum", "sum:1", summed, forgiving="try_sum"),
    aggregate("try_avg", "try_avg:1", average),
    aggregate("try_sum", "try_sum:1", summed),
    aggregate("Variance", "var_samp:1 variance:1", DOUBLE, first=number_or_text, algebra=algebra.VAR_SAMP),
    aggregate("VariancePop", "var_pop:1", DOUBLE, first=number_or_text, algebra=algebra.VAR_POP),
)
