"""The use cases on a real deployment."""
