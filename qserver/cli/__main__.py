"""`python -m qserver.cli` is the command line `qserver`."""

from __future__ import annotations

import sys

from qserver.cli.main import main

sys.exit(main())
