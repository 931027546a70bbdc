"""How the posterior of a single question is to be read.

Begin with `reading`: by which method, and how exactly. It also has the prior: what is held true of
the answer beforehand. Neither changes what is measured or what it costs.
"""
