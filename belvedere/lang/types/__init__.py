"""Types of expressions: the result of Spark 4.3 for each operator, form and call. `infer` is the entry point."""
