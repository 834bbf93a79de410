"""A strict parser of the journals that Florin writes for hledger and Beancount.

It knows the syntax in `docs/books.md` alone, and refuses every other line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

_ACCOUNT = r"(?:Assets|Liabilities|Equity|Income|Expenses)(?::[A-Z0-9][A-Za-z0-9-]*)+"
_COMMODITY = r"[A-Z][A-Z0-9.]{0,22}[A-Z0-9]"
_AMOUNT = r"-?[0-9]+(?:\.[0-9]+)?"
_STRING = r'"(?:[^"\\\n]|\\["\\])*"'
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_BEANCOUNT = {
    "commodity": re.compile(rf"({_DAY}) commodity ({_COMMODITY})"),
    "open": re.compile(rf"({_DAY}) open ({_ACCOUNT})"),
    "entry": re.compile(rf"({_DAY}) \* ({_STRING}) ({_STRING})"),
    "fact": re.compile(rf"  [a-z]+: {_STRING}"),
    "posting": re.compile(rf"  ({_ACCOUNT})  ({_AMOUNT}) ({_COMMODITY})"),
}
_HLEDGER = {
    "commodity": re.compile(rf'()commodity 1\.0* "({_COMMODITY})"'),
    "open": re.compile(rf"()account ({_ACCOUNT})"),
    "entry": re.compile(rf"({_DAY}) \* ([a-z_]+)((?: \| [A-Za-z0-9_]+)?)"),
    "fact": re.compile(r"    ; [^\n]+"),
    "posting": re.compile(rf'    ({_ACCOUNT})  ({_AMOUNT}) "({_COMMODITY})"'),
    "ignored": re.compile(r"decimal-mark \."),
}


@dataclass
class ParsedEntry:
    day: str
    type: str
    facts: list[str] = field(default_factory=list)
    postings: list[tuple[str, Fraction, str]] = field(default_factory=list)


@dataclass
class ParsedJournal:
    """The entries of a journal; every account and commodity was declared before its use."""

    commodities: dict[str, str] = field(default_factory=dict)
    accounts: dict[str, str] = field(default_factory=dict)
    entries: list[ParsedEntry] = field(default_factory=list)

    def sum_accounts(self) -> Counter[tuple[str, str]]:
        """Return the balance of each account in each commodity."""
        totals: Counter[tuple[str, str]] = Counter()
        for entry in self.entries:
            for account, amount, commodity in entry.postings:
                totals[account, commodity] += amount  # type: ignore[assignment]
        return totals


def parse_journal(lines: Iterable[str], program: str) -> ParsedJournal:
    """Parse a journal; AssertionError for a line or an entry that is not valid."""
    rules = _HLEDGER if program == "hledger" else _BEANCOUNT
    journal, in_entry = ParsedJournal(), False
    for line in lines:
        assert "\n" not in line, line
        if not line or line.startswith(";"):
            continue
        name, match = next(
            (
                (name, match)
                for name, rule in rules.items()
                if (match := rule.fullmatch(line)) is not None
            ),
            ("", None),
        )
        assert match is not None, line
        # facts of a commodity follow it
        in_entry = name in {"entry", "fact", "posting"} and (in_entry or name == "entry")
        if name == "commodity":
            assert match[2] not in journal.commodities, line
            journal.commodities[match[2]] = match[1]
        elif name == "open":
            assert match[2] not in journal.accounts, line
            journal.accounts[match[2]] = match[1]
        elif name == "entry":
            journal.entries.append(ParsedEntry(match[1], match[2].strip('"')))
        elif name == "fact" and in_entry:
            journal.entries[-1].facts.append(line.strip())
        elif name == "posting":
            account, amount, commodity = match.groups()
            entry = journal.entries[-1]
            assert journal.accounts[account] <= entry.day
            assert journal.commodities[commodity] <= entry.day
            entry.postings.append((account, Fraction(amount), commodity))
    for entry in journal.entries:
        totals: Counter[str] = Counter()
        for _, amount, commodity in entry.postings:
            totals[commodity] += amount  # type: ignore[assignment]
        assert len(entry.postings) > 1, entry
        assert not any(totals.values()), entry
    return journal
