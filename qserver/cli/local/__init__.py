"""Commands on this machine's own store: demo, serve, doctor, backup, accounts, audit."""
