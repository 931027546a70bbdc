"""Periods in SQL: `conditions` compares them with texts, and `last` reads LAST 4 WEEKS."""
