"""The bytes of the protocol: `messages`, `values`, `texts` and `faults`."""
