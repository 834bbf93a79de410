// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DevPermit2} from "./DevPermit2.sol";

/// @title DevWitnessPermit2: DevPermit2 with signatures that contain a value of the caller's
/// @notice The proxy of x402 needs them. Stored chains of earlier releases have DevPermit2 alone.
contract DevWitnessPermit2 is DevPermit2 {
    string private constant WITNESS_TYPE =
        "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,";

    /// @notice Moves a token as `permitTransferFrom` does; the owner also signed a value.
    /// @param witness the hash of that value
    /// @param witnessTypeString the end of the message's type: the value's member, and all types
    function permitWitnessTransferFrom(
        Permit calldata permit,
        Transfer calldata details,
        address owner,
        bytes32 witness,
        string calldata witnessTypeString,
        bytes calldata signature
    ) external {
        if (block.timestamp > permit.deadline) revert SignatureExpired(permit.deadline);
        if (details.requestedAmount > permit.permitted.amount) {
            revert InvalidAmount(permit.permitted.amount);
        }
        _use(owner, permit.nonce);
        bytes32 digest = _witnessDigest(permit, witness, witnessTypeString);
        if (!_signed(owner, digest, signature)) revert InvalidSigner();
        _move(permit.permitted.token, owner, details.to, details.requestedAmount);
    }

    function _witnessDigest(
        Permit calldata permit,
        bytes32 witness,
        string calldata witnessTypeString
    ) private view returns (bytes32) {
        bytes32 permitted = keccak256(
            abi.encode(PERMITTED_TYPEHASH, permit.permitted.token, permit.permitted.amount)
        );
        bytes32 content = keccak256(
            abi.encode(
                keccak256(abi.encodePacked(WITNESS_TYPE, witnessTypeString)),
                permitted,
                msg.sender,
                permit.nonce,
                permit.deadline,
                witness
            )
        );
        return keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), content));
    }
}
