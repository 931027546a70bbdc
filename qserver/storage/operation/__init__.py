"""What an operator does with a store: back it up, watch it, check its users' rights."""
