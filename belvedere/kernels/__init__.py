"""Windows in numpy: where windows begin and end in sorted rows, and the values of their rows. Pure functions, Arrow in and Arrow out."""
