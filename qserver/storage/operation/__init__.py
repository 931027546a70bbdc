"""The operator's tools for a store: `backup`, and `facts` of prices, gauges and its users.

Begin with `backup`: call it for a copy that was loaded and checked.
"""
