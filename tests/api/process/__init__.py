"""The processes of HTTP: what waits, and who looks after it."""
