"""The times of answers: measured where the worker spends, and an attack on them."""
