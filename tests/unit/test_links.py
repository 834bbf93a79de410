from urllib.parse import quote

import pytest
from florin_server.domain.ids import is_payment_id_shape
from florin_server.domain.payments.links import CheckoutLinks, resolve_payment_id
from florin_server.domain.payments.return_links import (
    ReturnLink,
    ReturnPolicy,
    find_return_link,
    is_return_target,
)
from florin_server.settings.checkout import CheckoutSettings
from hypothesis import given
from hypothesis import strategies as st

ID = "pay_0WmC3xYz9abcDEF"
HOSTS = ("pay.example", "localhost", "127.0.0.1", "::1")
OUR_LINKS = [
    f"https://pay.example/{ID}",
    f"https://pay.example/{ID}/",
    f"https://pay.example/p/{ID}?lang=en#top",
    f"https://PAY.example:8443/{ID}",
    f"https://eu.pay.example/{ID}",
    f"https://pay.example/?pid={ID}",
    f"https://pay.example/buy?x=1&pid={ID}&y=%20",
    f"https://pay.example/pay_other?pid={ID}",
    f"https://pay.example/{ID}?pid=",
    f"HTTPS://pay.example/{ID}",
    f"http://localhost:8080/{ID}",
    f"http://127.0.0.1:8080/{ID}",
    f"http://[::1]:8080/{ID}",
    f"https://localhost/{ID}",
]
OTHER_LINKS = [
    f"https://evil.example/{ID}",
    f"https://evil.example/?pid={ID}",
    f"https://pay.example.evil/{ID}",
    f"https://notpay.example/{ID}",
    f"https://.pay.example.evil/{ID}",
    f"https://evil.example/pay.example/{ID}",
    f"https://evil.example?x=https://pay.example/{ID}",
    f"https://evil.example#@pay.example/{ID}",
    f"https://user@pay.example/{ID}",
    f"https://user:word@pay.example/{ID}",
    f"https://pay.example@evil.example/{ID}",
    f"https://@pay.example/{ID}",
    f"https://evil.example\\.pay.example/{ID}",
    f"https://evil.example\\@pay.example/{ID}",
    f"https://pay.example\t/{ID}",
    f" https://pay.example/{ID}",
    f"https://pay.example:port/{ID}",
    f"https://pay.example:99999/{ID}",
    f"https://päy.pay.example/{ID}",
    f"https:///{ID}",
    f"https:{ID}",
    f"https://[::1/{ID}",
    f"http://pay.example/{ID}",
    f"http://10.0.0.1/{ID}",
    f"ftp://pay.example/{ID}",
    f"javascript:https://pay.example/{ID}",
    "https://pay.example/",
    "https://pay.example/receipt",
    "https://pay.example/?pid=receipt",
    f"https://pay.example/{ID}?pid=receipt",
]


def _encoded(text, times):
    for _ in range(times):
        text = quote(text, safe="")
    return text


def test_bare_payment_id_resolves_unchanged():
    assert resolve_payment_id(ID, HOSTS) == ID


def test_a_bare_id_needs_no_pay_host():
    assert resolve_payment_id(ID, ()) == ID


@pytest.mark.parametrize("times", [0, 1, 2])
@pytest.mark.parametrize("link", OUR_LINKS)
def test_a_link_of_ours_leads_to_its_payment(link, times):
    assert resolve_payment_id(_encoded(link, times), HOSTS) == ID


@pytest.mark.parametrize("times", [0, 1, 2, 3])
@pytest.mark.parametrize("link", OTHER_LINKS)
def test_any_other_link_stays_as_received(link, times):
    text = _encoded(link, times)
    assert resolve_payment_id(text, HOSTS) == text
    assert not is_payment_id_shape(text)


@pytest.mark.parametrize("times", [0, 1, 2])
@pytest.mark.parametrize("link", OUR_LINKS)
def test_a_pairing_uri_leads_to_the_payment_of_its_link(link, times):
    uri = f"wc:7f6e504bf8c21d80@2?symKey=58&pay={_encoded(link, 1)}&relay-protocol=irn"
    assert resolve_payment_id(_encoded(uri, times), HOSTS) == ID


