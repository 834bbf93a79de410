"""`florin` as a production installation runs it: without the sandbox and py-evm."""

from __future__ import annotations

import sys

from florin_server.cli import main

if __name__ == "__main__":
    # a fork inherits what was loaded before
    assert not {"florin_sandbox", "eth"} & sys.modules.keys()
    sys.modules["florin_sandbox"] = sys.modules["eth"] = None
    sys.argv[0] = "florin"
    main()
