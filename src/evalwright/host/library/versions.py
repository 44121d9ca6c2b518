"""The order of versions: semantic versions by precedence, all others before them."""

import re

_SEMANTIC = re.compile(
    r"(?P<core>[0-9]+\.[0-9]+\.[0-9]+)(?:-(?P<prerelease>[0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
)

_Identifier = tuple[bool, int, str]
VersionKey = tuple[bool, tuple[int, ...], bool, tuple[_Identifier, ...], str]


def version_key(version: str) -> VersionKey:
    """A sort key for versions, lowest first; different for different versions."""
    found = _SEMANTIC.fullmatch(version)
    if found is None:
        return (False, (), False, (), version)
    core = tuple(int(number) for number in found["core"].split("."))
    prerelease = found["prerelease"]
    # Numeric identifiers come first and are compared as numbers.
    identifiers = [
        (False, int(each), "") if each.isascii() and each.isdigit() else (True, 0, each)
        for each in (prerelease.split(".") if prerelease else ())
    ]
    return (True, core, prerelease is None, tuple(identifiers), version)
