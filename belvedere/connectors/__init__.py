"""Sources of rows and targets of exports. Each module is one connector; the registry finds it by its name in the
project file.

`connector` defines the interface, `registry` finds connectors, `reading` parses the files of the connector `files`.
`docs/how-to/write-a-connector.md` shows how to write a connector. Connectors know neither views nor epochs: they report
new data, read exactly that data, and write the events that they receive.
"""
