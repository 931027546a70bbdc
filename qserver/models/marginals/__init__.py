"""Marginal-based estimation: one consistent, non-negative model out of many noisy marginals.

Import direction: layout -> summation -> regions -> {belief, junction_tree} -> descent -> estimate;
layout -> consistency -> consensus. Everything works on proportions and flat float64 vectors.
"""
