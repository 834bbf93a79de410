// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title DevWallet: a contract account of the embedded chain
/// @notice One key owns it: the key signs for it (ERC-1271) and tells it what to call. What it
/// calls at its beginning is part of its address.
contract DevWallet {
    /// @param target what is called
    /// @param data with what
    struct Call {
        address target;
        bytes data;
    }

    bytes4 private constant ACCEPTED = 0x1626ba7e;
    bytes4 private constant REFUSED = 0xffffffff;

    /// @notice The address of the key.
    address public immutable owner;

    /// @notice Somebody else than the owner called.
    error NotTheOwner();
    /// @notice What was to be called reverted.
    error CallFailed();

    constructor(address owner_, Call[] memory calls) {
        owner = owner_;
        for (uint256 i = 0; i < calls.length; ++i) {
            _call(calls[i].target, 0, calls[i].data);
        }
    }

    receive() external payable {}

    /// @notice Calls something in the name of the account.
    function execute(address target, uint256 value, bytes calldata data) external {
        if (msg.sender != owner) revert NotTheOwner();
        _call(target, value, data);
    }

    /// @notice ERC-1271: 65 bytes r, s, v by the owner's key.
    function isValidSignature(bytes32 hash, bytes calldata signature)
        external
        view
        returns (bytes4)
    {
        if (signature.length != 65) return REFUSED;
        address signer = ecrecover(
            hash, uint8(signature[64]), bytes32(signature[:32]), bytes32(signature[32:64])
        );
        return signer != address(0) && signer == owner ? ACCEPTED : REFUSED;
    }

    function _call(address target, uint256 value, bytes memory data) private {
        // solhint-disable-next-line avoid-low-level-calls
        (bool ok,) = target.call{value: value}(data);
        if (!ok) revert CallFailed();
    }
}

/// @title DevWalletFactory: creates contract accounts at addresses that are known before
/// @notice Anyone may create anyone's account: it is the same whoever does.
contract DevWalletFactory {
    /// @notice Creates the account of an owner; one that exists is left as it is.
    /// @param salt tells accounts of one owner apart
    /// @param calls what the account calls at its beginning
    function create(address owner, bytes32 salt, DevWallet.Call[] calldata calls)
        external
        returns (address account)
    {
        account = addressOf(owner, salt, calls);
        if (account.code.length == 0) new DevWallet{salt: salt}(owner, calls);
    }

    /// @notice Where that account is, or will be.
    function addressOf(address owner, bytes32 salt, DevWallet.Call[] calldata calls)
        public
        view
        returns (address)
    {
        bytes32 code =
            keccak256(abi.encodePacked(type(DevWallet).creationCode, abi.encode(owner, calls)));
        bytes32 place = keccak256(abi.encodePacked(hex"ff", address(this), salt, code));
        return address(uint160(uint256(place)));
    }
}
