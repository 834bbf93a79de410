// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The one function of a token that the forwarder asks.
interface IBalances {
    function balanceOf(address account) external view returns (uint256);
}

/// @title Vault: the code of a payment's address, once the address has code
/// @notice Each such address is a minimal proxy (ERC-1167) of this contract. It obeys the forwarder
/// alone, and accepts no coin: what is sent to an address with code stays with its sender.
contract Vault {
    address private immutable forwarder = msg.sender;

    /// @notice Another caller than the forwarder.
    error NotTheForwarder();
    /// @notice The token did not pass the money on, or the receiver refused the coin.
    error TransferFailed();

    modifier onlyForwarder() {
        if (msg.sender != forwarder) revert NotTheForwarder();
        _;
    }

    /// @notice Pays both parts of a route.
    function pay(address asset, address dest, uint256 share, address feeTo, uint256 fee)
        external
        onlyForwarder
    {
        _transfer(asset, dest, share);
        if (fee > 0) _transfer(asset, feeTo, fee);
    }

    /// @notice Sends an amount of one asset to one account.
    function send(address asset, address to, uint256 amount) external onlyForwarder {
        _transfer(asset, to, amount);
    }

    /// @dev Accepts tokens that return nothing; false, or anything but true, is a failure. In
    /// assembly so that at most one word of an answer is copied.
    function _transfer(address asset, address to, uint256 amount) private {
        bool ok;
        if (asset == address(0)) {
            assembly ("memory-safe") {
                ok := call(gas(), to, amount, 0, 0, 0, 0)
            }
        } else {
            bytes memory callData = abi.encodeWithSignature("transfer(address,uint256)", to, amount);
            assembly ("memory-safe") {
                ok := call(gas(), asset, 0, add(callData, 32), mload(callData), 0, 32)
                switch returndatasize()
                case 0 { ok := and(ok, gt(extcodesize(asset), 0)) }
                default { ok := and(ok, and(gt(returndatasize(), 31), eq(mload(0), 1))) }
            }
        }
        if (!ok) revert TransferFailed();
    }
}

/// @title Errand: makes the calls that bring money to an address, and has no right anywhere
/// @notice Submits what a buyer signed, such as a transfer by EIP-3009, before the payment is
/// forwarded.
/// @dev Vaults obey the forwarder, so the forwarder itself calls nothing that its callers choose.
/// Never approve this contract for a token, and never send it anything: any caller can take it.
contract Errand {
    /// @notice Calls `target` with `data`; reverts without a reason if that fails.
    function run(address target, bytes calldata data) external {
        bytes memory callData = data;
        // in assembly so that nothing of the answer is copied
        bool ok;
        assembly ("memory-safe") {
            ok := call(gas(), target, 0, add(callData, 32), mload(callData), 0, 0)
        }
        if (!ok) {
            assembly ("memory-safe") {
                revert(0, 0)
            }
        }
    }
}

