"""The intake of a run: pushed rows and bounds -> a journal on disk -> epochs.

A request is read (`request_rows`), goes through a socket to the process that runs epochs (`wire`), is judged and written (`ingest_service`,
`entry_bytes`, `journal`), and only then answered. Imports neither Spark, nor HTTP, nor a database.
"""
