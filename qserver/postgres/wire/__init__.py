"""The bytes of the protocol: `stream`, `messages`, `reading`, `values`, `texts` and `faults`."""
