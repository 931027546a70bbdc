"""The pages, by a browser without JavaScript."""
