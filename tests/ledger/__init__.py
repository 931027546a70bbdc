"""What each cell has lost, held to the loss by definition."""
