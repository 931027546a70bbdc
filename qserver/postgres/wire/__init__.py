"""The bytes of the protocol: `stream`, `messages`, `values`, `texts` and `faults`."""
