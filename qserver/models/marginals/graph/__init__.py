"""Scopes, cliques and messages: the graph under a marginal model.

Begin with `layout`: the order of all tables in one flat vector. `scopes` finds parts and
intersections, `triangulation` the cliques, `junction_tree` passes messages between them, and
`elimination` sums products of factors.

Which one to call: `junction_tree.JunctionTree` for exact marginals of log-potentials.
"""
