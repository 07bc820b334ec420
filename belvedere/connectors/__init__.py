"""Where rows come from and where exports go: one module is one connector, found in the registry by its name in the project file.

`connector` says what a connector is, `registry` finds it, `docs/how-to/write-a-connector.md` shows how to write one.
`reading` is what the connector
`files` reads with. Connectors know neither views nor epochs: they say what is new, read exactly that, and write what they are given.
"""
