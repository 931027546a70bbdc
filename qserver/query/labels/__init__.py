"""What stands behind labels: the codes that a column holds for them, and levels above them."""
