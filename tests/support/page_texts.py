"""Texts of pages, read without a browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

HOSTILE_TEXT = """<script>alert(1)</script> & "Söhne" <img src=x onerror='alert(2)'>"""


def get_headers(answer) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


def get_text(page: str) -> str:
    """Return the text that a reader sees."""
    body = page[page.index("<body") :]
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


# ends a text, an attribute in either quotes, a tag, a script, a style and a comment
HOSTILE_MARKUP = (
    """</script></style>--><script>alert(1)</script>"'&amp;<b onclick='x'>{{ 7 * 7 }}${x}"""
)


class ParsedPage(HTMLParser):
    """A page as a browser parses it: tags with the names of their attributes, and all texts."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, ...]] = []
        self.texts: list[str] = []
        self.source = page.decode()
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, *(name for name, _ in attrs)))
        self.texts += [value or "" for _, value in attrs]

    def handle_data(self, data):
        # scripts get JSON in which no tag can end
        self.texts.append(str(json.loads(data)) if data.startswith('{"') else data)

    def times(self, text: str) -> int:
        """Count a text's occurrences, also in the JSON that a wallet or a script is given."""
        return sum(
            each_text.replace('\\"', '"').replace("\\'", "'").count(text)
            for each_text in self.texts
        )
