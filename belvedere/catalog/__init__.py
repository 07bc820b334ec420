"""What a script defines, resolved: the compiler's result."""
