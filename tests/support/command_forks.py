"""`python -m tests.support.command_forks FD [MODULE ...]`: load Florin once, then run it in forks.

The modules are loaded too. Over the socket comes a JSON object for each command, with its stdout
and stderr, and a pipe that receives its process id and, at its end, its exit status. A command that
itself runs others in forks gets the other end of the socket too.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import socket
import sys
import traceback

from florin_server.cli import main

from tests.support.preload import load_all

MESSAGE = 1 << 20


def run_order(order: dict, pipes: list[int]) -> int:
    """Run the command in this process as if it were a fresh one; return its exit status."""
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


def run_in_fork(order: dict, pipes: list[int]) -> None:
    """Fork the command's process, and report on it until it has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        status = 70
        try:
            status = run_order(order, pipes)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
    out, err, result, *orders = pipes
    for number in (out, err, *orders):
        os.close(number)
    # a Ctrl-C is for the command
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.write(result, f"{child}\n".encode())
    os.write(result, f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n".encode())


def serve_orders(orders: socket.socket) -> None:
    """Run each command at once, until no client is connected."""
    # processes that have ended leave nothing
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, pipes, _, _ = socket.recv_fds(orders, MESSAGE, 4)
        if not message:
            return
        if os.fork() == 0:
            try:
                orders.close()
                run_in_fork(json.loads(message), pipes)
            finally:
                os._exit(0)
        for pipe in pipes:
            os.close(pipe)


if __name__ == "__main__":
    load_all()
    for name in sys.argv[2:]:
        importlib.import_module(name)
    serve_orders(socket.socket(fileno=int(sys.argv[1])))
