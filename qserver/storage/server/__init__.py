"""The Redis or Valkey server: connection, durability, and the embedded server.

Begin with `connection`. `durability` refuses a server that may forget a write. `embedded_store`
runs a Valkey server for one machine on a `state_folder`; `aof` repairs its files after a crash,
and `store_snapshot` copies them for a backup.
"""
