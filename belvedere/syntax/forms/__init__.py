"""Forms of SQL that the parser of sqlglot has not, or reads otherwise: one form, one module."""
