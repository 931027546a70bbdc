"""The pages in Chromium; a command of its own."""
