"""Window clause of IBM Streams' SPL as text and tree."""
