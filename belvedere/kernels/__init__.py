"""Windows in numpy: the bounds of windows in sorted rows, and the values of their rows. Pure functions on Arrow."""
