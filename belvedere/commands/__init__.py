"""One module per command; the signature of its function `command` is the command line. `belvedere.cli` imports them on
demand."""
