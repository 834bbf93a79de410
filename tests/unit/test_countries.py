"""Countries to choose from, as each language names them."""

from __future__ import annotations

import pytest
from florin_server.web.capture.countries import countries, options
from florin_server.web.language import LANGUAGES


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_country_has_a_name(language):
    found = countries(language)
    # ISO 3166-1, and Kosovo
    assert len({code for code, _ in found}) == len(found) == 250
    assert {"DE", "TW", "AQ", "XK", "SS"} <= {code for code, _ in found}
    assert not {"EU", "UN", "ZZ"} & {code for code, _ in found}
    assert all(name and name != code for code, name in found)


def test_one_is_chosen_or_none():
    assert str(options("de", "AT")).count(" selected") == 1
    assert '<option value="AT" selected>Österreich</option>' in options("de", "AT")
    for none in ("", "ZZ", "at", '"', 'AT" onclick="'):
        assert "selected" not in options("de", none)
    # names are text: one of them has an apostrophe
    assert "Côte d’Ivoire" in options("en", "") or "Côte d&#39;Ivoire" in options("en", "")


def test_they_are_in_the_order_of_names():
    named = [name for _, name in countries("de")]
    assert named.index("Oman") < named.index("Österreich") < named.index("Pakistan")
    assert named[0] == "Afghanistan"
