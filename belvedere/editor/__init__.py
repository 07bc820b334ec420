"""Editor features for a script: diagnostics, completion, hover, definitions, references, renames, outline, layout.

In: texts, projects, offsets. Out: plain values with spans. Pure functions over a `Document`: no protocol, no terminal.
The language server (`belvedere.language_server`) and the prompt of `belvedere query` call them. All of them also work
on incomplete text: names are resolved statement by statement over tokens, and relations come from the last compile that
recognised them.
"""
