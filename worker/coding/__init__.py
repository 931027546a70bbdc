"""From record batches to integer codes by the rules of a domain, batch by batch."""
