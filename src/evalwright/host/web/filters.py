"""Filters: what an address asks for of a list, and the page of the list that it names."""

from collections.abc import Container, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import urlencode

import msgspec

from evalwright.host.web.page import PageCall

T = TypeVar("T")


def number_of(text: str) -> float | None:
    """A number in an address; None for anything else."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < 1e18 else None


class Filters(msgspec.Struct, frozen=True):
    """The filters in an address: a parameter for each field, which is empty if it is not given."""

    PATH: ClassVar[str]
    CHOICES: ClassVar[Mapping[str, Container[str]]] = {}  # anything else counts as not given

    @classmethod
    def of(cls, call: PageCall) -> Self:
        """Those of a request, or of a form."""
        given = {name: call.field(name) or call.asked(name) for name in cls.__struct_fields__}
        known = {
            name: value
            for name, value in given.items()
            if name not in cls.CHOICES or value in cls.CHOICES[name]
        }
        return cls(**known)

    def values(self) -> dict[str, str]:
        return msgspec.structs.asdict(self)

    def replace(self, **changed: str) -> Self:
        return msgspec.structs.replace(self, **changed)

    def address(self, path: str = "", **changed: str) -> str:
        """The address of the same filters, but for what is changed."""
        given = {name: value for name, value in (self.values() | changed).items() if value}
        path = path or self.PATH
        return f"{path}?{urlencode(given)}" if given else path

    def page_address(self, number: int) -> str:
        """The address of a page of the same list."""
        return self.address(page=str(number))

    def page_of(self, found: Sequence[T], at_once: int) -> tuple[Sequence[T], dict[str, Any]]:
        """The part of a list that its field `page` names, and what leads to the others."""
        pages = max(1, -(-len(found) // at_once))
        number = min(max(1, int(number_of(self.values()["page"]) or 1)), pages)
        around = {
            "number": number,
            "last_page": pages,
            "before": self.page_address(number - 1) if number > 1 else "",
            "after": self.page_address(number + 1) if number < pages else "",
        }
        return found[(number - 1) * at_once : number * at_once], around
