"""Laws of sums of Laplace variables."""
