"""SPL windows in numpy: the rows that a window holds at each of its firings."""
