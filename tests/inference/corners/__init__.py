"""Tests of the algebra of measured rows."""
