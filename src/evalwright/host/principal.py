"""The principal: what the key of a request says about its holder."""

import msgspec


class Principal(msgspec.Struct, frozen=True):
    """The holder of a key; nothing in it comes from the body of a request.

    `principal` is an opaque id for events and responses.
    """

    key_id: str
    tenant: str
    workspace: str | None
    scopes: frozenset[str]
    principal: str
    is_test: bool = False

    @property
    def partition(self) -> str:
        """The holder's partition of the log: workspaces and test keys have separate ones."""
        place = self.tenant if self.workspace is None else f"{self.tenant}/{self.workspace}"
        return f"{place}~test" if self.is_test else place

    def may(self, scope: str) -> bool:
        """Whether the key has this scope; no scope implies another."""
        return scope in self.scopes


def tenant_of(partition: str) -> str:
    """The tenant that a partition of the log belongs to."""
    return partition.removesuffix("~test").partition("/")[0]
