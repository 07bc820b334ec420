"""A script on local Spark, driven step by step, and what a notebook shows of it."""
