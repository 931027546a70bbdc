"""Plots of results: SVG that a notebook shows and that can be saved, without a plotting library."""
