"""`python -m tests.support.forks`: loads Florin once, then runs each command in a fork of its own.

A line of JSON tells what to run; a line of JSON tells how it ended.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

import eth_account
from florin_server.boot import offline
from florin_server.cli import main
from florin_server.cli.accounts import keys
from florin_server.cli.chains import add, listing, remove
from florin_server.cli.service import doctor, gateway, up

LOADED = (add, listing, remove, doctor, eth_account, gateway, keys, offline, up)


def run(order: dict) -> int:
    """The command, in a fork that looks like a fresh process; its exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 70
    try:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["env"])
        sys.argv = ["florin", *order["command"]]
        main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001  (as the interpreter itself would)
        traceback.print_exc()
        status = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
