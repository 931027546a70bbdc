"""The cells of a statement's table, made from answers, with the remarks beside them."""
