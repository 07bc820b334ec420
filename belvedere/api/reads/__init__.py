"""Requests of clients as reads of the store: the model of a catalog, and plans of requests in any syntax."""
