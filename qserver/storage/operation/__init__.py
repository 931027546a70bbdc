"""The operator's tools for a store: `store_snapshot`, and `facts` of prices, gauges and its users.

Begin with `store_snapshot`: call it for a copy that was loaded and checked.
"""
