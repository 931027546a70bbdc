"""Tracing attacks, their bound and the cap that follows."""
