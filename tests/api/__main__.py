"""`python -m tests.api`: keep what clients of HTTP rely on now."""

from __future__ import annotations

from deploy.site.pages.made import openapi
from tests.api.relied_on import KEPT, relied_on, text_of

KEPT.write_text(text_of(relied_on(openapi())), encoding="utf-8")
print(KEPT.name)
