"""qserver: answers linear counting queries over private data with credible intervals.

The online side. It plans, infers and serves; it never opens private data and draws no noise.
"""

from __future__ import annotations

__version__ = "0.1.0"
