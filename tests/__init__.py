"""The tests: a folder for each room of the product, and beside them what crosses all of them.

Without the compiled files that PYTHONDONTWRITEBYTECODE forbids, each of the many processes that
tests start would compile everything anew.
"""

import os
import sys

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
