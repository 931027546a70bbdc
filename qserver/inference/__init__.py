"""From released history to answers: pure functions of rows, scales and noisy answers."""
