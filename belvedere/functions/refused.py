"""Nondeterministic functions, which Belvedere rejects: one row each.

In: nothing. Out: rows for `belvedere.functions.function_table`. `belvedere.functions.function` defines the fields of a
row.
"""

from __future__ import annotations

from belvedere.functions.function import Function, function
from belvedere.functions.type_rules import nth

CONTEXT: tuple[Function, ...] = (
    function("current_path", "current_path", deterministic=False),
    function("CurrentCatalog", "current_catalog:0", deterministic=False),
    function("CurrentDatabase", "current_database:0", deterministic=False),
    function("CurrentSchema", "current_schema:0", deterministic=False),
    function("CurrentTime", "current_time:0-1", deterministic=False),
    function("CurrentUser", "current_user:0", deterministic=False),
    function("input_file_block_length", "input_file_block_length:0", deterministic=False),
    function("input_file_block_start", "input_file_block_start:0", deterministic=False),
    function("input_file_name", "input_file_name:0", deterministic=False),
    function("java_method", "java_method:2+", deterministic=False),
    function("monotonically_increasing_id", "monotonically_increasing_id:0", deterministic=False),
    function("Rand", "rand:0-1", deterministic=False),
    function("Randn", "randn:0-1", deterministic=False),
    function("Randstr", "randstr:1-2", deterministic=False),
    function("reflect", "reflect:2+", deterministic=False),
    function("SessionUser", "session_user:0", deterministic=False),
    function("Shuffle", "shuffle:1-2", nth(0), deterministic=False),
    function("spark_partition_id", "spark_partition_id:0", deterministic=False),
    function("try_reflect", "try_reflect:2+", deterministic=False),
    function("Uniform", "uniform:2-3", deterministic=False),
    function("user", "user:0", deterministic=False),
    function("Uuid", "uuid:0-1", deterministic=False),
    function("version", "version:0", deterministic=False),
)
