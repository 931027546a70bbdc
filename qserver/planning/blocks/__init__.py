"""When to buy blocks, and which.

Begin with `rent_or_buy`, the rule. `demand` holds what was asked and paid for, `own_rows` what own
rows would have cost, `rent` what bases cost then; the rule depends on nothing else. `base` and
`star` find the best blocks for that demand, `scopes` keeps them, and `reference_question` decides
on one question. `needed_part` takes what a question needs from a base. `levels` places levels where
questions end. `earlier_questions` knows what was asked of old data.
"""
