"""Models in the server: what their tables cost, and how they are made from history again."""
