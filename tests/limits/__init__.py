"""Limits that a user or an owner meets, each provoked by what they would do."""
