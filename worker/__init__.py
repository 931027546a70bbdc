"""The trusted side of qserver: it alone reads private rows and draws noise.

Nothing in `qserver` imports this package. What leaves it is released answers and public facts.
"""

from __future__ import annotations
