"""`pytest -p tests.alone`: each test as if there were no other one, in a process of its own.

What passes only because a test before it left something behind fails here, whatever the order. A
fork costs less than a new process: what tests import is imported once. Fixtures are made anew for
each test, those of modules and sessions too.
"""

from __future__ import annotations

import atexit
import os
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pytest
from _pytest.runner import runtestprotocol


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool:
    """Runs a test in a fork, and tells here what it told there."""
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _forked(item):
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _forked(item: pytest.Item) -> list[pytest.TestReport]:
    told, tell = Pipe(duplex=False)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _run(item, tell)
    tell.close()
    try:
        sent = told.recv()
    except EOFError:
        sent = None
    told.close()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status or sent is None:
        why = f"the test's process ended with {status}"
        return [pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")]
    restored = item.config.hook.pytest_report_from_serializable
    return [restored(config=item.config, data=one) for one in sent]


def _run(item: pytest.Item, tell: Connection) -> None:
    """The fork's part, which does not come back: what is open here is the parent's to close."""
    status = 1
    # what fixtures leave to the end of a process ends with this one, and nothing of the parent's
    atexit._clear()  # noqa: SLF001
    try:
        # no next one: all fixtures are torn down, as after the last test of a session
        reports = runtestprotocol(item, log=False, nextitem=None)
        stored = item.config.hook.pytest_report_to_serializable
        tell.send([stored(config=item.config, report=one) for one in reports])
        status = 0
        atexit._run_exitfuncs()  # noqa: SLF001
    finally:
        os._exit(status)
