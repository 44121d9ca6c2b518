"""How long the tests of faults go on: a few seeds in `make test`, many in `make soak`.

A test of a fault takes its random choices from a seed, so that a failure can be repeated:

    @pytest.mark.parametrize("seed", seeds(short=2, long=50))
    def test_...(seed): ...
"""

import os

IS_SOAK = os.environ.get("SOAK") == "1"


def seeds(short: int, long: int) -> range:
    """The seeds of a test: a few every time, many when soaking."""
    return range(long if IS_SOAK else short)


def scaled(short: int, long: int) -> int:
    """A size or a number of rounds: small every time, large when soaking."""
    return long if IS_SOAK else short
