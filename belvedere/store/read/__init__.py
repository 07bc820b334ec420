"""Reads of a store: what the API asks for as data (`query`), printed as one SQL statement of the store's dialect (`statements`)."""
