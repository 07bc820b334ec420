"""What callers may ask, as reads of the store: the model of a catalog, and the plans of requests of any syntax."""
