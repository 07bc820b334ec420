"""Language Server Protocol over `belvedere.editor`: positions, URIs and messages. `belvedere.editor` computes all
answers.

In: requests of an editor on standard input. Out: answers on standard output. The only package that imports pygls.
"""
