"""Rows of an epoch, in memory, in files or in Spark."""
