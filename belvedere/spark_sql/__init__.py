"""Spark's SQL as text: how its operators are read, and how trees are printed so that Spark reads them back."""
