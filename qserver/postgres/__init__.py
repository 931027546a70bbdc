"""PostgreSQL's wire protocol: a client of the service, as the web pages are.

`server` takes connections, `connection` lets one of them in and speaks with it, `extended` by
messages for parts of a statement. `session` has what a connection has set: nothing is spent until
it says `SET qserver.spend = on`. `routing` finds out what a text is about: `commands` of the
connection, what it has `held` (cursors, prepared statements), a dataset by `statements`, or the
public names of all datasets by `catalogue`. `wire` has the bytes.
"""
