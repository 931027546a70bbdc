"""Hostile input: what is sent, and a real server that must stand it."""
