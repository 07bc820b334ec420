"""Window functions, recomputed for the rows around a change."""
