"""What is written down: histories, plans, charges, accounts."""
