"""Periods in SQL: `conditions` compares them with labels and dates, `groups` joins them."""
