"""The kinds of model that the server can learn, ask and sample.

Begin with `kind`, what each kind offers, and `registry`, the kinds by name. `network_kind` and
`marginals_kind` are the two; `sampled_kind` and `growing_kind` are what a kind may offer beyond
that.
"""
