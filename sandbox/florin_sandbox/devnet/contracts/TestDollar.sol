// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice How a contract account says whether it signed (ERC-1271).
interface ISignatureCheck {
    function isValidSignature(bytes32 hash, bytes calldata signature)
        external
        view
        returns (bytes4);
}

/// @title TestDollar: the stablecoin of the embedded chain
/// @notice Behaves like the stablecoins that payments are made in: ERC-20, signed approvals
/// (EIP-2612) and signed transfers (EIP-3009), both with a split and with a packed signature, and
/// contract accounts through ERC-1271. Its owner can mint, freeze accounts and pause everything,
/// to play what happens to payments then. It is worth nothing.
contract TestDollar {
    string public constant name = "Test Dollar";
    string public constant symbol = "tUSD";
    uint8 public constant decimals = 6;
    /// @notice Of the EIP-712 domain.
    string public constant version = "2";

    bytes32 public constant TRANSFER_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 public constant RECEIVE_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 public constant CANCEL_AUTHORIZATION_TYPEHASH =
        keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");
    bytes32 public constant PERMIT_TYPEHASH = keccak256(
        "Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)"
    );
    bytes32 private constant DOMAIN_TYPEHASH = keccak256(
        "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
    );
    bytes32 private constant NAME_HASH = keccak256("Test Dollar");
    bytes32 private constant VERSION_HASH = keccak256("2");
    /// @dev Half of the curve's order: the other half would give each signature a twin.
    uint256 private constant MAX_S =
        0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;

    /// @notice May mint, freeze and pause.
    address public immutable owner;
    uint256 public totalSupply;
    /// @notice While true nothing moves and nothing is approved.
    bool public paused;
    mapping(address account => uint256) public balanceOf;
    mapping(address account => mapping(address spender => uint256)) public allowance;
    /// @notice The next EIP-2612 nonce of an account.
    mapping(address account => uint256) public nonces;
    /// @notice True once an EIP-3009 nonce was used or cancelled.
    mapping(address authorizer => mapping(bytes32 nonce => bool)) public authorizationState;
    /// @notice True while an account is frozen.
    mapping(address account => bool) public isBlacklisted;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);
    event Mint(address indexed minter, address indexed to, uint256 amount);
    event Blacklisted(address indexed account);
    event UnBlacklisted(address indexed account);
    event Pause();
    event Unpause();

    modifier onlyOwner() {
        require(msg.sender == owner, "TestDollar: caller is not the owner");
        _;
    }

    modifier whenNotPaused() {
        require(!paused, "TestDollar: paused");
        _;
    }

    constructor(address owner_) {
        owner = owner_;
    }

    // ---- what the owner plays with

    function mint(address to, uint256 value) external onlyOwner whenNotPaused returns (bool) {
        require(to != address(0), "TestDollar: mint to nobody");
        totalSupply += value;
        balanceOf[to] += value;
        emit Mint(msg.sender, to, value);
        emit Transfer(address(0), to, value);
        return true;
    }

    function blacklist(address account) external onlyOwner {
        isBlacklisted[account] = true;
        emit Blacklisted(account);
    }

    function unBlacklist(address account) external onlyOwner {
        isBlacklisted[account] = false;
        emit UnBlacklisted(account);
    }

    function pause() external onlyOwner {
        paused = true;
        emit Pause();
    }

    function unpause() external onlyOwner {
        paused = false;
        emit Unpause();
    }

    // ---- ERC-20

    function approve(address spender, uint256 value) external returns (bool) {
        _approve(msg.sender, spender, value);
        return true;
    }

    function increaseAllowance(address spender, uint256 increment) external returns (bool) {
        _approve(msg.sender, spender, allowance[msg.sender][spender] + increment);
        return true;
    }

    function decreaseAllowance(address spender, uint256 decrement) external returns (bool) {
        _approve(msg.sender, spender, allowance[msg.sender][spender] - decrement);
        return true;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        _move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        uint256 allowed = allowance[from][msg.sender];
        require(allowed >= value, "TestDollar: allowance too small");
        if (allowed != type(uint256).max) allowance[from][msg.sender] = allowed - value;
        _move(from, to, value);
        return true;
    }

    // ---- EIP-2612: approval by signature

    function permit(
        address holder,
        address spender,
        uint256 value,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        _permit(holder, spender, value, deadline, abi.encodePacked(r, s, v));
    }

    function permit(
        address holder,
        address spender,
        uint256 value,
        uint256 deadline,
        bytes calldata signature
    ) external {
        _permit(holder, spender, value, deadline, signature);
    }

    // ---- EIP-3009: transfer by signature

    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        bytes32 content = _content(
            TRANSFER_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce
        );
        _use(content, from, validAfter, validBefore, nonce, abi.encodePacked(r, s, v));
        _move(from, to, value);
    }

    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external {
        bytes32 content = _content(
            TRANSFER_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce
        );
        _use(content, from, validAfter, validBefore, nonce, signature);
        _move(from, to, value);
    }

    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        require(to == msg.sender, "TestDollar: caller is not the payee");
        bytes32 content = _content(
            RECEIVE_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce
        );
        _use(content, from, validAfter, validBefore, nonce, abi.encodePacked(r, s, v));
        _move(from, to, value);
    }

    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external {
        require(to == msg.sender, "TestDollar: caller is not the payee");
        bytes32 content = _content(
            RECEIVE_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce
        );
        _use(content, from, validAfter, validBefore, nonce, signature);
        _move(from, to, value);
    }

    function cancelAuthorization(
        address authorizer,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        _cancel(authorizer, nonce, abi.encodePacked(r, s, v));
    }

    function cancelAuthorization(address authorizer, bytes32 nonce, bytes calldata signature)
        external
    {
        _cancel(authorizer, nonce, signature);
    }

    /// @notice The EIP-712 domain as it is on this chain.
    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(
            abi.encode(DOMAIN_TYPEHASH, NAME_HASH, VERSION_HASH, block.chainid, address(this))
        );
    }

    // ---- shared

    function _permit(
        address holder,
        address spender,
        uint256 value,
        uint256 deadline,
        bytes memory signature
    ) private {
        require(block.timestamp <= deadline, "TestDollar: permit is expired");
        bytes32 content =
            keccak256(abi.encode(PERMIT_TYPEHASH, holder, spender, value, nonces[holder]++, deadline));
        _checkSignature(holder, content, signature);
        _approve(holder, spender, value);
    }

    function _content(
        bytes32 typeHash,
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce
    ) private pure returns (bytes32) {
        return keccak256(abi.encode(typeHash, from, to, value, validAfter, validBefore, nonce));
    }

    /// @dev Both ends of the validity are exclusive.
    function _use(
        bytes32 content,
        address from,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes memory signature
    ) private {
        require(block.timestamp > validAfter, "TestDollar: authorization is not yet valid");
        require(block.timestamp < validBefore, "TestDollar: authorization is expired");
        _spend(from, nonce);
        _checkSignature(from, content, signature);
        emit AuthorizationUsed(from, nonce);
    }

    function _cancel(address authorizer, bytes32 nonce, bytes memory signature)
        private
        whenNotPaused
    {
        _spend(authorizer, nonce);
        bytes32 content = keccak256(abi.encode(CANCEL_AUTHORIZATION_TYPEHASH, authorizer, nonce));
        _checkSignature(authorizer, content, signature);
        emit AuthorizationCanceled(authorizer, nonce);
    }

    function _spend(address authorizer, bytes32 nonce) private {
        require(
            !authorizationState[authorizer][nonce], "TestDollar: authorization is used or canceled"
        );
        authorizationState[authorizer][nonce] = true;
    }

    /// @dev An account with code answers for itself, even if it also has a key (EIP-7702).
    function _checkSignature(address signer, bytes32 content, bytes memory signature)
        private
        view
    {
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), content));
        bool valid = signer.code.length == 0
            ? _recover(digest, signature) == signer && signer != address(0)
            : _asksContract(signer, digest, signature);
        require(valid, "TestDollar: invalid signature");
    }

    function _recover(bytes32 digest, bytes memory signature) private pure returns (address) {
        if (signature.length != 65) return address(0);
        bytes32 r;
        bytes32 s;
        uint8 v;
        assembly ("memory-safe") {
            r := mload(add(signature, 32))
            s := mload(add(signature, 64))
            v := byte(0, mload(add(signature, 96)))
        }
        if (uint256(s) > MAX_S) return address(0);
        return ecrecover(digest, v, r, s);
    }

    function _asksContract(address signer, bytes32 digest, bytes memory signature)
        private
        view
        returns (bool)
    {
        (bool ok, bytes memory answer) =
            signer.staticcall(abi.encodeCall(ISignatureCheck.isValidSignature, (digest, signature)));
        return ok && answer.length >= 32
            && abi.decode(answer, (bytes32)) == bytes32(ISignatureCheck.isValidSignature.selector);
    }

    function _approve(address holder, address spender, uint256 value) private whenNotPaused {
        require(!isBlacklisted[holder] && !isBlacklisted[spender], "TestDollar: account is frozen");
        allowance[holder][spender] = value;
        emit Approval(holder, spender, value);
    }

    function _move(address from, address to, uint256 value) private whenNotPaused {
        require(!isBlacklisted[from] && !isBlacklisted[to], "TestDollar: account is frozen");
        require(to != address(0), "TestDollar: transfer to nobody");
        require(balanceOf[from] >= value, "TestDollar: balance too small");
        unchecked {
            balanceOf[from] -= value;
            balanceOf[to] += value;
        }
        emit Transfer(from, to, value);
    }
}
