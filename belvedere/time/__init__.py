"""Clocks and bounds of inputs and producers, and the entries that an intake has accepted. No Spark, no database."""
