"""Tool ids as providers accept them."""

import re

from hypothesis import given
from hypothesis import strategies as st

from evalwright.agents.tool_names import ToolNames

ids = st.text(min_size=1, max_size=90) | st.from_regex(r"[a-c:._-]{1,5}", fullmatch=True)
sets_of_ids = st.lists(ids, unique=True, max_size=20)


def test_a_plain_id_stays_readable():
    names = ToolNames(["mcp:orders.lookup", "refund"])
    assert names.name("mcp:orders.lookup") == "mcp_orders_lookup"
    assert names.name("refund") == "refund"


def test_two_ids_that_would_look_alike_are_told_apart():
    names = ToolNames(["shop:get", "shop.get"])
    assert names.name("shop:get") == "shop_get"
    assert re.fullmatch(r"shop_get_[0-9a-f]{8}", names.name("shop.get"))


def test_an_id_that_is_too_long_keeps_its_beginning():
    name = ToolNames(["mcp:warehouse." + "x" * 80]).name("mcp:warehouse." + "x" * 80)
    assert len(name) == 64
    assert re.fullmatch(r"mcp_warehouse_x+_[0-9a-f]{8}", name)


def test_a_name_that_nobody_has_leads_to_no_tool():
    assert ToolNames(["shop:get"]).tool("shop:get") is None


@given(sets_of_ids)
def test_every_name_fits_and_leads_back_to_its_tool(tools):
    names = ToolNames(tools)
    for tool in tools:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", names.name(tool))
        assert names.tool(names.name(tool)) == tool


@given(sets_of_ids, sets_of_ids)
def test_more_tools_at_the_end_change_no_name(first, more):
    alone, together = ToolNames(first), ToolNames([*first, *more])
    assert [alone.name(tool) for tool in first] == [together.name(tool) for tool in first]
