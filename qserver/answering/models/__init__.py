"""Models in the server: what their tables cost, and how they are made from history again.

Begin with `purchase`, which plans the tables that a model still needs. `price` is what learning
would cost, `correlated` what a structure is proposed from. The kinds of model stand in `kinds`.
"""
