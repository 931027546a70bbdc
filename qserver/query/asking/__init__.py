"""What is asked: a question of JSON, how its posterior is read, and what its asker looked at.

Begin with `structured`, which reads a question, and with `reading`: by which method, and how
exactly. That also has the prior: what is held true of the answer beforehand. Neither changes what
is measured or what it costs. `looking` has what was seen before a number was chosen.
"""
