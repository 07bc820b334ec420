"""Shared parts of the commands: the terminal's lines and tables, the prompt, options, the store of a script."""
