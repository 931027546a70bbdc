"""Coverage of intervals and laws of noise."""
