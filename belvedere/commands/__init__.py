"""One module per command; its function `command` has the command line as signature. `belvedere.cli` loads them lazily."""
