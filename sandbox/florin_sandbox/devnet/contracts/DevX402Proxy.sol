// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The part of Permit2 that the proxy calls.
interface IWitnessPermit2 {
    struct Permitted {
        address token;
        uint256 amount;
    }

    struct Permit {
        Permitted permitted;
        uint256 nonce;
        uint256 deadline;
    }

    struct Transfer {
        address to;
        uint256 requestedAmount;
    }

    function permitWitnessTransferFrom(
        Permit calldata permit,
        Transfer calldata details,
        address owner,
        bytes32 witness,
        string calldata witnessTypeString,
        bytes calldata signature
    ) external;
}

/// @title DevX402Proxy: moves what an owner signed by Permit2 to the receiver that it signed
/// @notice Plays the part of the proxy of x402 for the scheme `exact`, at the proxy's own address, on
/// the embedded chain. Anyone can call it, and nobody can redirect the money. Real chains have the
/// real one.
/// @dev No constructor and nothing immutable, so that the code can be put anywhere as it is.
contract DevX402Proxy {
    /// @param to who receives
    /// @param validAfter the signature is good from then on, Unix seconds
    struct Witness {
        address to;
        uint256 validAfter;
    }

    IWitnessPermit2 private constant PERMIT2 =
        IWitnessPermit2(0x000000000022D473030F116dDEE9F6B43aC78BA3);
    bytes32 private constant WITNESS_TYPEHASH =
        keccak256("Witness(address to,uint256 validAfter)");
    string private constant WITNESS_TYPE_STRING =
        "Witness witness)TokenPermissions(address token,uint256 amount)Witness(address to,uint256 validAfter)";

    /// @notice Money moved.
    event Settled();

    /// @notice The signature is not good yet.
    error PaymentTooEarly();
    /// @notice The receiver is the zero address.
    error InvalidDestination();

    /// @notice Moves the permitted amount, all of it, to the receiver of the witness.
    function settle(
        IWitnessPermit2.Permit calldata permit,
        address owner,
        Witness calldata witness,
        bytes calldata signature
    ) external {
        if (witness.to == address(0)) revert InvalidDestination();
        if (block.timestamp < witness.validAfter) revert PaymentTooEarly();
        PERMIT2.permitWitnessTransferFrom(
            permit,
            IWitnessPermit2.Transfer(witness.to, permit.permitted.amount),
            owner,
            keccak256(abi.encode(WITNESS_TYPEHASH, witness.to, witness.validAfter)),
            WITNESS_TYPE_STRING,
            signature
        );
        emit Settled();
    }
}
