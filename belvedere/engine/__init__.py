"""The epoch: stages, rows wherever they are, costs. No PySpark."""
