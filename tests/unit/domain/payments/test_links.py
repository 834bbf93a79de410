from urllib.parse import quote

import pytest
from florin_server.domain.ids import is_payment_id_shape
from florin_server.domain.payments.links import CheckoutLinks, resolve_payment_id
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
