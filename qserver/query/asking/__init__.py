"""A question of JSON, the method and prior of its posterior, and its asker's looks.

Begin with `structured_question`, which reads a question, and with `method_and_prior`: how the
posterior is computed, how exactly, and under which prior. Neither changes measurements or price.
`after_looking` has the choice of a number among released ones.
"""
