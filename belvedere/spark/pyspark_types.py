"""Spark's own classes, for the annotations of modules that do not import PySpark."""

from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["Column", "DataFrame", "SparkSession"]
