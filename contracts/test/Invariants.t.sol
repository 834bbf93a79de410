// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Shop} from "./support/Shop.sol";

/// @notice The settlement contract agrees with a small model, for any actions in any order.
contract Invariants {
    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    Shop private shop;

    function setUp() public {
        shop = new Shop();
    }

    function targetContracts() public view returns (address[] memory chosen) {
        chosen = new address[](1);
        chosen[0] = address(shop);
    }

    function targetSelectors() public view returns (FuzzSelector[] memory chosen) {
        bytes4[] memory selectors = new bytes4[](10);
        selectors[0] = Shop.offer.selector;
        selectors[1] = Shop.settle.selector;
        selectors[2] = Shop.starve.selector;
        selectors[3] = Shop.pay.selector;
        selectors[4] = Shop.impersonate.selector;
        selectors[5] = Shop.lie.selector;
        selectors[6] = Shop.gainCode.selector;
        selectors[7] = Shop.wait.selector;
        // most of the other actions require these
        selectors[8] = Shop.offer.selector;
        selectors[9] = Shop.settle.selector;
        chosen = new FuzzSelector[](1);
        chosen[0] = FuzzSelector(address(shop), selectors);
    }

    /// @notice A payer's tokens move only by its route. Merchant and fee receiver get exactly
    /// their shares or nothing. The settlement contract keeps nothing. A payment is made once.
    function invariant_everybodyHoldsWhatTheModelSays() public view {
        (address token, address who) = shop.wrong();
        require(token == address(shop) && who == address(shop), "a balance differs");
    }
}
