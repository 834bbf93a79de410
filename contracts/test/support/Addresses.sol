// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PayForwarder} from "../../src/PayForwarder.sol";
import {TestDollar} from "../../sandbox/TestDollar.sol";
import {TestEuro} from "../../sandbox/TestEuro.sol";
import {cheats} from "./Cheats.sol";

/// @notice A forwarder and test tokens on a fresh chain, and routes of payments.
contract Addresses {
    uint256 internal constant START = 1_000_000_000;
    uint256 internal constant END = START + 900;
    uint256 internal constant VALUE = 1_000_000;
    uint256 internal constant FEE = 10_000;
    uint256 internal constant SHARE = VALUE - FEE;
    uint256 internal constant ITEM_GAS = 400_000;
    address internal constant MERCHANT = address(0x3e4c4a47);
    address internal constant OPERATOR = address(0x07e4a704);
    address internal constant HOME = address(0x403e);
    address internal constant COIN = address(0);

    PayForwarder internal forwarder;
    TestDollar internal dollar;
    TestEuro internal euro;

    function _deploy() internal {
        cheats.warp(START);
        forwarder = new PayForwarder();
        dollar = new TestDollar(address(this));
        euro = new TestEuro(address(this));
    }

    function _route(address token) internal view returns (PayForwarder.Route memory) {
        return _route(token, 7);
    }

    function _route(address token, uint256 number)
        internal
        view
        returns (PayForwarder.Route memory)
    {
        return PayForwarder.Route({
            chainId: block.chainid,
            token: token,
            value: VALUE,
            validBefore: END,
            dest: MERCHANT,
            feeTo: OPERATOR,
            fee: FEE,
            ref: bytes32(number),
            home: HOME
        });
    }

    function _item(PayForwarder.Route memory r)
        internal
        pure
        returns (PayForwarder.Forwarding memory)
    {
        return PayForwarder.Forwarding(r, address(0), "", ITEM_GAS);
    }

    function _only(address asset) internal pure returns (address[] memory assets) {
        assets = new address[](1);
        assets[0] = asset;
    }

    function _held(address token, address account) internal view returns (uint256) {
        return token == COIN ? account.balance : TestDollar(token).balanceOf(account);
    }
}
