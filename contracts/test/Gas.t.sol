// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PaySettler} from "../src/PaySettler.sol";
import {cheats} from "./support/Cheats.sol";
import {Routes} from "./support/Routes.sol";

/// @notice The gas of payments; the figures are stored, so that a change is noticed.
contract Gas is Routes {
    uint256 private constant KEY = 0xB0B0;
    address private buyer;

    function setUp() public {
        _deploy();
        buyer = cheats.addr(KEY);
        _fill(buyer);
        // receivers that already have a balance of the tokens
        dollar.mint(MERCHANT, 1);
        dollar.mint(OPERATOR, 1);
        euro.mint(MERCHANT, 1);
        euro.mint(OPERATOR, 1);
    }

    function test_oneBy3009() public {
        settler.settle3009(_signedBatch(PaySettler.Kind.Eip3009, address(dollar), 1));
    }

    function test_fiftyBy3009() public {
        settler.settle3009(_signedBatch(PaySettler.Kind.Eip3009, address(dollar), 50));
    }

    function test_oneByPermit2() public {
        settler.settlePermit2(_signedBatch(PaySettler.Kind.Permit2, address(euro), 1));
    }

    function test_fiftyByPermit2() public {
        settler.settlePermit2(_signedBatch(PaySettler.Kind.Permit2, address(euro), 50));
    }

    function test_coinDirectly() public {
        PaySettler.Pay memory p = _pay(address(0), 1);
        cheats.prank(buyer);
        settler.pay{value: p.value}(p);
    }

    function test_tokenDirectly() public {
        PaySettler.Pay memory p = _pay(address(dollar), 1);
        cheats.prank(buyer);
        settler.pay(p);
    }

    function _signedBatch(PaySettler.Kind kind, address token, uint256 count)
        private
        view
        returns (PaySettler.Pay[] memory payments)
    {
        payments = new PaySettler.Pay[](count);
        for (uint256 i = 0; i < count; ++i) {
            payments[i] = _pay(token, i);
            payments[i].sig = _signed(kind, payments[i], KEY);
        }
    }

    function _pay(address token, uint256 number) private view returns (PaySettler.Pay memory) {
        return PaySettler.Pay({
            token: token,
            from: buyer,
            value: 1_000_000,
            validAfter: 0,
            validBefore: block.timestamp + 900,
            dest: MERCHANT,
            feeTo: OPERATOR,
            fee: 10_000,
            ref: bytes32(number + 1),
            gas: 150_000,
            sig: ""
        });
    }
}
