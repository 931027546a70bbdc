"""`python -m worker` runs the worker's command line."""

from __future__ import annotations

import sys

from worker.cli import main

sys.exit(main())
