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
    identifiers = prerelease.split(".") if prerelease else []
    return (True, core, prerelease is None, tuple(map(_identifier, identifiers)), version)


def _identifier(text: str) -> _Identifier:
    """Numeric identifiers come first and are compared as numbers."""
    is_number = text.isascii() and text.isdigit()
    return (not is_number, int(text) if is_number else 0, text)
