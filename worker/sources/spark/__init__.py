"""The owner's existing Spark: `session` opens it by its address, `rows` reads from it."""
