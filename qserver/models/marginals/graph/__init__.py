"""Regions, cliques and messages: the graph that a marginal model stands on.

Begin with `layout`, the order in which tables stand in one vector, and `regions`.
`junction_tree` and `belief` pass messages, `triangulation` and `elimination` choose the
cliques.
"""
