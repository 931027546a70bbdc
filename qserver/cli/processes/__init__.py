"""The processes of a server on one machine: supervisor, children, exporter of metrics."""
