"""When to buy blocks, and which.

Begin with `rent_or_buy`, the rule. `demand` holds what was asked and paid for, which is all
that the rule goes by. `base` and `star` find the best blocks for that demand; `learner` and
`learned_levels` place levels where questions end; `uneven_parts` seeks parts of unequal size.
"""
