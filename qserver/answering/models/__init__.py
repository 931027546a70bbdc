"""Models in the server: the price of their tables, and how history makes them again.

Begin with `purchase`, which plans the tables that a model still needs. `price` explains the price
of learning, `correlations` gives the correlations that a structure is proposed from. The kinds of
model stand in `kinds`.
"""
