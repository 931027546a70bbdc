"""Scopes, cliques and messages: the graph under a marginal model.

Begin with `layout`: scopes, and the order of their tables in one flat vector. `junction_tree`
finds cliques and passes messages between them.

Which one to call: `junction_tree.JunctionTree` for exact marginals of log-potentials.
"""
