"""What a browser would make of a page: its elements, ids, links and text."""

from html.parser import HTMLParser
from typing import NamedTuple


class Element(NamedTuple):
    tag: str
    attributes: dict[str, str]


class Page(HTMLParser):
    """A page, taken apart."""

    def __init__(self, data: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._text: list[str] = []
        self.feed(data.decode("utf-8"))
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data):
        self._text.append(data)

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def ids(self) -> list[str]:
        return [each.attributes["id"] for each in self.elements if "id" in each.attributes]

    @property
    def links(self) -> list[str]:
        named = ("href", "src", "action", "data", "formaction", "xlink:href", "srcset", "poster")
        return [
            value
            for element in self.elements
            for name, value in element.attributes.items()
            if name in named
        ]

    def tags(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]
