"""Spark SQL as text: parses its operators and prints trees that Spark parses back to the same tree."""
