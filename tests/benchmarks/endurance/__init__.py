"""Years of questions in minutes: memory, times, disk and restarts over the number of questions."""