@pytest.mark.parametrize(
    "uri",
    [
        "wc:7f6e@2?symKey=58",
        "wc:7f6e@2",
        f"wc:7f6e@2?pay={ID}",
        f"wc:7f6e@2?pay=https%3A%2F%2Fevil.example%2F{ID}",
        f"wc:7f6e@2?pay=wc%3A7f6e%402%3Fpay%3Dhttps%253A%252F%252Fpay.example%252F{ID}",
    ],
)
def test_a_pairing_uri_without_a_link_of_ours_stays_as_received(uri):
    assert resolve_payment_id(uri, HOSTS) == uri


@pytest.mark.parametrize("text", [f"{ID}/", f"p/{ID}", f"/{ID}", f"p/q/{ID}//", f"p%2F{ID}"])
def test_of_a_path_the_last_segment_counts(text):
    assert resolve_payment_id(text, HOSTS) == ID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "abc",
        "p/abc",
        f"{ID}/status",
        f"//evil.example/{ID}",
        f"p?x/{ID}",
        f"a b/{ID}",
        f"https%3A%2F%2Fevil.example/{ID}",
        f"https%2525253A//evil.example/{ID}",
        "%",
        "%ff%fe",
    ],
)
def test_invalid_link_stays_as_received(text):
    assert resolve_payment_id(text, HOSTS) == text


def test_a_text_is_decoded_twice_and_no_more():
    link = OUR_LINKS[0]
    thrice = _encoded(link, 3)
    assert resolve_payment_id(thrice, HOSTS) == thrice


def test_earlier_decodings_count_toward_the_limit():
    twice = _encoded(OUR_LINKS[0], 2)
    assert resolve_payment_id(twice, HOSTS, decodings=1) == twice


def test_a_text_beyond_the_limit_is_not_read():
    longest = f"https://pay.example/{'p/' * 1020}"[: 2048 - len(ID) - 1] + "/" + ID
    assert len(longest) == 2048
    assert resolve_payment_id(longest, HOSTS) == ID
    longer = longest.replace("/p/", "/pp/", 1)
    assert resolve_payment_id(longer, HOSTS) == longer


def test_empty_pay_host_trusts_no_link():
    for link in (f"https://evil.example./{ID}", f"https:///{ID}"):
        assert resolve_payment_id(link, ("",)) == link


@given(st.text(alphabet="https:/.%25pay_x@?=#\\wc[]0 é", max_size=60))
def test_no_text_breaks_the_reading(text):
    result = resolve_payment_id(text, HOSTS)
    assert result == text or is_payment_id_shape(result)


def test_a_link_that_we_make_leads_back():
    link = CheckoutLinks("https://pay.example", frozenset()).get_url(ID)
    assert link == f"https://pay.example/{ID}"
    assert resolve_payment_id(link, HOSTS) == ID


def test_a_pairing_uri_may_leave_its_link_as_it_is():
    link = f"https://pay.example/?pid={ID}"
    assert resolve_payment_id(f"wc:7f6e@2?pay={link}", HOSTS) == ID


def test_behind_the_hash_of_a_pairing_uri_nothing_counts():
    uri = f"wc:7f6e@2?symKey=58#&pay=https://pay.example/{ID}"
    assert resolve_payment_id(uri, HOSTS) == uri


@pytest.mark.parametrize("host", ["shop.localhost", "localhost", "127.0.0.9", "[::1]"])
def test_this_machine_needs_no_encryption(host):
    hosts = ("localhost", "127.0.0.9", "::1")
    assert resolve_payment_id(f"http://{host}:8080/{ID}", hosts) == ID


def test_a_host_that_only_ends_alike_is_not_this_machine():
    link = f"http://evillocalhost/{ID}"
    assert resolve_payment_id(link, ("evillocalhost",)) == link


# returnUrl

APPS = ReturnPolicy(schemes=("metamask",), own_urls=("https://shop.example:443/thanks?a=b",))


