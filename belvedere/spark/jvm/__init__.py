"""The Java that Spark runs on: found, started and kept quiet."""
