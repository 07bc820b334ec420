"""Frames of pandas, Arrow and Polars: what they hold as Arrow rows of a table, and rows as frames.

`frame_columns` reads a frame, `frame_rows` makes its rows those of a table, `plain_values` turns single values of NumPy and pandas into
Python's, and `answer_frames` gives rows back as frames and as HTML. pandas and Polars are imported where a caller asks for their frames,
and nowhere else.
"""
