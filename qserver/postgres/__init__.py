"""PostgreSQL's wire protocol: a client of the service, as the web pages are.

`server` takes connections within `limits`, `connection` lets one of them in and speaks with it.
`session` has what a connection has set: nothing is spent until it says `SET qserver.spend = on`.
`routing` finds out what a text is about: `commands` of the connection, what it has
`prepared_statements` (cursors, prepared statements, also by the messages of the extended protocol),
a dataset by `statements`, or the public names of all datasets by `catalogue`. `wire` has the bytes.
"""
