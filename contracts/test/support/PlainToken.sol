// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice A token that executes any transfer of any caller, without signatures.
contract PlainToken {
    mapping(address account => uint256) public balanceOf;

    function mint(address to, uint256 value) external {
        balanceOf[to] += value;
    }

    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256,
        uint256,
        bytes32,
        bytes calldata
    ) external {
        _move(from, to, value);
    }

    function transfer(address to, uint256 value) external returns (bool) {
        _move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        _move(from, to, value);
        return true;
    }

    function _move(address from, address to, uint256 value) private {
        require(balanceOf[from] >= value);
        unchecked {
            balanceOf[from] -= value;
            balanceOf[to] += value;
        }
    }
}
