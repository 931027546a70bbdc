"""What a statement of SQL gets without a measurement: answers of history alone, or its price."""
