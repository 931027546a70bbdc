"""What is asked: a question of JSON, how its posterior is read, and what its asker looked at.

Begin with `structured_question`, which reads a question, and with `method_and_prior`: by which
method, and how exactly. That also has the prior: what is held true of the answer beforehand.
Neither changes what is measured or what it costs. `after_looking` has what was seen before a number
was chosen.
"""
