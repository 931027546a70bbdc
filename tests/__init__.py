"""The tests: a folder for each room of the product, and beside them what crosses all of them."""
