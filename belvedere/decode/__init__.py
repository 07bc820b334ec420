"""Texts as values of columns, many at once by Arrow: CSV fields and JSON objects, in the sense that Spark and Python have too."""
