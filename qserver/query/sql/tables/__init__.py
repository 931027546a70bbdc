"""From the SELECTs of a text to the table that it asks for.

`selects` reads one SELECT into a `part`, and `unions` joins the parts of a UNION ALL.
"""
