"""SQL++ as Spark SQL text, with MISSING kept beside the value."""
