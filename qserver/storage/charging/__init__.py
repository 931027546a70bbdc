"""Charge a group of jobs, and publish their answers: the two scripts that a lease is needed for.

Begin with `reserve`, then `publish`. docs/protocol.md has their checks, and their order.
"""
