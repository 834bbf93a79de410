// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice How a contract account says whether it signed (ERC-1271).
interface IAnswersForSignatures {
    function isValidSignature(bytes32 hash, bytes calldata signature)
        external
        view
        returns (bytes4);
}

/// @title SignatureProbe: asks an account that may not exist yet whether it signed
/// @notice Never deployed: its creation code is run by eth_call, and what it would leave behind as
/// code is the answer, one word: 0 the account is not there even after its factory was called,
/// 1 it does not accept the signature, 2 it does.
contract SignatureProbe {
    /// @param account who should have signed
    /// @param factory creates the account; not called if the account has code
    /// @param factoryCall what the factory is called with
    /// @param factoryGas how much gas it may use
    constructor(
        address account,
        address factory,
        bytes memory factoryCall,
        uint256 factoryGas,
        bytes32 digest,
        bytes memory signature
    ) {
        if (account.code.length == 0) {
            assembly ("memory-safe") {
                pop(call(factoryGas, factory, 0, add(factoryCall, 32), mload(factoryCall), 0, 0))
            }
        }
        uint256 verdict = account.code.length == 0 ? 0 : _accepts(account, digest, signature) ? 2 : 1;
        assembly ("memory-safe") {
            mstore(0, verdict)
            return(0, 32)
        }
    }

    /// @dev Asks as tokens do: the whole word counts. Only one word of the answer is copied.
    function _accepts(address account, bytes32 digest, bytes memory signature)
        private
        view
        returns (bool)
    {
        bytes memory question =
            abi.encodeCall(IAnswersForSignatures.isValidSignature, (digest, signature));
        bool answered;
        bytes32 answer;
        assembly ("memory-safe") {
            answered := staticcall(gas(), account, add(question, 32), mload(question), 0, 32)
            answered := and(answered, gt(returndatasize(), 31))
            answer := mload(0)
        }
        return answered && answer == bytes32(IAnswersForSignatures.isValidSignature.selector);
    }
}
