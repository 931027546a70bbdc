"""Claims: what an owner does not want to be known too well, as public facts of a dataset."""
