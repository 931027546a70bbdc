"""What is protected of a person in data that come period by period, and which have come."""
