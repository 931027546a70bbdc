"""The trusted side of qserver: it alone reads private rows and draws noise.

Nothing in `qserver` imports this package. Only released answers and public facts leave it. Begin
with `spending`; `owner` holds the commands of the data's owner, and `cli` is the only door.
"""

from __future__ import annotations
