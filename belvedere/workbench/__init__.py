"""A script on local Spark, run step by step, with its notebook view."""
