"""The server that keeps everything: the connection to it, its durability, and one of our own.

Begin with `connection`. `durability` refuses a server that may forget, `embedded` runs a Valkey
for one machine in a `state_folder`, `aof` repairs its files after a crash.
"""