@pytest.mark.parametrize(
    ("url", "href", "needs_tap"),
    [
        ("https://shop.example", f"https://shop.example?payment_id={ID}", False),
        ("https://shop.example/x?a=b#c", f"https://shop.example/x?a=b&payment_id={ID}#c", False),
        ("HTTPS://SHOP.example/", f"HTTPS://SHOP.example/?payment_id={ID}", False),
        # anyone can make such a link: no page opens it without a tap
        ("https://evil.example/", f"https://evil.example/?payment_id={ID}", True),
        ("https://shop.example.evil/", f"https://shop.example.evil/?payment_id={ID}", True),
        ("https://shop.example:444/", f"https://shop.example:444/?payment_id={ID}", True),
        ("com.shop.app://done", f"com.shop.app://done?payment_id={ID}", True),
        ("COM.shop.App:/done#x", f"COM.shop.App:/done?payment_id={ID}#x", True),
        ("metamask://", f"metamask://?payment_id={ID}", True),
    ],
)
def test_return_url_leads_back_with_the_payment_id(url, href, needs_tap):
    assert find_return_link(url, ID, APPS) == ReturnLink(href, needs_tap)


DANGEROUS = [
    *("javascript:alert(1)", "JavaScript:alert(1)", "java\tscript:alert(1)", " javascript:x"),
    *("javascript://shop.example/%0aalert(1)", "vbscript:x", "data:text/html,<script>", "data:,x"),
    *("file:///etc/passwd", "blob:https://shop.example/1", "filesystem:https://shop.example/x"),
    *("intent://x#Intent;scheme=https;end", "android-app://com.shop.app", "about:blank"),
    *("view-source:https://shop.example", "content://x", "jar:https://shop.example!/x"),
    *("http://shop.example/", "ws://shop.example", "ftp://shop.example/", "mailto:a@shop.example"),
    *("tel:1", "sms:1", "//evil.example", "/\\evil.example", "evil.example", "", "https:", ":x"),
    *("https://user@shop.example/", "https://shop.example\\@evil.example", "https://", "https:/x"),
    *("https://shop.example/\n", "https://shop.exämple/", "com.shop.app://\u202ex", "a.b:<x>"),
    *("unknown://x", "trust", "com.shop.app", 'com.shop.app://"x', "com.shop.app:// x", "1.a://x"),
    "https://shop.example/" + "x" * 2048,
    "com.shop.app://" + "x" * 2048,
    "a." + "b" * 100 + "://x",
]


@pytest.mark.parametrize("url", DANGEROUS)
def test_dangerous_or_unknown_return_url_is_dropped(url):
    assert find_return_link(url, ID, APPS) is None


@pytest.mark.parametrize("url", DANGEROUS)
def test_no_setting_allows_a_dangerous_scheme(url):
    scheme, colon, _ = url.partition(":")
    # of these the scheme is not the danger
    if not colon or scheme.lower() in {"unknown", "com.shop.app", "a.b"}:
        scheme = "javascript"
    assert find_return_link(url, ID, ReturnPolicy(targets=(scheme.lower(),))) is None
    with pytest.raises(ValueError, match="scheme of an app"):
        CheckoutSettings(return_schemes=(scheme,))


def test_merchant_can_limit_the_ways_back():
    policy = ReturnPolicy(("metamask",), ("https://shop.example", "com.shop.app"))
    assert find_return_link("https://shop.example/a", ID, policy).needs_tap is False
    assert find_return_link("com.shop.app://a", ID, policy).needs_tap is True
    for url in ("https://other.example/", "com.other.app://a", "metamask://a"):
        assert find_return_link(url, ID, policy) is None
    assert find_return_link("https://shop.example/", ID, ReturnPolicy(targets=())) is None


@pytest.mark.parametrize("target", ["com.shop.app", "shop", "https://shop.example:8443"])
def test_target_is_an_app_scheme_or_an_origin(target):
    assert is_return_target(target)
    assert CheckoutSettings(return_targets={"mrch_1": (target,)})


@pytest.mark.parametrize(
    "target", ["https://shop.example/", "http://shop.example", "data", "https", "Shop", "a:b", ""]
)
def test_other_target_is_refused(target):
    assert not is_return_target(target)
    with pytest.raises(ValueError, match="neither the URL scheme"):
        CheckoutSettings(return_targets={"mrch_1": (target,)})


@given(st.text(max_size=60))
def test_return_link_is_https_or_of_an_allowed_app(text):
    link = find_return_link(text, ID, APPS)
    if link is not None:
        scheme = link.href.partition(":")[0].lower()
        assert scheme in {"https", "metamask"} or "." in scheme
        assert link.href.isascii()
