"""What goes on after its first answer: live queries, events and the status, over SSE and WebSocket."""
