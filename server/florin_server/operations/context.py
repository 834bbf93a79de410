"""Parts of the application for workers and their observers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from florin_server.domain.conditions import ConditionName
from florin_server.domain.health import ConditionTracker
from florin_server.operations.process import (
    EventSinkHealth,
    PartitionHealth,
    ProcessName,
    StoreHealth,
    WorkerFailures,
)
from florin_server.operations.roles import KeySender, LeasedWorker
from florin_server.operations.service.quarantine import Quarantine
from florin_server.operations.service.sign_in_failures import SignInFailures


class QuarantineContext(Protocol):
    """Quarantined items."""

    @property
    def quarantine(self) -> Quarantine:
        """Return the items that workers leave out."""


class OperationsContext(Protocol):
    """The state of the process and of the installation."""

    @property
    def conditions(self) -> ConditionTracker:
        """Return the conditions that are found on request."""

    @property
    def process_name(self) -> ProcessName:
        """Return the name under which the process reports."""

    @property
    def store_health(self) -> StoreHealth:
        """Return how the process reaches its store."""

    @property
    def partition_health(self) -> PartitionHealth:
        """Return what is wrong with the partitions of payments."""

    @property
    def event_sink_health(self) -> EventSinkHealth:
        """Return how the process publishes events to the sink."""

    @property
    def worker_failures(self) -> WorkerFailures:
        """Return the workers that failed unexpectedly."""

    @property
    def check_exposure(self) -> Callable[[], Mapping[ConditionName, str]]:
        """Return what finds the faults of the public view."""


class SignInContext(Protocol):
    """Failed sign-ins."""

    @property
    def sign_in_failures(self) -> SignInFailures:
        """Return the failures that are not recorded yet."""


class WorkerContext(Protocol):
    """The workers of this process."""

    @property
    def settlers(self) -> Mapping[str, LeasedWorker]:
        """Return the settlers of this process, by CAIP-2."""

    @property
    def payout_workers(self) -> Mapping[str, LeasedWorker]:
        """Return the payout workers of this process, by CAIP-2."""

    @property
    def executors(self) -> Mapping[str, KeySender]:
        """Return the senders of this process, by CAIP-10."""
