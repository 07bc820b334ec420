"""The epoch: stages, rows in memory or in files, costs. It does not import PySpark."""
