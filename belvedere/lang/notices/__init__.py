"""What a script is told beside errors: warnings and notices, one kind a module."""
