"""The commands of `qserver`, one module for each group; `qserver.cli.main` puts them together."""

from __future__ import annotations
