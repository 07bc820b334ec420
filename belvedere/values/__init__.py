"""Values outside queries: instants, intervals, decimals, and rows from programs."""
