"""Clocks and bounds of inputs, producers, and what an intake has taken. No Spark, no database."""
