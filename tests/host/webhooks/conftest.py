"""Fixtures of the webhooks."""

import pytest
from webhook_station import Certificate, make_certificate


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate") / "receiver.pem")
