"""Files of screening lists in the public forms, with made-up addresses."""

from __future__ import annotations

from collections.abc import Sequence

NAMESPACE = "https://lists.example/ADVANCED_XML"


def make_feature(number: int, kind: int, detail: str) -> str:
    return f"""
        <Feature ID="{number}" FeatureTypeID="{kind}">
          <FeatureVersion ID="{number}1" ReliabilityID="1560">
            <Comment />
            <VersionDetail DetailTypeID="1432">{detail}</VersionDetail>
          </FeatureVersion>
          <IdentityReference IdentityID="7" IdentityFeatureLinkTypeID="1" />
        </Feature>"""


def make_sdn_list(
    *listed: tuple[str, str], day: str = "2027-01-14", kinds: Sequence[str] = ("ETH", "XBT", "SOL")
) -> str:
    """Return the SDN list in its advanced form, with (ticker, address) as its only parties."""
    year, month, date = map(int, day.split("-"))
    number = {ticker: 344 + index for index, ticker in enumerate(kinds)}
    declared = "".join(
        f'\n      <FeatureType ID="{number[kind]}" FeatureTypeGroupID="1">'
        f"Digital Currency Address - {kind}</FeatureType>"
        for kind in kinds
    )
    features = "".join(
        make_feature(36_000 + index, number[ticker], address)
        for index, (ticker, address) in enumerate(listed)
    )
    return f"""<?xml version="1.0" encoding="utf-8"?>
<Sanctions xmlns="{NAMESPACE}" Version="1">
  <DateOfIssue CalendarTypeID="1">
    <Year>{year}</Year><Month>{month}</Month><Day>{date}</Day>
  </DateOfIssue>
  <ReferenceValueSets>
    <FeatureTypeValues>
      <FeatureType ID="8" FeatureTypeGroupID="1">Birthdate</FeatureType>{declared}
    </FeatureTypeValues>
  </ReferenceValueSets>
  <DistinctParties>
    <DistinctParty FixedRef="7">
      <Comment />
      <Profile ID="7" PartySubTypeID="4">
        <Feature ID="1" FeatureTypeID="8">
          <FeatureVersion ID="11" ReliabilityID="1560">
            <DatePeriod CalendarTypeID="1"><Start><From><Year>1970</Year><Month>1</Month>
              <Day>1</Day></From></Start></DatePeriod>
            <VersionDetail DetailTypeID="1431">0x{"99" * 20}</VersionDetail>
          </FeatureVersion>
        </Feature>{features}
      </Profile>
    </DistinctParty>
  </DistinctParties>
</Sanctions>
"""
