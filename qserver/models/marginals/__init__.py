"""Marginal-based estimation: one consistent, non-negative model out of many noisy marginals.

Import direction: layout -> summation -> regions -> {belief, junction_tree} -> descent -> estimate;
layout -> consistency -> copies -> consensus -> estimate; junction_tree -> {clique_agreement,
likeliest} -> estimate. Everything works on proportions and flat float64 vectors.
"""
