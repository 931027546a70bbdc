"""docs/: its figures are drawn from the code, `python -m tests.docs` writes them."""
