"""The processes of a server on one machine: `supervisor` and `children`."""
