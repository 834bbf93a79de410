"""`python -m tests.support.forks FD`: loads Florin once, then runs commands in forks of its own.

Over the socket comes a JSON object for each command, with what becomes its stdout and stderr, and
a pipe that is told its process id and, when it has ended, its exit status. A command that itself
runs others in forks gets the other end of the socket too.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import sys
import traceback
from contextlib import suppress

from florin_server.cli import main

from tests.support.loaded import load

MESSAGE = 1 << 20


def run(order: dict, pipes: list[int]) -> int:
    """The command in this process, which then looks like a fresh one; its exit status."""
    out, err, _, *orders = pipes
    try:
        opened = (os.open(os.devnull, os.O_RDONLY), out, err, *orders)
        for number, source in enumerate(opened):
            os.dup2(source, number)
        os.closerange(len(opened), os.sysconf("SC_OPEN_MAX"))
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["env"])
        if order["session"]:
            os.setsid()
        sys.argv = order["command"]
        if order["module"]:
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001  (as the interpreter itself would)
        traceback.print_exc()
        return 1
    return 0


def attend(order: dict, pipes: list[int]) -> None:
    """Forks the command's process, and tells of it until it has ended."""
    child = os.fork()
    if child == 0:
        status = 70
        try:
            status = run(order, pipes)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
    out, err, told, *orders = pipes
    for one in (out, err, *orders):
        os.close(one)
    # a Ctrl-C is for the command
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.write(told, f"{child}\n".encode())
    os.write(told, f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n".encode())


def serve(orders: socket.socket) -> None:
    """Runs what is ordered, each at once, until nobody can order any more."""
    while True:
        message, pipes, _, _ = socket.recv_fds(orders, MESSAGE, 4)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not message:
            return
        if os.fork() == 0:
            try:
                orders.close()
                attend(json.loads(message), pipes)
            finally:
                os._exit(0)
        for pipe in pipes:
            os.close(pipe)


if __name__ == "__main__":
    load()
    serve(socket.socket(fileno=int(sys.argv[1])))
