import pytest
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.versions import (
    NEWEST_STABLE_VERSION,
    PREVIEW_VERSIONS,
    PUBLISHED_VERSIONS,
    STABLE_VERSIONS,
    check_published,
    list_versions_up_to,
    resolve_version,
)

OLD, NEW = "2026-02-18", "2026-02-19.preview"


def _refusal(header, pin=OLD):
    with pytest.raises(ApiError) as caught:
        resolve_version(header, pin)
    return caught.value


def test_the_published_versions():
    assert (STABLE_VERSIONS, PREVIEW_VERSIONS, PUBLISHED_VERSIONS) == ((OLD,), (NEW,), (OLD, NEW))


def test_new_accounts_get_the_newest_stable_version():
    assert NEWEST_STABLE_VERSION == OLD


@pytest.mark.parametrize("pin", PUBLISHED_VERSIONS)
def test_without_a_header_the_pin_counts(pin):
    assert resolve_version(None, pin) == pin


@pytest.mark.parametrize(
    ("header", "pin"), [(OLD, OLD), (NEW, OLD), (NEW, NEW)], ids=["same", "newer", "preview"]
)
def test_a_published_version_from_the_pin_on_is_taken(header, pin):
    assert resolve_version(header, pin) == header


@pytest.mark.parametrize(
    "header",
    [
        "",
        " ",
        "latest",
        "2026-2-18",
        "20260218",
        "2026-02-18.beta",
        "2026-02-18.PREVIEW",
        "2026-02-30",
        "2026-13-01",
        "0000-01-01",
        "2026-02-18\n",
        " 2026-02-18",
        "2026-02-18,",
        "٢٠٢٦-02-18",
        "2026-02-30.preview",
    ],
)
def test_invalid_version_is_refused(header):
    assert _refusal(header).code is ErrorCode.INVALID_API_VERSION


@pytest.mark.parametrize(
    "header", ["2026-02-17", "2026-02-18.preview", "2026-02-19", "2027-01-01", "1999-12-31"]
)
@pytest.mark.parametrize("pin", PUBLISHED_VERSIONS)
def test_a_version_never_published_is_refused_before_it_is_compared(header, pin):
    error = _refusal(header, pin)
    assert error.code is ErrorCode.UNKNOWN_API_VERSION
    assert error.details == {"supported": "2026-02-18, 2026-02-19.preview"}


def test_a_version_older_than_the_pin_is_refused():
    error = _refusal(OLD, NEW)
    assert error.code is ErrorCode.API_VERSION_DOWNGRADE
    assert error.message == "Version is older than the account's pin"
    assert error.details == {"pinned": NEW}


def test_preview_is_older_than_the_stable_version_of_its_date(monkeypatch):
    monkeypatch.setattr(
        "florin_server.domain.versions.PUBLISHED_VERSIONS", ("2026-02-19.preview", "2026-02-19")
    )
    assert resolve_version("2026-02-19", NEW) == "2026-02-19"
    assert _refusal(NEW, "2026-02-19").code is ErrorCode.API_VERSION_DOWNGRADE


def test_a_pin_moves_to_its_own_version_and_to_newer_ones():
    assert list_versions_up_to(OLD) == [OLD]
    assert list_versions_up_to(NEW) == [OLD, NEW]


def test_a_preview_moves_to_the_stable_version_of_its_date_and_not_back(monkeypatch):
    monkeypatch.setattr("florin_server.domain.versions.PUBLISHED_VERSIONS", ("2026-02-19", NEW))
    assert list_versions_up_to("2026-02-19") == ["2026-02-19", NEW]
    assert list_versions_up_to(NEW) == [NEW]


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("latest", ErrorCode.INVALID_API_VERSION),
        ("2026-02-30", ErrorCode.INVALID_API_VERSION),
        ("2026-02-19", ErrorCode.UNKNOWN_API_VERSION),
    ],
)
@pytest.mark.parametrize("check_version", [list_versions_up_to, check_published])
def test_pin_to_an_unpublished_version_is_refused(version, code, check_version):
    with pytest.raises(ApiError) as caught:
        check_version(version)
    assert caught.value.code is code


def test_published_version_is_accepted():
    for version in PUBLISHED_VERSIONS:
        check_published(version)
