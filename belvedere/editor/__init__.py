"""What an editor asks about a script: diagnostics, completion, hover, definitions, references, renames, outline, layout.

In: texts, projects, offsets. Out: plain values with spans. Pure functions over a `Document`: no protocol, no terminal. The language server
(`belvedere.language_server`) and the prompt of `belvedere query` ask it. All works on text that cannot be read as a whole, too: names are
resolved statement by statement over tokens, and what is known of relations is that of the last compile in which they were understood.
"""
