// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice How a contract account says whether it signed (ERC-1271).
interface IContractSignature {
    function isValidSignature(bytes32 hash, bytes calldata signature)
        external
        view
        returns (bytes4);
}

/// @title DevPermit2: signed transfers of any token, for the embedded chain
/// @notice Plays the part of Permit2 that payments use, at Permit2's own address: a token is
/// approved for this contract once, and every transfer after that needs a signature of its owner
/// for the caller, the token, the amount, a nonce and a deadline. Real chains have the real one.
/// @dev No constructor and nothing immutable, so that the code can be put anywhere as it is.
contract DevPermit2 {
    /// @param token what may be moved
    /// @param amount at most so much of it
    struct Permitted {
        address token;
        uint256 amount;
    }

    /// @param permitted what the owner signed
    /// @param nonce any number that was not used; they need no order
    /// @param deadline the signature is good until then, Unix seconds, inclusive
    struct Permit {
        Permitted permitted;
        uint256 nonce;
        uint256 deadline;
    }

    /// @param to who receives
    /// @param requestedAmount how much, at most the permitted amount
    struct Transfer {
        address to;
        uint256 requestedAmount;
    }

    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,uint256 chainId,address verifyingContract)");
    bytes32 private constant NAME_HASH = keccak256("Permit2");
    bytes32 internal constant PERMITTED_TYPEHASH =
        keccak256("TokenPermissions(address token,uint256 amount)");
    bytes32 private constant PERMIT_TYPEHASH = keccak256(
        "PermitTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline)TokenPermissions(address token,uint256 amount)"
    );

    /// @notice The used nonces of an owner: bit `nonce & 255` of word `nonce >> 8`.
    mapping(address owner => mapping(uint256 word => uint256 bits)) public nonceBitmap;

    /// @notice Nonces were used up by their owner without a transfer.
    event UnorderedNonceInvalidation(address indexed owner, uint256 word, uint256 mask);

    /// @notice The deadline has passed.
    error SignatureExpired(uint256 signatureDeadline);
    /// @notice More was asked for than the owner permitted.
    error InvalidAmount(uint256 maxAmount);
    /// @notice The nonce was used before.
    error InvalidNonce();
    /// @notice The owner did not sign this.
    error InvalidSigner();
    /// @notice The token did not move.
    error TransferFromFailed();

    /// @notice Moves a token from its owner, who signed for the caller of this function.
    function permitTransferFrom(
        Permit calldata permit,
        Transfer calldata details,
        address owner,
        bytes calldata signature
    ) external {
        if (block.timestamp > permit.deadline) revert SignatureExpired(permit.deadline);
        if (details.requestedAmount > permit.permitted.amount) {
            revert InvalidAmount(permit.permitted.amount);
        }
        _use(owner, permit.nonce);
        if (!_signed(owner, _digest(permit), signature)) revert InvalidSigner();
        _move(permit.permitted.token, owner, details.to, details.requestedAmount);
    }

    /// @notice Uses up nonces of the caller: every bit of the mask.
    function invalidateUnorderedNonces(uint256 word, uint256 mask) external {
        nonceBitmap[msg.sender][word] |= mask;
        emit UnorderedNonceInvalidation(msg.sender, word, mask);
    }

    /// @notice The EIP-712 domain as it is on this chain.
    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN_TYPEHASH, NAME_HASH, block.chainid, address(this)));
    }

    function _use(address owner, uint256 nonce) internal {
        uint256 used = nonceBitmap[owner][nonce >> 8];
        uint256 bit = uint256(1) << (nonce & 0xff);
        if (used & bit != 0) revert InvalidNonce();
        nonceBitmap[owner][nonce >> 8] = used | bit;
    }

    /// @dev The caller is part of what was signed.
    function _digest(Permit calldata permit) private view returns (bytes32) {
        bytes32 permitted = keccak256(
            abi.encode(PERMITTED_TYPEHASH, permit.permitted.token, permit.permitted.amount)
        );
        bytes32 content = keccak256(
            abi.encode(PERMIT_TYPEHASH, permitted, msg.sender, permit.nonce, permit.deadline)
        );
        return keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), content));
    }

    /// @dev An account with code answers for itself, even if it also has a key (EIP-7702).
    function _signed(address owner, bytes32 digest, bytes calldata signature)
        internal
        view
        returns (bool)
    {
        if (owner.code.length > 0) {
            return IContractSignature(owner).isValidSignature(digest, signature)
                == IContractSignature.isValidSignature.selector;
        }
        address signer;
        if (signature.length == 65) {
            signer = ecrecover(
                digest,
                uint8(signature[64]),
                bytes32(signature[:32]),
                bytes32(signature[32:64])
            );
        } else if (signature.length == 64) {
            // EIP-2098: the parity is the highest bit of s
            uint256 packed = uint256(bytes32(signature[32:]));
            signer = ecrecover(
                digest,
                uint8(27 + (packed >> 255)),
                bytes32(signature[:32]),
                bytes32(packed & (type(uint256).max >> 1))
            );
        }
        return signer != address(0) && signer == owner;
    }

    /// @dev Accepts tokens that return nothing.
    function _move(address token, address from, address to, uint256 value) internal {
        // solhint-disable-next-line avoid-low-level-calls
        (bool ok, bytes memory answer) = token.call(
            abi.encodeWithSignature("transferFrom(address,address,uint256)", from, to, value)
        );
        bool moved = ok && (answer.length == 0 || abi.decode(answer, (bool)));
        if (!moved || token.code.length == 0) revert TransferFromFailed();
    }
}
