"""Forms of SQL that sqlglot's parser lacks or parses differently: one module per form."""
