"""The connector `postgres` as a source: change feeds of a real server."""
