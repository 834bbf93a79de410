// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Opener: creates accounts on first use, and then settles with their signatures
/// @notice A contract account can sign before it exists (ERC-6492): it says which factory creates
/// it, and with what call. Settlement itself calls nothing that a buyer names, so it is this
/// contract that does, and then hands its own calldata on, all in one transaction.
/// @dev Anyone may call it and it calls whatever it is told to. That is safe because it has
/// nothing: no balance, no storage, no right anywhere. Never approve it for a token.
contract Opener {
    /// @param account nothing is done if it has code
    /// @param factory is called otherwise
    /// @param data what the factory is called with
    struct Opening {
        address account;
        address factory;
        bytes data;
    }

    /// @notice Gas that one factory may use. An account that is a proxy takes half of it.
    uint256 public constant OPEN_GAS = 500_000;

    /// @dev What a call to an account that was not touched before costs by itself, and some more.
    uint256 private constant CALL_GAS = 5_000;

    /// @notice A factory would have been given less than OPEN_GAS.
    error NotEnoughGas();

    /// @notice Calls the factories of accounts that have no code, and then `target` with `data`;
    /// answers, or reverts, with exactly what `target` does.
    /// @dev A factory that fails is no failure here: an account that is not there cannot sign,
    /// which is for `target` to find. None takes the gas of another: each may use OPEN_GAS, and if
    /// that is not left the whole call reverts. In assembly so that nothing of an answer is copied
    /// before the last call.
    function open(Opening[] calldata openings, address target, bytes calldata data) external {
        uint256 free;
        assembly ("memory-safe") {
            free := mload(0x40)
        }
        for (uint256 i = 0; i < openings.length; ++i) {
            Opening calldata one = openings[i];
            if (one.account.code.length > 0) continue;
            address factory = one.factory;
            bytes memory callData = one.data;
            uint256 left = gasleft();
            if (left - left / 64 < OPEN_GAS + CALL_GAS) revert NotEnoughGas();
            assembly ("memory-safe") {
                pop(call(OPEN_GAS, factory, 0, add(callData, 32), mload(callData), 0, 0))
                // the next one's call takes this one's place
                mstore(0x40, free)
            }
        }
        bytes memory last = data;
        assembly {
            let ok := call(gas(), target, 0, add(last, 32), mload(last), 0, 0)
            returndatacopy(0, 0, returndatasize())
            if ok { return(0, returndatasize()) }
            revert(0, returndatasize())
        }
    }
}
