"""Parsing of files into typed rows of tables; `reader` is the entry point."""
