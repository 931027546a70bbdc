"""Pages and pictures of docs/ that are made from the code; `python -m tests.docs` writes them."""
