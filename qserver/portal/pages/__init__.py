"""The routes of the web pages: one module for each group of pages."""
