"""A plain evaluator of SQL++ queries with WINDOW BY in Python: the oracle of what the plan, Spark and the kernels
give."""
