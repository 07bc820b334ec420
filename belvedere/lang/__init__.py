"""The language: parsed statements -> catalog of definitions."""
