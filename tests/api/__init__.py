"""The HTTP API: routes, problems, process and metrics."""
