// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DevPermit2} from "../../sandbox/DevPermit2.sol";
import {PaySettler} from "../../src/PaySettler.sol";
import {TestDollar} from "../../sandbox/TestDollar.sol";
import {TestEuro} from "../../sandbox/TestEuro.sol";
import {cheats} from "./Cheats.sol";

/// @notice Contracts on a fresh chain, and buyers' signatures for their routes.
contract Routes {
    uint256 internal constant RICH = 1e30;
    address internal constant MERCHANT = address(0x3e4c4a47);
    address internal constant OPERATOR = address(0x07e4a704);
    address private constant PERMIT2 = 0x000000000022D473030F116dDEE9F6B43aC78BA3;
    bytes32 private constant PERMITTED =
        keccak256("TokenPermissions(address token,uint256 amount)");
    bytes32 private constant PERMIT = keccak256(
        "PermitTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline)TokenPermissions(address token,uint256 amount)"
    );

    PaySettler internal settler;
    TestDollar internal dollar;
    TestEuro internal euro;

    function _deploy() internal {
        cheats.warp(1_000_000_000);
        settler = new PaySettler();
        dollar = new TestDollar(address(this));
        euro = new TestEuro(address(this));
        cheats.etch(PERMIT2, address(new DevPermit2()).code);
    }

    /// @dev Gives an account both tokens and the coin. Approves euros for Permit2 and the
    /// settlement contract, and dollars for the settlement contract.
    function _fill(address account) internal {
        dollar.mint(account, RICH);
        euro.mint(account, RICH);
        cheats.deal(account, RICH);
        cheats.prank(account);
        euro.approve(PERMIT2, type(uint256).max);
        cheats.prank(account);
        euro.approve(address(settler), type(uint256).max);
        cheats.prank(account);
        dollar.approve(address(settler), type(uint256).max);
    }

    function _signed(PaySettler.Kind kind, PaySettler.Pay memory p, uint256 key)
        internal
        view
        returns (bytes memory)
    {
        bytes32 nonce = settler.routeNonce(kind, p);
        bytes32 content;
        bytes32 domain;
        if (kind == PaySettler.Kind.Eip3009) {
            domain = dollar.DOMAIN_SEPARATOR();
            content = keccak256(
                abi.encode(
                    dollar.RECEIVE_WITH_AUTHORIZATION_TYPEHASH(),
                    p.from,
                    address(settler),
                    p.value,
                    p.validAfter,
                    p.validBefore,
                    nonce
                )
            );
        } else {
            domain = DevPermit2(PERMIT2).DOMAIN_SEPARATOR();
            bytes32 permitted = keccak256(abi.encode(PERMITTED, p.token, p.value));
            content = keccak256(
                abi.encode(PERMIT, permitted, address(settler), uint256(nonce), p.validBefore)
            );
        }
        (uint8 v, bytes32 r, bytes32 s) =
            cheats.sign(key, keccak256(abi.encodePacked(hex"1901", domain, content)));
        return abi.encodePacked(r, s, v);
    }
}
