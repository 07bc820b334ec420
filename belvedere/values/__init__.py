"""Values apart from any query: instants, intervals, decimals, and rows that programs hand in."""
