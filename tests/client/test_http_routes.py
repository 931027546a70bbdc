"""Which proxy the environment names for a server."""

from __future__ import annotations

import urllib.request

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.client.http import proxy_for
from qserver.errors import ConfigError

P, Q = "http://p:1", "http://q:2"
LABELS = st.lists(st.sampled_from(["a", "b", "ab", "test"]), min_size=1, max_size=4).map(".".join)


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("http://h.test", {}, ""),
        ("http://h.test", {"HTTP_PROXY": P}, P),
        ("http://h.test", {"http_proxy": P, "HTTP_PROXY": Q}, P),
        ("http://h.test", {"http_proxy": "", "HTTP_PROXY": Q}, ""),
        ("http://h.test", {"HTTPS_PROXY": P}, ""),
        ("https://h.test", {"HTTPS_PROXY": P, "HTTP_PROXY": Q}, P),
        ("http://h.test", {"HTTP_PROXY": "p:1"}, P),
        ("http://h.test", {"HTTP_PROXY": P, "REQUEST_METHOD": "GET"}, ""),
        ("http://h.test", {"http_proxy": P, "REQUEST_METHOD": "GET"}, P),
        ("http://localhost:8000", {"HTTP_PROXY": P}, ""),
        ("http://a.localhost", {"HTTP_PROXY": P}, ""),
        ("http://127.8.9.1:8000", {"HTTP_PROXY": P}, ""),
        ("http://[::1]:8000", {"HTTP_PROXY": P}, ""),
        ("http://0.0.0.0:8000", {"HTTP_PROXY": P}, ""),
        ("http://localhost.test", {"HTTP_PROXY": P}, P),
        ("http://192.168.1.7", {"HTTP_PROXY": P}, P),
    ],
)
def test_the_variables_say_which_proxy(url: str, environ: dict[str, str], proxy: str) -> None:
    assert proxy_for(url, environ) == proxy


@pytest.mark.parametrize(
    ("url", "no_proxy", "is_excepted"),
    [
        ("http://a.test", "*", True),
        ("http://a.test", "", False),
        ("http://a.test", " b.test , A.Test ", True),
        ("http://x.a.test", ".a.test", True),
        ("http://a.test", ".a.test", True),
        ("http://x.a.test", "*.a.test", True),
        ("http://xa.test", "a.test", False),
        ("http://a.test", "a.test:80", True),
        ("https://a.test", "a.test:80", False),
        ("https://a.test:8443", "a.test:8443", True),
        ("http://10.1.2.3", "10.0.0.0/8", True),
        ("http://11.1.2.3", "10.0.0.0/8", False),
        ("http://10.1.2.3", "10.1.2.3", True),
        ("http://10.1.2.3:81", "10.1.2.3:80", False),
        ("http://10.1.2.3:81", "10.1.2.3:81", True),
        ("http://10.1.2.3", "3", False),
        ("http://10.1.2.3", "10.1.2.3:x", False),
        ("http://[2001:db8::7]", "2001:db8::/32", True),
        ("http://[2001:db8::7]:81", "[2001:db8::7]:81", True),
        ("http://[2001:db8::7]", "10.0.0.0/8", False),
    ],
)
def test_no_proxy_names_hosts_domains_ports_and_networks(
    url: str, no_proxy: str, is_excepted: bool
) -> None:
    found = proxy_for(url, {"http_proxy": P, "https_proxy": P, "no_proxy": no_proxy})
    assert found == ("" if is_excepted else P)


@given(host=LABELS, entries=st.lists(LABELS, max_size=4), dot=st.booleans())
def test_names_are_excepted_as_the_standard_library_does(
    host: str, entries: list[str], dot: bool
) -> None:
    """Another route: the function that urllib itself asks."""
    no_proxy = ",".join(("." if dot else "") + entry for entry in entries)
    expected = urllib.request.proxy_bypass_environment(  # type: ignore[attr-defined]
        host, {"no": no_proxy}
    )
    assert (proxy_for(f"http://{host}", {"http_proxy": P, "no_proxy": no_proxy}) == "") == expected


@pytest.mark.parametrize("proxy", ["socks5://h:1", "http:///x", "http://h:99999", "ftp://h"])
def test_a_variable_that_holds_no_proxy_is_named_and_not_shown(proxy: str) -> None:
    with pytest.raises(ConfigError, match="`HTTP_PROXY` must be http://") as caught:
        proxy_for("http://h.test", {"http_proxy": proxy})
    assert proxy not in str(caught.value)
