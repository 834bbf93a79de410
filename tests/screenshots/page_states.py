"""The list of all states of pages."""

from __future__ import annotations

from tests.screenshots.checkout_page_states import CHECKOUT_STATES
from tests.screenshots.console_page_states import CONSOLE_STATES
from tests.screenshots.other_page_states import OTHER_STATES
from tests.screenshots.page_state import PageState
from tests.screenshots.wallet_page_states import WALLET_STATES

BUYER_STATES: tuple[PageState, ...] = (*CHECKOUT_STATES, *WALLET_STATES, *OTHER_STATES)
PAGE_STATES: tuple[PageState, ...] = (*BUYER_STATES, *CONSOLE_STATES)
