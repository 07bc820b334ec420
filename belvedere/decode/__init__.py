"""Vectorized decoding of texts by Arrow: CSV fields and JSON objects, with the same results as Spark and Python."""
