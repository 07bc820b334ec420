"""What the commands share: the terminal's lines and tables, the prompt, options, the store of a script."""
