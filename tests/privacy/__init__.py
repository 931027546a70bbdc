"""Audits of the noise, of timing, and of what may leak."""
