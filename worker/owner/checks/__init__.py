"""What the owner has checked: `audit` has both commands, `population` what they check of each."""
