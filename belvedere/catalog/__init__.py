"""The compiler's result: the resolved definitions of a script."""
