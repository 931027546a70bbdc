"""Graphical models: pure functions of public structures and released tables."""
