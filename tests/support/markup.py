"""Pages as browsers take them apart, and a text that ends whatever it is put into."""

from __future__ import annotations

from html.parser import HTMLParser

# ends a text, an attribute in either quotes, a tag, a script, a style and a comment
HOSTILE = """</script></style>--><script>alert(1)</script>"'&amp;<b onclick='x'>{{ 7 * 7 }}${x}"""


class Seen(HTMLParser):
    """A page as a browser takes it: tags with the names of their attributes, and all texts."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, ...]] = []
        self.texts: list[str] = []
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, *(name for name, _ in attrs)))
        self.texts += [value or "" for _, value in attrs]

    def handle_data(self, data):
        self.texts.append(data)

    def times(self, text: str) -> int:
        """How often it is there, also in the JSON that a wallet is told."""
        return sum(one.replace('\\"', '"').count(text) for one in self.texts)
