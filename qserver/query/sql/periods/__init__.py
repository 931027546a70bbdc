"""Periods in a text of SQL: `conditions` compares them with labels and dates, `groups` joins them."""
