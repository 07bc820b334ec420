"""Frames of pandas, Arrow and Polars: conversion to Arrow rows of a table, and from rows to frames.

`frame_columns` reads a frame, and `frame_rows` converts its rows to those of a table. `plain_values` converts single
values of NumPy and pandas to Python's. `answer_frames` returns rows as frames and as HTML. pandas and Polars are
imported only if a caller requests their frames.
"""
