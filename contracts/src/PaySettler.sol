// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The one function of an EIP-3009 token that settlement calls.
interface IReceiveWithAuthorization {
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external;
}

/// @notice The one function of Permit2 that settlement calls.
interface IPermit2 {
    struct TokenPermissions {
        address token;
        uint256 amount;
    }

    struct PermitTransferFrom {
        TokenPermissions permitted;
        uint256 nonce;
        uint256 deadline;
    }

    struct SignatureTransferDetails {
        address to;
        uint256 requestedAmount;
    }

    function permitTransferFrom(
        PermitTransferFrom calldata permit,
        SignatureTransferDetails calldata transferDetails,
        address owner,
        bytes calldata signature
    ) external;
}

/// @title PaySettler: takes signed payments to where the buyer's signature says they go
/// @notice A payment is pulled from the buyer and passed on, to the merchant and to the taker of
/// the fee, within one call. The nonce that the buyer signs is the hash of the whole route, of its
/// end and of the way in which it is paid, so callers need no permission: whoever submits a payment
/// can only carry it out as it was signed.
/// @dev Nothing stays here: no owner, no balance between two transactions, and in storage only
/// which payments buyers made by themselves. Tokens are not vetted: whoever reads `Paid` must
/// compare payer and nonce with what was offered. The nonce stands for all the rest: the token,
/// since anybody can pay with one of their own making, value, both receivers, fee, the way, and
/// the end before which it was paid.
contract PaySettler {
    /// @notice The ways in which a payment is made; each has nonces of its own.
    enum Kind {
        Eip3009,
        Permit2,
        Direct
    }

    /// @notice One payment: a route and the buyer's authorization for it.
    /// @param token the token to move; zero is the chain's own coin, which buyers send themselves
    /// @param from the buyer
    /// @param value what the buyer gives, in the token's minor units, fee included
    /// @param validAfter the authorization is good after this time, Unix seconds, exclusive;
    /// Permit2 knows no such time
    /// @param validBefore the authorization is good before this time, Unix seconds, exclusive;
    /// with Permit2 it is the deadline, inclusive
    /// @param dest receives value - fee; not zero
    /// @param feeTo receives fee; may be zero if the fee is
    /// @param fee at most value
    /// @param ref names the payment; it comes back in the events
    /// @param gas the most that it may use as one of a batch, and what is kept for it; the
    /// caller's choice, not looked at elsewhere and no part of the nonce
    /// @param sig the buyer's signature: 65 bytes, or whatever a contract account accepts
    struct Pay {
        address token;
        address from;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        address dest;
        address feeTo;
        uint256 fee;
        bytes32 ref;
        uint256 gas;
        bytes sig;
    }

    /// @notice Where Permit2 stands on every chain.
    address public constant PERMIT2 = 0x000000000022D473030F116dDEE9F6B43aC78BA3;

    /// @dev Bytes kept of a failed payment's reason: room for a selector and a long sentence.
    uint256 private constant REASON_BYTES = 256;

    /// @dev What the call of one payment costs by itself, and the event if it fails: less than half
    /// of this.
    uint256 private constant CALL_GAS = 10_000;

    /// @notice True once a buyer made the payment of a nonce (Kind.Direct) by itself: a wallet that
    /// sends it again, with more gas or by mistake, does not pay twice.
    mapping(address from => mapping(bytes32 nonce => bool)) public isPaid;

    /// @dev True while one payment moves; forgotten at the end of the transaction.
    bool private transient moving;

    /// @notice The payment moved: `value - fee` to `dest`, `fee` to `feeTo`. `nonce` is that of the
    /// route by the way in which it was paid, and was used for the first time.
    event Paid(
        bytes32 indexed ref,
        address indexed from,
        address indexed dest,
        address token,
        uint256 value,
        address feeTo,
        uint256 fee,
        bytes32 nonce
    );

    /// @notice The payment of a batch did not move, this time. `reason` is what the token reverted
    /// with, cut to 256 bytes. It had all the gas that it was to have; it proves nothing about later
    /// tries.
    event Failed(bytes32 indexed ref, bytes reason);

    /// @notice More payments than the result has bits.
    error TooMany();
    /// @notice A payment could not have been given all the gas that it may use.
    error NotEnoughGas();
    /// @notice A token or a receiver called back while a payment was moving.
    error Reentered();
    /// @notice The fee is greater than the value.
    error FeeExceedsValue();
    /// @notice The money would stay in this contract.
    error RouteEndsHere();
    /// @notice The money would go to the zero address.
    error RouteEndsNowhere();
    /// @notice The token did not pass the money on.
    error TransferFailed();
    /// @notice Somebody else than the buyer sent a payment without a signature.
    error NotTheBuyer();
    /// @notice A payment came at or after its time.
    error TooLate();
    /// @notice The coin sent along is not what the payment asks for.
    error WrongValue();
    /// @notice The buyer made this payment before.
    error AlreadyPaid();

    modifier alone() {
        if (moving) revert Reentered();
        moving = true;
        _;
        moving = false;
    }

    /// @notice The nonce of a payment: what a buyer signs in an EIP-3009 authorization, or as a
    /// number in a Permit2 permit for this contract, and by which `pay` knows what was paid.
    function routeNonce(Kind kind, Pay calldata p) public view returns (bytes32) {
        return keccak256(
            abi.encode(
                block.chainid,
                address(this),
                kind,
                p.token,
                p.value,
                p.validBefore,
                p.dest,
                p.feeTo,
                p.fee,
                p.ref
            )
        );
    }

    /// @notice Settles up to 256 payments by EIP-3009; one that fails leaves the others alone.
    /// @return mask bit i is set if payment i moved
    /// @dev No payment begins without all of its gas: if that is not left, the whole call reverts. So
    /// none can take the gas of another, and a gas estimate finds no limit at which payments fail.
    function settle3009(Pay[] calldata payments) external returns (uint256 mask) {
        if (payments.length > 256) revert TooMany();
        return _each(this.one3009.selector, payments);
    }

    /// @notice The same by Permit2, for tokens that know no signed transfers.
    function settlePermit2(Pay[] calldata payments) external returns (uint256 mask) {
        if (payments.length > 256) revert TooMany();
        return _each(this.onePermit2.selector, payments);
    }

    /// @notice Settles payments of both kinds, 256 in all.
    /// @return mask the bits of those by EIP-3009, from bit 0 on, and above them those by Permit2
    function settle(Pay[] calldata by3009, Pay[] calldata byPermit2)
        external
        returns (uint256 mask)
    {
        if (by3009.length + byPermit2.length > 256) revert TooMany();
        mask = _each(this.one3009.selector, by3009);
        mask |= _each(this.onePermit2.selector, byPermit2) << by3009.length;
    }

    /// @notice Settles one payment by EIP-3009; reverts with the token's own reason.
    function one3009(Pay calldata p) external alone {
        _checkRoute(p);
        bytes32 nonce = routeNonce(Kind.Eip3009, p);
        // reverts if the token has no code; one that did not deliver fails at the next step,
        // because this contract owns nothing
        IReceiveWithAuthorization(p.token).receiveWithAuthorization(
            p.from, address(this), p.value, p.validAfter, p.validBefore, nonce, p.sig
        );
        _payOut(p, nonce);
    }

    /// @notice Settles one payment by Permit2; reverts with Permit2's or the token's own reason.
    function onePermit2(Pay calldata p) external alone {
        _checkRoute(p);
        if (p.token.code.length == 0) revert TransferFailed();
        bytes32 nonce = routeNonce(Kind.Permit2, p);
        // Permit2 binds a permit to its caller; one that did not deliver fails at the next step
        IPermit2(PERMIT2)
            .permitTransferFrom(
                IPermit2.PermitTransferFrom(
                    IPermit2.TokenPermissions(p.token, p.value), uint256(nonce), p.validBefore
                ),
                IPermit2.SignatureTransferDetails(address(this), p.value),
                p.from,
                p.sig
            );
        _payOut(p, nonce);
    }

    /// @notice A buyer makes its payment by itself: in the chain's own coin, sent along, or in a
    /// token that it let this contract take. `sig` and `validAfter` are not looked at. `validBefore`
    /// is part of the nonce, so that a buyer who puts its end off pays for something else.
    function pay(Pay calldata p) external payable alone {
        if (msg.sender != p.from) revert NotTheBuyer();
        if (block.timestamp >= p.validBefore) revert TooLate();
        bytes32 nonce = routeNonce(Kind.Direct, p);
        if (isPaid[p.from][nonce]) revert AlreadyPaid();
        isPaid[p.from][nonce] = true;
        _checkRoute(p);
        if (msg.value != (p.token == address(0) ? p.value : 0)) revert WrongValue();
        if (p.token != address(0)) _take(p);
        _payOut(p, nonce);
    }

    /// @dev The memory of each payment is given to the next, so that many cost what each costs.
    function _each(bytes4 one, Pay[] calldata payments) private returns (uint256 mask) {
        uint256 free;
        assembly ("memory-safe") {
            free := mload(0x40)
        }
        for (uint256 i = 0; i < payments.length; ++i) {
            bytes memory callData = abi.encodeWithSelector(one, payments[i]);
            if (_isolated(callData, payments[i].gas, payments[i].ref)) mask |= 1 << i;
            assembly ("memory-safe") {
                mstore(0x40, free)
            }
        }
    }

    function _checkRoute(Pay calldata p) private view {
        if (p.fee > p.value) revert FeeExceedsValue();
        if (p.dest == address(this) || p.feeTo == address(this)) revert RouteEndsHere();
        if (p.dest == address(0) || (p.fee > 0 && p.feeTo == address(0))) revert RouteEndsNowhere();
    }

    function _payOut(Pay calldata p, bytes32 nonce) private {
        _transfer(p.token, p.dest, p.value - p.fee);
        if (p.fee > 0) _transfer(p.token, p.feeTo, p.fee);
        emit Paid(p.ref, p.from, p.dest, p.token, p.value, p.feeTo, p.fee, nonce);
    }

    /// @dev A token that delivers less fails at the next step.
    function _take(Pay calldata p) private {
        if (p.token.code.length == 0) revert TransferFailed();
        bytes memory callData = abi.encodeWithSignature(
            "transferFrom(address,address,uint256)", p.from, address(this), p.value
        );
        _call(p.token, callData);
    }

    function _transfer(address token, address to, uint256 value) private {
        if (token == address(0)) return _send(to, value);
        _call(token, abi.encodeWithSignature("transfer(address,uint256)", to, value));
    }

    /// @dev In assembly so that nothing of the receiver's answer is copied.
    function _send(address to, uint256 value) private {
        bool ok;
        assembly ("memory-safe") {
            ok := call(gas(), to, value, 0, 0, 0, 0)
        }
        if (!ok) revert TransferFailed();
    }

    /// @dev Accepts tokens that return nothing; false, or anything but true, is a failure.
    function _call(address token, bytes memory callData) private {
        // solhint-disable-next-line avoid-low-level-calls
        (bool ok, bytes memory answer) = token.call(callData);
        if (!ok || (answer.length > 0 && !_isTrue(answer))) revert TransferFailed();
    }

    function _isTrue(bytes memory answer) private pure returns (bool) {
        return answer.length >= 32 && abi.decode(answer, (uint256)) == 1;
    }

    /// @dev Calls this contract with exactly so much gas; a failure becomes an event. Written in
    /// assembly because a plain call copies all of the reason, which a hostile token can make
    /// long enough to cost the whole batch its gas.
    function _isolated(bytes memory callData, uint256 most, bytes32 ref)
        private
        returns (bool ok)
    {
        // a call silently forwards no more than 63/64 of what is left
        uint256 left = gasleft();
        if (left - left / 64 < most + CALL_GAS) revert NotEnoughGas();
        bytes memory reason;
        assembly ("memory-safe") {
            ok := call(most, address(), 0, add(callData, 32), mload(callData), 0, 0)
            if iszero(ok) {
                let size := returndatasize()
                if gt(size, REASON_BYTES) { size := REASON_BYTES }
                reason := mload(0x40)
                mstore(0x40, add(reason, add(32, REASON_BYTES)))
                mstore(reason, size)
                returndatacopy(add(reason, 32), 0, size)
            }
        }
        if (!ok) emit Failed(ref, reason);
    }
}
