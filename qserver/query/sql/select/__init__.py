"""What stands behind SELECT, and what names it: items, their texts, HAVING and LIMIT.

`columns` notes how each item is written, and puts what a name stands for in its place. `items`
names what SELECT lists, and `having` reads HAVING and LIMIT.
"""
