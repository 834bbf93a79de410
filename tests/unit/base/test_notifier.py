"""Test which subscribers a notification reaches, and what other processes receive."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from florin_server.base.clock import TestClock
from florin_server.base.feed import FeedClosed, PaymentFeed
from florin_server.base.notifier import Notifier
from florin_server.base.process_bus import ProcessBus
from florin_server.base.topics import Topic

from tests.support.store_factories import make_payment

OWN = "0123456789abcdef"
CHAIN, OTHER_CHAIN = "eip155:1", "eip155:137"
PAYMENT = make_payment()


async def read(payment_id):
    return PAYMENT if payment_id == PAYMENT.id else None


async def read_newer(_seen):
    return []


def build_notifier(record_change=lambda _payment: None) -> Notifier:
    return Notifier(PaymentFeed(read, read_newer, TestClock(0)), ProcessBus(OWN), record_change)


class Subscriber:
    """A subscriber that counts its notifications."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def subscribe_three(notifier: Notifier) -> list[Subscriber]:
    """Subscribe to a chain, to another one, and to all of them."""
    subscribers = [Subscriber() for _ in range(3)]
    for subscriber, key in zip(subscribers, (CHAIN, OTHER_CHAIN, ""), strict=True):
        notifier.subscribe(Topic.SETTLEMENT, subscriber, key)
    return subscribers


@pytest.mark.parametrize(
    ("key", "expected"), [(CHAIN, [1, 0, 1]), ("eip155:10", [0, 0, 1]), ("", [0, 0, 1])]
)
def test_notification_reaches_subscribers_of_its_key_and_of_all_keys(key, expected):
    notifier = build_notifier()
    subscribers = subscribe_three(notifier)
    notifier.notify(Topic.SETTLEMENT, key)
    notifier.notify(Topic.RECEIVERS, key)
    assert [subscriber.count for subscriber in subscribers] == expected


def test_notify_all_reaches_every_subscriber_of_the_topic_once():
    notifier = build_notifier()
    subscribers = subscribe_three(notifier)
    notifier.notify_all(Topic.SETTLEMENT)
    notifier.notify_all(Topic.PAYOUTS_DUE)
    assert [subscriber.count for subscriber in subscribers] == [1, 1, 1]


def test_ended_subscription_is_not_notified_and_its_key_is_forgotten():
    notifier, subscriber, event = build_notifier(), Subscriber(), asyncio.Event()
    unsubscribe = notifier.subscribe(Topic.PAYOUT, subscriber, "pout_1")
    end_event = notifier.subscribe(Topic.PAYOUT, event, "pout_1")
    unsubscribe()
    unsubscribe()
    notifier.notify(Topic.PAYOUT, "pout_1")
    assert (subscriber.count, event.is_set()) == (0, True)
    assert notifier.list_keys(Topic.PAYOUT) == ["pout_1"]
    end_event()
    # a later subscription to the key is another one
    notifier.subscribe(Topic.PAYOUT, subscriber, "pout_1")
    end_event()
    notifier.notify(Topic.PAYOUT, "pout_1")
    assert subscriber.count == 1


def test_only_subscribed_keys_pass_the_filter():
    notifier = build_notifier()
    keys = {CHAIN, "eip155:10"}
    assert notifier.filter_keys(Topic.SETTLEMENT, keys) == set()
    subscribe_three(notifier)
    assert notifier.filter_keys(Topic.SETTLEMENT, keys) == {CHAIN, ""}
    assert notifier.list_keys(Topic.SETTLEMENT) == [CHAIN, OTHER_CHAIN]


async def test_published_change_reaches_this_process_at_once_and_is_queued_for_others():
    notifier, event = build_notifier(), asyncio.Event()
    notifier.subscribe(Topic.SETTLEMENT, event, CHAIN)
    notifier.publish(Topic.SETTLEMENT, CHAIN)
    assert event.is_set()
    assert await notifier.bus.next_message() == (f"1 {OWN} s:{CHAIN}", 1)


async def test_published_payment_reaches_watchers_subscribers_records_and_others():
    recorded, event = [], asyncio.Event()
    notifier = build_notifier(recorded.append)
    notifier.subscribe(Topic.PAYMENT, event)
    states = notifier.payments.watch(PAYMENT.id)
    assert await anext(states) == PAYMENT
    changed = replace(PAYMENT, version=PAYMENT.version + 1)
    assert notifier.publish_payment(changed) is changed
    assert await anext(states) == changed
    assert (recorded, event.is_set()) == ([changed], True)
    message = f"1 {OWN} p:{changed.version}:{changed.id}"
    assert await notifier.bus.next_message() == (message, 1)
    await states.aclose()


async def test_close_ends_the_streams_of_payments_and_payouts():
    notifier = build_notifier()

    async def read_payout() -> str:
        return "waiting"

    streams = (
        notifier.payments.watch(PAYMENT.id),
        notifier.payouts.follow("pout_1", read_payout, lambda _: False),
    )
    for stream in streams:
        await anext(stream)
    notifier.close()
    for stream in streams:
        with pytest.raises(FeedClosed):
            await anext(stream)
    assert (notifier.payments.watcher_count, notifier.payouts.follower_count) == (0, 0)
