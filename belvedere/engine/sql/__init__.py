"""Plans and stages as Spark SQL."""
