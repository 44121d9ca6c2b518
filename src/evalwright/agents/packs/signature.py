"""Ed25519 signatures over the exact bytes of `pack.json`, and the keys that make and check them."""

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from evalwright.contracts.errors import BadInput

MAKE_KEY = "make one with `openssl genpkey -algorithm ed25519 -out private.pem`"
MAKE_PUBLIC = "make one with `openssl pkey -in private.pem -pubout -out public.pem`"


def load_private_key(pem: bytes, name: str) -> Ed25519PrivateKey:
    """The key that signs, from a PEM file without a password."""
    try:
        key = load_pem_private_key(pem, password=None)
    except TypeError:
        message = "the key has a password, which cannot be entered here"
        raise BadInput(f"{name}: {message} (remove it, or {MAKE_KEY})") from None
    except (ValueError, UnsupportedAlgorithm):
        raise BadInput(f"{name}: not a PEM private key ({MAKE_KEY})") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInput(f"{name}: it is not an Ed25519 key ({MAKE_KEY})")
    return key


def load_public_key(pem: bytes, name: str) -> Ed25519PublicKey:
    """The key that is trusted, from a PEM file."""
    if b"PRIVATE KEY" in pem:
        message = "it is a private key, and to verify takes the public one"
        raise BadInput(f"{name}: {message} ({MAKE_PUBLIC})")
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise BadInput(f"{name}: not a PEM public key ({MAKE_PUBLIC})") from None
    if not isinstance(key, Ed25519PublicKey):
        raise BadInput(f"{name}: it is not an Ed25519 key ({MAKE_PUBLIC})")
    return key


def is_signed_by(key: Ed25519PublicKey, signature: bytes, content: bytes) -> bool:
    """Whether the signature is this key's over exactly this content."""
    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True
