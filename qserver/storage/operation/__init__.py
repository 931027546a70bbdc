"""The operator's tools for a store: `backup`, `gauges`, `powers` of its users, `facts` of prices.

Begin with `backup`: call it for a copy that was loaded and checked.
"""
