"""Commands that ask no server: demo, serve, doctor, backup, accounts, audit, audit-structure."""
