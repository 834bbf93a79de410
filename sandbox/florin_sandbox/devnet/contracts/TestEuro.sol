// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title TestEuro: the awkward token of the embedded chain
/// @notice Behaves like the oldest stablecoins: it has no signed transfers or approvals, returns
/// nothing, and lets an allowance be changed to zero or from zero only. Its owner can mint. It is
/// worth nothing.
contract TestEuro {
    string public constant name = "Test Euro";
    string public constant symbol = "tEUR";
    uint8 public constant decimals = 6;

    /// @notice May mint.
    address public immutable owner;
    uint256 public totalSupply;
    mapping(address account => uint256) public balanceOf;
    mapping(address account => mapping(address spender => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    constructor(address owner_) {
        owner = owner_;
    }

    function mint(address to, uint256 value) external {
        require(msg.sender == owner, "TestEuro: caller is not the owner");
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function transfer(address to, uint256 value) external {
        _move(msg.sender, to, value);
    }

    function approve(address spender, uint256 value) external {
        require(
            value == 0 || allowance[msg.sender][spender] == 0, "TestEuro: allowance is not zero"
        );
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
    }

    function transferFrom(address from, address to, uint256 value) external {
        uint256 allowed = allowance[from][msg.sender];
        require(allowed >= value, "TestEuro: allowance too small");
        unchecked {
            allowance[from][msg.sender] = allowed - value;
        }
        _move(from, to, value);
    }

    function _move(address from, address to, uint256 value) private {
        require(balanceOf[from] >= value, "TestEuro: balance too small");
        unchecked {
            balanceOf[from] -= value;
            balanceOf[to] += value;
        }
        emit Transfer(from, to, value);
    }
}
