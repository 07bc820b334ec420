"""Answers over time: live queries, events and the status, over SSE and WebSocket."""
