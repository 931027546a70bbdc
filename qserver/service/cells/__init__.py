"""The cells of a statement's table: made from answers, and what is said beside them."""
