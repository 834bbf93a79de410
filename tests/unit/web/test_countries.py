"""Test the list of countries, with its names in each language."""

from __future__ import annotations

import pytest
from florin_server.web.capture.countries import list_countries, render_country_options
from florin_server.web.language import LANGUAGES


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_country_has_a_name(language):
    countries = list_countries(language)
    # ISO 3166-1 and Kosovo
    assert len({code for code, _ in countries}) == len(countries) == 250
    assert {"DE", "TW", "AQ", "XK", "SS"} <= {code for code, _ in countries}
    assert not {"EU", "UN", "ZZ"} & {code for code, _ in countries}
    assert all(name and name != code for code, name in countries)


def test_only_a_valid_country_is_preselected():
    assert str(render_country_options("de", "AT")).count(" selected") == 1
    assert '<option value="AT" selected>Österreich</option>' in render_country_options("de", "AT")
    for none in ("", "ZZ", "at", '"', 'AT" onclick="'):
        assert "selected" not in render_country_options("de", none)
    # names are text: one of them contains an apostrophe
    assert "Côte d’Ivoire" in render_country_options(
        "en", ""
    ) or "Côte d&#39;Ivoire" in render_country_options("en", "")


def test_they_are_in_the_order_of_names():
    named = [name for _, name in list_countries("de")]
    assert named.index("Oman") < named.index("Österreich") < named.index("Pakistan")
    assert named[0] == "Afghanistan"
