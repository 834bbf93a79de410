// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PayForwarder} from "../src/PayForwarder.sol";
import {Addresses} from "./support/Addresses.sol";
import {cheats} from "./support/Cheats.sol";

/// @notice The gas of forwarded payments; the figures are stored, so that a change is noticed.
contract ForwarderGas is Addresses {
    uint256 private constant COUNT = 50;

    function setUp() public {
        _deploy();
        // receivers that already have a balance
        address[3] memory receivers = [MERCHANT, OPERATOR, HOME];
        for (uint256 i = 0; i < receivers.length; ++i) {
            dollar.mint(receivers[i], 1);
            euro.mint(receivers[i], 1);
            cheats.deal(receivers[i], 1);
        }
        for (uint256 i = 0; i < COUNT; ++i) {
            dollar.mint(forwarder.addressOf(_route(address(dollar), i)), VALUE);
            euro.mint(forwarder.addressOf(_route(address(euro), i)), VALUE);
            cheats.deal(forwarder.addressOf(_route(COIN, i)), VALUE);
        }
    }

    function test_forwardOneDollar() public {
        _forward(address(dollar), 1);
    }

    function test_forwardFiftyDollars() public {
        _forward(address(dollar), COUNT);
    }

    function test_forwardOneEuro() public {
        _forward(address(euro), 1);
    }

    function test_forwardFiftyEuros() public {
        _forward(address(euro), COUNT);
    }

    function test_forwardOneCoin() public {
        _forward(COIN, 1);
    }

    function test_forwardFiftyCoins() public {
        _forward(COIN, COUNT);
    }

    function test_sendOneHome() public {
        _sweep(1);
    }

    function test_sendFiftyHome() public {
        _sweep(COUNT);
    }

    function _forward(address token, uint256 count) private {
        PayForwarder.Forwarding[] memory items = new PayForwarder.Forwarding[](count);
        for (uint256 i = 0; i < count; ++i) {
            items[i] = PayForwarder.Forwarding(_route(token, i), address(0), "", 150_000);
        }
        uint256 mask = forwarder.forward(items);
        require(mask == (1 << count) - 1, "not forwarded");
    }

    function _sweep(uint256 count) private {
        cheats.warp(END);
        PayForwarder.Sweep[] memory items = new PayForwarder.Sweep[](count);
        address[] memory assets = _only(address(dollar));
        for (uint256 i = 0; i < count; ++i) {
            items[i] = PayForwarder.Sweep(_route(address(dollar), i), assets, 150_000);
        }
        uint256 mask = forwarder.sweep(items);
        require(mask == (1 << count) - 1, "not swept");
    }
}
