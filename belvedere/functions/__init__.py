"""Function table of the language: one row per function, shared by all packages.

`function_table` finds a row by the class of a call or by its name; `function` defines the fields of a row. The rows are
in `texts`, `numbers`, `times`, `collections`, `conditions`, `aggregates`, `refused` and, for SQL++ only,
`array_aggregates`. `spark_types` has the types of Spark SQL. The package is below the plan, because plan, language,
stores and Spark all read it.
"""
