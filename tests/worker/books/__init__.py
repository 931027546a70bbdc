"""Tests of worker/books/."""
