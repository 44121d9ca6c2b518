"""The principal: what the key of a request says about its holder."""

import msgspec

NAME = "[a-z0-9._-]{1,64}"  # the pattern of the name of a tenant or workspace


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
    def place(self) -> str:
        """The holder's workspace, or the tenant for a key without one."""
        return self.tenant if self.workspace is None else f"{self.tenant}/{self.workspace}"

    @property
    def partition(self) -> str:
        """The holder's partition of the log: workspaces and test keys have separate ones."""
        return f"{self.place}~test" if self.is_test else self.place

    def may(self, scope: str) -> bool:
        """Whether the key has this scope; no scope implies another."""
        return scope in self.scopes


def place_of(partition: str) -> str:
    """The workspace or tenant that a partition of the log belongs to."""
    return partition.removesuffix("~test")


def tenant_of(partition: str) -> str:
    """The tenant that a partition of the log belongs to."""
    return place_of(partition).partition("/")[0]
