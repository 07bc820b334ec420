"""SPL windows in numpy: which rows a window holds at each of its firings."""
