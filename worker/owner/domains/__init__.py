"""Domain files for the owner: `draft` writes one from a source, `check` checks one against it."""
