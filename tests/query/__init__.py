"""Domains, questions and their normal form."""
