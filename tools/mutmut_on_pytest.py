"""A pytest plugin: mutmut 3.8 reads `_nodeid` of an item, which newer versions of pytest lack."""

import pytest

if not hasattr(pytest.Item, "_nodeid"):
    pytest.Item._nodeid = property(lambda item: item.nodeid)  # type: ignore[attr-defined]
