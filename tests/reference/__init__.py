"""Answers by independent means, and the programs that made them."""
