"""The operator's tools for a store: `backup`, `gauges` to watch it, `powers` of its users.

Begin with `backup`: call it for a copy that was loaded and checked.
"""
