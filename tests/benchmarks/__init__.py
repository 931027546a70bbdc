"""Benchmarks, run by hand: `python -m tests.benchmarks NAME`. None is a timed test."""
