"""Frozen public facts that pass between rooms: charges, measurements, plans, answers, accounts.

A record checks itself when it is made, and knows nothing of storage or planning. Begin with
`history` (what was released), `charge` (what it cost) and `plan` (what will be measured). `codec`
writes and reads records of the store, the journal and the client as JSON.

Every other room may import a record. A record imports only the ground and `query`.
"""
