"""The example of docs/sources.md, as it stands there."""

from __future__ import annotations

import json
import re
from pathlib import Path

from qserver.query.domain_file import domain_from_document

_PAGE = (Path(__file__).parents[3] / "docs" / "sources.md").read_text(encoding="utf-8")
QUERY = re.findall(r"(?s)```sql\n(.*?)```", _PAGE)[0]
DOMAIN = domain_from_document(json.loads(re.findall(r"(?s)```json\n(.*?)```", _PAGE)[0]))