/// @title PayForwarder: an address for each payment, which has no key
/// @notice The hash of a payment's route is the salt (CREATE2) of its address. Anyone can send money
/// there in any way and at any time, also before the address has code. Two ways lead out, and
/// callers of both need no permission. Before its end the route can be paid once: exactly the
/// merchant's share and the fee. All other money goes home: to an account that is part of the route.
/// @dev An address without code has an open route, and code closes it, so the usual payment writes
/// no storage. There is no owner, no setting and no balance. The contract has the same address on
/// every chain, so that money sent on a wrong chain can go home there. Tokens are not vetted: readers
/// of `Paid` must compare address and nonce with what was offered.
contract PayForwarder {
    /// @notice What an address is for; all of it is in the salt.
    /// @param chainId the chain on which the route can be paid
    /// @param token the token to be paid; zero is the chain's own coin
    /// @param value what the address must hold, in the token's minor units, fee included
    /// @param validBefore the route can be paid before this time, Unix seconds, exclusive
    /// @param dest receives value - fee; not zero
    /// @param feeTo receives fee; may be zero if the fee is
    /// @param fee at most value
    /// @param ref names the payment; it comes back in the events
    /// @param home receives all money that is not the route's; not zero
    struct Route {
        uint256 chainId;
        address token;
        uint256 value;
        uint256 validBefore;
        address dest;
        address feeTo;
        uint256 fee;
        bytes32 ref;
        address home;
    }

    /// @notice One payment to forward, and the errand that brings its money.
    /// @param target the contract that the errand calls
    /// @param data the errand's call; empty for none. It may fail: only the balance counts
    /// @param gas the most that it may use as one of a batch, and what is kept for it; the caller's
    /// choice, and no part of the salt
    struct Forwarding {
        Route route;
        address target;
        bytes data;
        uint256 gas;
    }

    /// @notice The assets to send home from one address; zero is the coin. `gas` as above.
    struct Sweep {
        Route route;
        address[] assets;
        uint256 gas;
    }

    /// @dev The kind of these payments in nonces: the next after those of PaySettler.
    uint256 private constant KIND = 3;

    /// @dev Bytes kept of a failed item's reason: room for a selector and a long sentence.
    uint256 private constant REASON_BYTES = 256;

    /// @dev What the call of one item costs by itself, and the event if it fails: less than half of
    /// this.
    uint256 private constant CALL_GAS = 10_000;

    /// @notice True for a route that can still be paid although its address has code, because other
    /// assets went home from there.
    mapping(bytes32 nonce => bool) public staysOpen;

    /// @dev True while items move; forgotten at the end of the transaction.
    bool private transient moving;

    /// @notice The event of PaySettler: `value - fee` moved to `dest`, `fee` to `feeTo`. `from` is the
    /// payment's address, and `nonce` its salt, which was used for the first time.
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

    /// @notice Money that was not the route's moved to `home`.
    event SentHome(
        bytes32 indexed ref,
        address indexed from,
        address indexed asset,
        uint256 amount,
        address home
    );

    /// @notice An item of a batch did not move, this time. `reason` is what it reverted with, cut to
    /// 256 bytes. It had all the gas that it was to have; it proves nothing about later tries.
    event Failed(bytes32 indexed ref, bytes reason);

    /// @notice The chain gives new contracts other addresses than the EVM does.
    error OtherAddresses();
    /// @notice More items than the result has bits.
    error TooMany();
    /// @notice An item could not have been given all the gas that it may use.
    error NotEnoughGas();
    /// @notice A token or a receiver called back while an item was moving.
    error Reentered();
    /// @notice The fee is greater than the value.
    error FeeExceedsValue();
    /// @notice The money would stay in one of these contracts.
    error RouteEndsHere();
    /// @notice The money would go to the zero address.
    error RouteEndsNowhere();
    /// @notice The route is one of another chain.
    error WrongChain();
    /// @notice A payment came at or after its end.
    error TooLate();
    /// @notice Money would go home while it can still be the payment's.
    error TooEarly();
    /// @notice The route was paid, or its end passed and money went home.
    error RouteClosed();
    /// @notice The address holds less than the route's value.
    error TooLittle();
    /// @notice The address holds none of the assets.
    error NothingThere();
    /// @notice The merchant received less than its share, as of tokens that take a fee.
    error Shortened();

    modifier alone() {
        _enter();
        _;
        moving = false;
    }

    /// @dev As `alone`, also for the items of a batch, which moves alone itself.
    modifier aloneOrInBatch() {
        bool isInBatch = msg.sender == address(this);
        if (!isInBatch) _enter();
        _;
        if (!isInBatch) moving = false;
    }

    /// @dev Their addresses follow from this one. So nothing is written into the deployed code, which
    /// is the compiler's, byte for byte.
    constructor() {
        if (address(new Vault()) != vault() || address(new Errand()) != errand()) {
            revert OtherAddresses();
        }
    }

    /// @notice The address of a payment; reverts for a route that could never be paid.
    function addressOf(Route calldata r) external view returns (address) {
        address code = vault();
        _checkRoute(r, code);
        return _place(routeNonce(r), _creationCode(code));
    }

    /// @notice The salt of a payment's address: a hash of this contract and the whole route.
    function routeNonce(Route calldata r) public view returns (bytes32) {
        return keccak256(
            abi.encode(
                r.chainId,
                address(this),
                KIND,
                r.token,
                r.value,
                r.validBefore,
                r.dest,
                r.feeTo,
                r.fee,
                r.ref,
                r.home
            )
        );
    }

    /// @notice The contract whose code the addresses use.
    function vault() public view returns (address) {
        return _created(0x01);
    }

    /// @notice The contract that runs errands.
    function errand() public view returns (address) {
        return _created(0x02);
    }

    /// @notice Forwards up to 256 payments; one that fails leaves the others alone.
    /// @return mask bit i is set if payment i moved
    /// @dev No item begins without all of its gas: if that is not left, the whole call reverts.
    function forward(Forwarding[] calldata items) external alone returns (uint256 mask) {
        if (items.length > 256) revert TooMany();
        uint256 free = _freeMemory();
        for (uint256 i = 0; i < items.length; ++i) {
            Forwarding calldata item = items[i];
            if (_isolated(_callFor(item), item.gas, item.route.ref)) mask |= 1 << i;
            _releaseMemory(free);
        }
    }

    /// @notice Sends home what up to 256 addresses hold; one that fails leaves the others alone.
    /// @return mask bit i is set if anything moved from address i
    function sweep(Sweep[] calldata items) external alone returns (uint256 mask) {
        if (items.length > 256) revert TooMany();
        uint256 free = _freeMemory();
        for (uint256 i = 0; i < items.length; ++i) {
            bytes memory callData = abi.encodeCall(this.sweepOne, (items[i].route, items[i].assets));
            if (_isolated(callData, items[i].gas, items[i].route.ref)) mask |= 1 << i;
            _releaseMemory(free);
        }
    }

    /// @notice Forwards one payment; reverts with the reason.
    function forwardOne(Forwarding calldata item) external aloneOrInBatch {
        Route calldata r = item.route;
        address vaultCode = vault();
        _checkRoute(r, vaultCode);
        if (r.chainId != block.chainid) revert WrongChain();
        if (block.timestamp >= r.validBefore) revert TooLate();
        bytes32 nonce = routeNonce(r);
        bytes memory code = _creationCode(vaultCode);
        address place = _place(nonce, code);
        bool exists = place.code.length > 0;
        if (exists && !staysOpen[nonce]) revert RouteClosed();
        if (item.data.length > 0) {
            // the money may have come before: a failure is none of the payment
            try Errand(errand()).run(item.target, item.data) {} catch {}
        }
        if (_balance(r.token, place) < r.value) revert TooLittle();
        if (exists) delete staysOpen[nonce];
        else _create(nonce, code);
        _pay(r, place);
        emit Paid(r.ref, place, r.dest, r.token, r.value, r.feeTo, r.fee, nonce);
    }

    /// @notice Sends home all that an address holds of some assets: of any, once its route is closed
    /// (paid, past its end, or of another chain). Before that, only assets that are not to be paid,
    /// and none from the address of a payment in coin, because code would keep the coin out.
    function sweepOne(Route calldata r, address[] calldata assets) external aloneOrInBatch {
        address vaultCode = vault();
        _checkHome(r.home, vaultCode, errand());
        bytes32 nonce = routeNonce(r);
        bytes memory code = _creationCode(vaultCode);
        address place = _place(nonce, code);
        bool exists = place.code.length > 0;
        bool closed = block.chainid != r.chainId || block.timestamp >= r.validBefore
            || (exists && !staysOpen[nonce]);
        if (!closed && r.token == address(0)) revert TooEarly();
        if (!exists) {
            _create(nonce, code);
            if (!closed) staysOpen[nonce] = true;
        }
        uint256 before = closed ? 0 : _balance(r.token, place);
        bool moved = _sendHome(r, place, assets);
        // money can have two addresses: a coin that is also a token, or a token with a second entry
        if (!closed && _balance(r.token, place) < before) revert TooEarly();
        // an address gets no code for nothing
        if (!moved) revert NothingThere();
    }

    function _sendHome(Route calldata r, address place, address[] calldata assets)
        private
        returns (bool moved)
    {
        for (uint256 i = 0; i < assets.length; ++i) {
            uint256 amount = _balance(assets[i], place);
            if (amount == 0) continue;
            moved = true;
            Vault(place).send(assets[i], r.home, amount);
            emit SentHome(r.ref, place, assets[i], amount, r.home);
        }
    }

    /// @dev Pays share and fee, and looks whether a token kept part of the share.
    function _pay(Route calldata r, address place) private {
        uint256 share = r.value - r.fee;
        bool isToken = r.token != address(0);
        uint256 before = isToken ? _balance(r.token, r.dest) : 0;
        Vault(place).pay(r.token, r.dest, share, r.feeTo, r.fee);
        if (isToken && _balance(r.token, r.dest) < before + share) revert Shortened();
    }

    function _enter() private {
        if (moving) revert Reentered();
        moving = true;
    }

    function _checkRoute(Route calldata r, address code) private view {
        if (r.fee > r.value) revert FeeExceedsValue();
        if (r.dest == address(0) || (r.fee > 0 && r.feeTo == address(0))) revert RouteEndsNowhere();
        address runner = errand();
        _checkEnd(r.dest, code, runner);
        _checkEnd(r.feeTo, code, runner);
        _checkHome(r.home, code, runner);
    }

    function _checkHome(address home, address code, address runner) private view {
        if (home == address(0)) revert RouteEndsNowhere();
        _checkEnd(home, code, runner);
    }

    /// @dev Money in one of these contracts would be lost.
    function _checkEnd(address end, address code, address runner) private view {
        if (end == address(this) || end == code || end == runner) revert RouteEndsHere();
    }

    /// @dev The address of a contract that this one created, by its nonce.
    function _created(bytes1 nonce) private view returns (address) {
        return _toAddress(keccak256(abi.encodePacked(bytes2(0xd694), address(this), nonce)));
    }

    /// @dev The code that creates a minimal proxy (ERC-1167) of the vault.
    function _creationCode(address vaultCode) private pure returns (bytes memory) {
        return abi.encodePacked(
            hex"3d602d80600a3d3981f3363d3d373d3d3d363d73",
            vaultCode,
            hex"5af43d82803e903d91602b57fd5bf3"
        );
    }

    function _place(bytes32 nonce, bytes memory code) private view returns (address) {
        return _toAddress(
            keccak256(abi.encodePacked(bytes1(0xff), address(this), nonce, keccak256(code)))
        );
    }

    function _toAddress(bytes32 hash) private pure returns (address) {
        return address(uint160(uint256(hash)));
    }

    function _create(bytes32 nonce, bytes memory code) private {
        address created;
        assembly ("memory-safe") {
            created := create2(0, add(code, 32), mload(code), nonce)
        }
        if (created == address(0)) revert NotEnoughGas();
    }

    /// @dev Zero for a token that does not answer. In assembly so that one word is copied.
    function _balance(address asset, address owner) private view returns (uint256 amount) {
        if (asset == address(0)) return owner.balance;
        bytes4 selector = IBalances.balanceOf.selector;
        assembly ("memory-safe") {
            mstore(0, selector)
            // shifted, because the bits above an address need not be zero
            mstore(16, shl(96, owner))
            let ok := staticcall(gas(), asset, 0, 36, 0, 32)
            if and(ok, gt(returndatasize(), 31)) { amount := mload(0) }
        }
    }

    /// @dev The call that forwards a payment alone. The payment is copied as it came, up to the end
    /// of its data; one that was encoded in another order fails there.
    function _callFor(Forwarding calldata item) private pure returns (bytes memory callData) {
        bytes4 selector = this.forwardOne.selector;
        bytes calldata data = item.data;
        assembly ("memory-safe") {
            let end := add(data.offset, data.length)
            let size := 0
            if gt(end, item) { size := sub(end, item) }
            callData := mload(0x40)
            mstore(callData, add(size, 36))
            mstore(add(callData, 32), selector)
            mstore(add(callData, 36), 32)
            calldatacopy(add(callData, 68), item, size)
            mstore(0x40, and(add(add(callData, size), 99), not(31)))
        }
    }

    function _freeMemory() private pure returns (uint256 free) {
        assembly ("memory-safe") {
            free := mload(0x40)
        }
    }

    /// @dev Gives the memory of one item to the next, so that many cost what each costs.
    function _releaseMemory(uint256 free) private pure {
        assembly ("memory-safe") {
            mstore(0x40, free)
        }
    }

    /// @dev Calls this contract with exactly so much gas; a failure becomes an event. Written in
    /// assembly because a plain call copies all of the reason, which a hostile token can make long
    /// enough to cost the whole batch its gas.
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
