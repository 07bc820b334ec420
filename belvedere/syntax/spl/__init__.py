"""The window clause of IBM Streams' SPL as text and tree."""
