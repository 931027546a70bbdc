"""Pages that are made from the code when the site is built; none stands in git."""
