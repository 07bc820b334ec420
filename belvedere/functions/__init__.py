"""The functions of the language: one row each, read by all that must know of functions.

`function_table` finds a row by the class of a call or by its name; `function` says what a row holds; the rows are in `texts`, `numbers`,
`times`, `collections`, `conditions`, `aggregates`, `refused` and, for SQL++ alone, `array_aggregates`. `spark_types` are the types of Spark
SQL. It lies below the plan, because plan, language, stores and Spark all read it.
"""
