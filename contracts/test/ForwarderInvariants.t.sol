// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PostOffice} from "./support/PostOffice.sol";

/// @notice The forwarder agrees with a small model, for any actions in any order.
contract ForwarderInvariants {
    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    PostOffice private office;

    function setUp() public {
        office = new PostOffice();
    }

    function targetContracts() public view returns (address[] memory chosen) {
        chosen = new address[](1);
        chosen[0] = address(office);
    }

    function targetSelectors() public view returns (FuzzSelector[] memory chosen) {
        bytes4[] memory selectors = new bytes4[](11);
        selectors[0] = PostOffice.give.selector;
        selectors[1] = PostOffice.force.selector;
        selectors[2] = PostOffice.forward.selector;
        selectors[3] = PostOffice.starve.selector;
        selectors[4] = PostOffice.sweep.selector;
        selectors[5] = PostOffice.lie.selector;
        selectors[6] = PostOffice.grab.selector;
        selectors[7] = PostOffice.turn.selector;
        selectors[8] = PostOffice.wait.selector;
        // most of the other actions require these
        selectors[9] = PostOffice.give.selector;
        selectors[10] = PostOffice.forward.selector;
        chosen = new FuzzSelector[](1);
        chosen[0] = FuzzSelector(address(office), selectors);
    }

    /// @notice Money leaves an address by two ways and no other: once, exactly as the route says, or
    /// home. Nothing is lost, nothing stays in the contracts, and what is due can always be done.
    function invariant_moneyIsWhereTheModelSays() public view {
        string memory problem = office.wrong();
        require(bytes(problem).length == 0, problem);
    }

    function afterInvariant() public view {
        string memory problem = office.wrongAnywhere();
        require(bytes(problem).length == 0, problem);
    }
}
