"""`pytest -p tests.alone`: run each test in its own process, as if no other test existed.

A test that passes only because of an earlier test's leftovers fails here, in any order. A fork
costs less than a new process, because imports are shared. Fixtures are created for each test,
including those of modules and sessions.
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
    """Run a test in a fork, and report its results here."""
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _forked(item):
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _forked(item: pytest.Item) -> list[pytest.TestReport]:
    connection, tell = Pipe(duplex=False)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _run(item, tell)
    tell.close()
    try:
        sent = connection.recv()
    except EOFError:
        sent = None
    connection.close()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status or sent is None:
        why = f"the test's process ended with {status}"
        return [pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")]
    restored = item.config.hook.pytest_report_from_serializable
    return [restored(config=item.config, data=each_item) for each_item in sent]


def _run(item: pytest.Item, tell: Connection) -> None:
    """Run the test in the fork, which never returns; the parent closes what is open here."""
    status = 1
    # exit handlers of this process run, but none of the parent's
    atexit._clear()  # noqa: SLF001
    try:
        # without a next test all fixtures are torn down, as after the last test of a session
        reports = runtestprotocol(item, log=False, nextitem=None)
        stored = item.config.hook.pytest_report_to_serializable
        tell.send([stored(config=item.config, report=test_report) for test_report in reports])
        status = 0
        atexit._run_exitfuncs()  # noqa: SLF001
    finally:
        os._exit(status)
