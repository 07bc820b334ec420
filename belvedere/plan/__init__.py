"""The immutable relational tree that everything after the language works on."""
