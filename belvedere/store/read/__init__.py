"""Reads of a store: the API's request as data (`query`), printed as one SQL statement of the store's dialect
(`statements`)."""
