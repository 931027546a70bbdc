"""The kinds of model that the server can learn, ask and sample.

Begin with `kind`, which says what each kind offers and how it presents itself in requests, forms
and words, and `registry`, the kinds by name: the portal and HTTP read it there. The two kinds are
`network_kind` and `marginals_kind`.
"""
