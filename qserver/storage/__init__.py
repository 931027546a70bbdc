"""Everything that qserver keeps, in Redis or Valkey.

Begin with `store`, the read side and the few writes of the online side; `spend` is the worker's
side. Each operation that must be atomic is one Lua script in `scripts`. `server` is the
connection, the check that writes survive, and the embedded server; `encoding` holds the JSON
forms; `operation` holds backups and gauges.

Storage knows records only. It never imports inference, planning, the service or HTTP.
"""
