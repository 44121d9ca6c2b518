"""Who is asking: what the key of a request says about its holder."""

import msgspec


class Principal(msgspec.Struct, frozen=True):
    """The holder of a key, as far as the host knows it; nothing of it comes from a request's body.

    `principal` is an opaque id that may stand in events and answers.
    """

    key_id: str
    tenant: str
    workspace: str | None
    scopes: frozenset[str]
    principal: str
    is_test: bool = False

    @property
    def partition(self) -> str:
        """Whose runs these are in the log: a workspace has its own, and so has a test key."""
        place = self.tenant if self.workspace is None else f"{self.tenant}/{self.workspace}"
        return f"{place}~test" if self.is_test else place

    def may(self, scope: str) -> bool:
        """Whether the key has this scope; no scope implies another."""
        return scope in self.scopes


def tenant_of(partition: str) -> str:
    """The tenant that a part of the log belongs to."""
    return partition.removesuffix("~test").partition("/")[0]
