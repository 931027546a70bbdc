"""The owner's checks: `audit` has both commands, `population` what they check of each
population."""
