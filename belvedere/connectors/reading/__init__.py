"""Files as rows of tables: cut, read, typed; `reader` is the way in."""
