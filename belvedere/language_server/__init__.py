"""The Language Server Protocol over `belvedere.editor`: positions, addresses and messages; all answers are the engine's.

In: requests of an editor on standard input. Out: answers on standard output. The only package that imports pygls.
"""
