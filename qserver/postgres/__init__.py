"""PostgreSQL's wire protocol: a client of the service, as the web pages are.

`server` takes connections, `connection` lets one of them in and speaks with it.
`session` has what a connection has set: nothing is spent until it says `SET qserver.spend = on`.
`routing` finds out what a text is about: it is answered from the session there, from a dataset by
`asking`, and from the public names of all datasets by `catalogue`. `extended` keeps prepared
statements. `wire` has the bytes.
"""
