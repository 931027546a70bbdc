"""Kinds of models as the server answers from them."""
