"""Which addresses are public: the question on which every refusal rests."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.host.access.egress import EgressRefused
from evalwright.host.access.egress.addresses import kind_of, literal_address

V4 = st.ip_addresses(v=4)
V6 = st.ip_addresses(v=6)
NETWORKS = {
    "10.0.0.0/8": "private",
    "100.64.0.0/11": "private",
    "172.16.0.0/12": "private",
    "192.168.0.0/16": "private",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/17": "link-local",
    "0.0.0.0/8": "reserved",
    "198.18.0.0/15": "reserved",
    "203.0.113.0/24": "reserved",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
    "fc00::/8": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "reserved",
    "ff00::/8": "multicast",
    "2001::/32": "reserved",
    "2001:db8::/32": "reserved",
    "64:ff9b:1::/48": "reserved",
    "100::/64": "reserved",
    "4000::/3": "reserved",
}
METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd20:ce::254",
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.215.14", "172.15.0.1", "172.32.0.1", "2606:4700::1111"]


@pytest.mark.parametrize(("network", "kind"), NETWORKS.items())
@given(data=st.data())
def test_every_address_of_a_special_network_is_of_its_kind(network, kind, data):
    assert kind_of(data.draw(st.ip_addresses(network=network))) == kind


@pytest.mark.parametrize("network", NETWORKS)
def test_a_special_network_is_special_to_its_edges(network):
    parsed = IPv6Network(network) if ":" in network else IPv4Network(network)
    assert {kind_of(parsed[0]), kind_of(parsed[-1])} == {NETWORKS[network]}


@pytest.mark.parametrize("address", METADATA)
def test_metadata_services_are_known_wherever_they_are(address):
    assert kind_of(ip_address(address)) == "metadata"


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_public(address):
    assert kind_of(ip_address(address)) == "public"


@pytest.mark.parametrize(("address", "kind"), [("::", "reserved"), ("::1", "loopback")])
def test_the_shortest_addresses_are_not_taken_for_carriers_of_others(address, kind):
    assert kind_of(IPv6Address(address)) == kind


@given(V4)
def test_no_ipv4_address_is_public_that_the_standard_library_calls_private(address):
    assert kind_of(address) != "public" or (address.is_global and not address.is_multicast)


@given(V6.filter(lambda address: address.sixtofour is None))
def test_no_ipv6_address_is_public_that_the_standard_library_calls_private(address):
    assert kind_of(address) != "public" or (address.is_global and not address.is_multicast)


@given(V4.filter(lambda address: int(address) >= 0x10000), st.integers(0, 2**80 - 1))
def test_an_address_that_carries_another_is_what_the_other_is(carried, rest):
    number = int(carried)
    nat64 = int(IPv6Address("64:ff9b::"))
    carriers = [
        0xFFFF << 32 | number,  # mapped
        number,  # compatible
        nat64 | number,
        0x2002 << 112 | number << 80 | rest,  # 6to4
    ]
    assert {kind_of(IPv6Address(carrier)) for carrier in carriers} == {kind_of(carried)}


def test_the_spelling_of_a_mapped_address_does_not_matter():
    spellings = ["::ffff:127.0.0.1", "::ffff:7f00:1", "0:0:0:0:0:ffff:7f00:0001"]
    assert {kind_of(IPv6Address(text)) for text in spellings} == {kind_of(IPv4Address("127.0.0.1"))}


def test_a_host_name_has_at_most_253_characters():
    longest = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    assert (len(longest), literal_address(longest)) == (253, None)
    with pytest.raises(EgressRefused, match="is not a valid host name"):
        literal_address(f"{longest}d")
