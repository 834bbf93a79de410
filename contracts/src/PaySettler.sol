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
/// which payments buyers made by themselves. Payments that follow each other in a batch, with the
/// same token, merchant and fee receiver, are taken first, and their sums are paid out once. If that
/// fails, all of it is undone, and each of them moves by itself. Tokens are not vetted: whoever reads
/// `Paid` must compare payer and nonce with what was offered. The nonce stands for all the rest: the
/// token, since anybody can pay with one of their own making, value, both receivers, fee, the way,
/// and the end before which it was paid.
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

    /// @dev True while payments move; forgotten at the end of the transaction.
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
    /// @notice Payments with different receivers were to be paid out together.
    error DifferentEnds();
    /// @notice Another caller than this contract.
    error NotThisContract();
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
        _enter();
        _;
        moving = false;
    }

    /// @dev As `alone`, also for the payments of a batch, which moves alone itself.
    modifier aloneOrInBatch() {
        bool isInBatch = msg.sender == address(this);
        if (!isInBatch) _enter();
        _;
        if (!isInBatch) moving = false;
    }

    modifier onlyThis() {
        if (msg.sender != address(this)) revert NotThisContract();
        _;
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
    function settle3009(Pay[] calldata payments) external alone returns (uint256 mask) {
        if (payments.length > 256) revert TooMany();
        return _each(Kind.Eip3009, payments);
    }

    /// @notice The same by Permit2, for tokens that know no signed transfers.
    function settlePermit2(Pay[] calldata payments) external alone returns (uint256 mask) {
        if (payments.length > 256) revert TooMany();
        return _each(Kind.Permit2, payments);
    }

    /// @notice Settles payments of both kinds, 256 in all.
    /// @return mask the bits of those by EIP-3009, from bit 0 on, and above them those by Permit2
    function settle(Pay[] calldata by3009, Pay[] calldata byPermit2)
        external
        alone
        returns (uint256 mask)
    {
        if (by3009.length + byPermit2.length > 256) revert TooMany();
        mask = _each(Kind.Eip3009, by3009);
        mask |= _each(Kind.Permit2, byPermit2) << by3009.length;
    }

    /// @notice Settles one payment by EIP-3009; reverts with the token's own reason.
    function one3009(Pay calldata p) external aloneOrInBatch {
        _take3009(p);
        _payOut(p, p.value - p.fee, p.fee, 0);
    }

    /// @notice Settles one payment by Permit2; reverts with Permit2's or the token's own reason.
    function onePermit2(Pay calldata p) external aloneOrInBatch {
        _takePermit2(p);
        _payOut(p, p.value - p.fee, p.fee, 0);
    }

    /// @dev Takes one of several payments that are paid out together. Its event is undone with all
    /// the rest if that fails.
    function take3009(Pay calldata p) external onlyThis {
        _take3009(p);
    }

    /// @dev The same by Permit2.
    function takePermit2(Pay calldata p) external onlyThis {
        _takePermit2(p);
    }

    /// @dev Takes payments with the same token and receivers, and pays out the sums of those that
    /// moved; reverts if that fails. If the token delivered less, that fails too, because this
    /// contract owns nothing else.
    function settleTogether(Kind kind, Pay[] calldata payments)
        external
        onlyThis
        returns (uint256 mask)
    {
        bytes4 taking = kind == Kind.Eip3009 ? this.take3009.selector : this.takePermit2.selector;
        uint256 share;
        uint256 fee;
        uint256 free = _freeMemory();
        Pay calldata first = payments[0];
        for (uint256 i = 0; i < payments.length; ++i) {
            Pay calldata p = payments[i];
            if (!_hasSameEnds(first, p)) revert DifferentEnds();
            if (_isolated(_callFor(taking, p), p.gas, p.ref)) {
                mask |= 1 << i;
                share += p.value - p.fee;
                fee += p.fee;
            }
            _releaseMemory(free);
        }
        if (mask > 0) _payOut(first, share, fee, first.gas);
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
        if (p.token != address(0)) _takeApproved(p);
        _emitPaid(p, nonce);
        _payOut(p, p.value - p.fee, p.fee, 0);
    }

    /// @dev Moves payments that follow each other with the same token and receivers together; if
    /// that fails, one by one. The memory of each is given to the next, so that many cost what each
    /// costs.
    function _each(Kind kind, Pay[] calldata payments) private returns (uint256 mask) {
        bytes4 selector = kind == Kind.Eip3009 ? this.one3009.selector : this.onePermit2.selector;
        uint256 free = _freeMemory();
        uint256 end;
        for (uint256 first = 0; first < payments.length; first = end) {
            Pay calldata p = payments[first];
            end = first + 1;
            while (end < payments.length && _hasSameEnds(p, payments[end])) ++end;
            uint256 moved;
            bool paidOut;
            if (end - first > 1) {
                (paidOut, moved) = _tryTogether(kind, payments, first, end);
                _releaseMemory(free);
            }
            for (uint256 i = paidOut ? end : first; i < end; ++i) {
                p = payments[i];
                if (_isolated(_callFor(selector, p), p.gas, p.ref)) moved |= 1 << (i - first);
                _releaseMemory(free);
            }
            mask |= moved << first;
        }
    }

    /// @dev Without a limit of gas, because each of its calls has one. If it fails for a lack of gas,
    /// the whole batch does: one by one needs more.
    function _tryTogether(Kind kind, Pay[] calldata payments, uint256 first, uint256 end)
        private
        returns (bool ok, uint256 mask)
    {
        bytes memory callData = _callForAll(kind, payments, first, end);
        bytes4 reason;
        assembly ("memory-safe") {
            ok := call(gas(), address(), 0, add(callData, 32), mload(callData), 0, 32)
            if gt(returndatasize(), 3) { reason := and(mload(0), shl(224, 0xffffffff)) }
            if ok { mask := mload(0) }
        }
        if (!ok && reason == NotEnoughGas.selector) revert NotEnoughGas();
    }

    function _hasSameEnds(Pay calldata a, Pay calldata b) private pure returns (bool) {
        return a.token == b.token && a.dest == b.dest && a.feeTo == b.feeTo;
    }

    /// @dev Reverts if the token has no code. If it did not deliver, paying out fails, because this
    /// contract owns nothing.
    function _take3009(Pay calldata p) private {
        _checkRoute(p);
        bytes32 nonce = routeNonce(Kind.Eip3009, p);
        IReceiveWithAuthorization(p.token)
            .receiveWithAuthorization(
                p.from, address(this), p.value, p.validAfter, p.validBefore, nonce, p.sig
            );
        _emitPaid(p, nonce);
    }

    /// @dev Permit2 binds a permit to its caller. If it did not deliver, paying out fails.
    function _takePermit2(Pay calldata p) private {
        _checkRoute(p);
        if (p.token.code.length == 0) revert TransferFailed();
        bytes32 nonce = routeNonce(Kind.Permit2, p);
        IPermit2(PERMIT2)
            .permitTransferFrom(
                IPermit2.PermitTransferFrom(
                    IPermit2.TokenPermissions(p.token, p.value), uint256(nonce), p.validBefore
                ),
                IPermit2.SignatureTransferDetails(address(this), p.value),
                p.from,
                p.sig
            );
        _emitPaid(p, nonce);
    }

    /// @dev A token that delivers less fails at the next step.
    function _takeApproved(Pay calldata p) private {
        if (p.token.code.length == 0) revert TransferFailed();
        bytes memory callData = abi.encodeWithSignature(
            "transferFrom(address,address,uint256)", p.from, address(this), p.value
        );
        _call(p.token, callData, gasleft());
    }

    function _enter() private {
        if (moving) revert Reentered();
        moving = true;
    }

    function _checkRoute(Pay calldata p) private view {
        if (p.fee > p.value) revert FeeExceedsValue();
        if (p.dest == address(this) || p.feeTo == address(this)) revert RouteEndsHere();
        if (p.dest == address(0) || (p.fee > 0 && p.feeTo == address(0))) revert RouteEndsNowhere();
    }

    function _emitPaid(Pay calldata p, bytes32 nonce) private {
        emit Paid(p.ref, p.from, p.dest, p.token, p.value, p.feeTo, p.fee, nonce);
    }

    /// @dev Each transfer may use `most` gas, which must be there; zero is no limit.
    function _payOut(Pay calldata p, uint256 share, uint256 fee, uint256 most) private {
        _transfer(p.token, p.dest, share, most);
        if (fee > 0) _transfer(p.token, p.feeTo, fee, most);
    }

    function _transfer(address token, address to, uint256 value, uint256 most) private {
        if (token == address(0)) return _send(to, value);
        if (most == 0) most = gasleft();
        else _requireGas(most);
        _call(token, abi.encodeWithSignature("transfer(address,uint256)", to, value), most);
    }

    /// @dev In assembly so that nothing of the receiver's answer is copied.
    function _send(address to, uint256 value) private {
        bool ok;
        assembly ("memory-safe") {
            ok := call(gas(), to, value, 0, 0, 0, 0)
        }
        if (!ok) revert TransferFailed();
    }

    /// @dev Accepts tokens that return nothing; false, or anything but true, is a failure. In
    /// assembly so that one word of the answer is copied.
    function _call(address token, bytes memory callData, uint256 most) private {
        bool ok;
        assembly ("memory-safe") {
            ok := call(most, token, 0, add(callData, 32), mload(callData), 0, 32)
            if returndatasize() {
                ok := and(ok, and(gt(returndatasize(), 31), eq(mload(0), 1)))
            }
        }
        if (!ok) revert TransferFailed();
    }

    /// @dev The call of a function that takes a payment alone. The payment is copied as it came,
    /// up to the end of its signature; one that was encoded in another order fails there.
    function _callFor(bytes4 selector, Pay calldata p)
        private
        pure
        returns (bytes memory callData)
    {
        uint256 size = _sizeUpTo(p, p);
        assembly ("memory-safe") {
            callData := mload(0x40)
            mstore(callData, add(size, 36))
            mstore(add(callData, 32), selector)
            mstore(add(callData, 36), 32)
            calldatacopy(add(callData, 68), p, size)
            mstore(0x40, and(add(add(callData, size), 99), not(31)))
        }
    }

    /// @dev The call of `settleTogether` with some of the payments.
    function _callForAll(Kind kind, Pay[] calldata payments, uint256 first, uint256 end)
        private
        pure
        returns (bytes memory callData)
    {
        Pay calldata start = payments[first];
        uint256 size = _sizeUpTo(start, payments[end - 1]);
        uint256 head = 32 * (end - first);
        bytes4 selector = this.settleTogether.selector;
        uint256 offsets;
        assembly ("memory-safe") {
            callData := mload(0x40)
            mstore(callData, add(add(size, head), 100))
            mstore(add(callData, 32), selector)
            mstore(add(callData, 36), kind)
            mstore(add(callData, 68), 64)
            mstore(add(callData, 100), sub(end, first))
            offsets := add(callData, 132)
            calldatacopy(add(offsets, head), start, size)
            mstore(0x40, and(add(add(add(offsets, head), size), 31), not(31)))
        }
        for (uint256 i = first; i < end; ++i) {
            Pay calldata p = payments[i];
            assembly ("memory-safe") {
                mstore(add(offsets, mul(32, sub(i, first))), add(head, sub(p, start)))
            }
        }
    }

    /// @dev The bytes of calldata from one payment to the end of another one's signature; zero if
    /// that comes before.
    function _sizeUpTo(Pay calldata first, Pay calldata last) private pure returns (uint256 size) {
        bytes calldata sig = last.sig;
        assembly ("memory-safe") {
            let end := add(sig.offset, sig.length)
            if gt(end, first) { size := sub(end, first) }
        }
    }

    function _freeMemory() private pure returns (uint256 free) {
        assembly ("memory-safe") {
            free := mload(0x40)
        }
    }

    /// @dev Gives the memory of one payment to the next, so that many cost what each costs.
    function _releaseMemory(uint256 free) private pure {
        assembly ("memory-safe") {
            mstore(0x40, free)
        }
    }

    /// @dev A call silently forwards no more than 63/64 of what is left.
    function _requireGas(uint256 most) private view {
        uint256 left = gasleft();
        if (left - left / 64 < most + CALL_GAS) revert NotEnoughGas();
    }

    /// @dev Calls this contract with exactly so much gas; a failure becomes an event. Written in
    /// assembly because a plain call copies all of the reason, which a hostile token can make
    /// long enough to cost the whole batch its gas.
    function _isolated(bytes memory callData, uint256 most, bytes32 ref)
        private
        returns (bool ok)
    {
        _requireGas(most);
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
