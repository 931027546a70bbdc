"""The kinds of model that the server can learn, ask and sample.

Begin with `kind`, what each kind offers, `face`, how it presents itself in requests, forms and
words, and `registry`, the kinds by name: the portal and HTTP read it there. `network_kind` and
`marginals_kind` are the two; `sampled_kind` and `growing_kind` are what a kind may offer beyond
that.
"""
