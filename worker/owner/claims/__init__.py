"""What an owner does not want to be known too well of a dataset: at its attach, and later."""
