"""When to buy blocks, and which.

Begin with `rent_or_buy`, the rule. `demand` holds what was asked and paid for; the rule depends on
nothing else. `base` and `star` find the best blocks for that demand. `needed_part` takes what one
question needs from a base. `learner` and `learned_levels` place levels where questions end;
`uneven_parts` finds parts of unequal size.
"""
