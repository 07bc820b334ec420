"""The types of expressions: what Spark 4.3 gives for each operator, form and call. `infer` is the way in."""
