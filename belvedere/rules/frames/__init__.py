"""Window functions, by the rows around a change."""
