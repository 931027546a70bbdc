"""Calendar periods: days, ISO weeks, months, quarters and years, and their place in a domain.

Begin with `units`: the arithmetic of one period, and consecutive ones as a domain file declares
them. `sealed` reads the ends of a condition on them, and knows which are sealed.
"""
