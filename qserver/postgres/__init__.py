"""PostgreSQL's wire protocol: a client of the service, as the web pages are.

`server` takes connections, `connection` speaks with one of them, and `startup` lets it in.
`session` has what a connection has set: nothing is spent until it says `SET qserver.spend = on`.
`routing` finds out what a text is about: `asking` answers it from a dataset, `commands` from the
session, `catalogue` from the public names of all datasets. `extended` keeps prepared statements.
`wire` has the bytes.
"""
