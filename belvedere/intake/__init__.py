"""The intake of a run: pushed rows and bounds -> a journal on disk -> epochs.

A request is parsed (`request_rows`), sent through a socket to the process that runs epochs (`wire`), checked and
written (`ingest_service`, `entry_bytes`, `journal`), and then answered. Imports neither Spark, nor HTTP, nor a
database.
"""
