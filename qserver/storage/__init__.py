"""Storage: everything that qserver keeps, in Redis or Valkey.

One client (`connection`), one check that acknowledged writes survive (`durability`), and for a
single machine a server of our own (`embedded`, over `state_folder` and `aof`). Storage knows the
data classes only; it never imports inference, planning, the service or the web side.
"""

from __future__ import annotations
