"""The operator's tools for a store: `backup`, `powers` of its users, `facts` for prices and gauges.

Begin with `backup`: call it for a copy that was loaded and checked.
"""
