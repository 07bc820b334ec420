"""The Java on which Spark runs: finding, starting and silencing it."""
