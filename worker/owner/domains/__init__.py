"""Domain files for the owner: `draft` writes one from a source, `fitting` checks one against it."""
