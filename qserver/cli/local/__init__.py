"""Commands that ask no server: demo, serve, doctor, accounts, audit, audit-structure."""
