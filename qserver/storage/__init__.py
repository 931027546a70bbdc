"""Everything that qserver keeps, in Redis or Valkey.

Begin with `store`, for the online side, or with `spend`, for the worker. Each operation that must
be atomic is one Lua script in `scripts`. `server` has the connection, the check that writes
survive, the embedded server and its copies for backups; `encoding` the JSON forms;
`population_facts` the gauges.

Storage knows records only. It never imports inference, planning, the service or HTTP.
"""
