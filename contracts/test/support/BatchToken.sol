// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice A token that refuses accounts or amounts, keeps a part, or calls back. It executes any
/// transfer of any caller, without signatures.
contract BatchToken {
    /// @notice The behavior when a transfer is above the limit.
    enum Refusal {
        Reverts,
        RevertsWithAll,
        BurnsGas,
        SaysNo
    }

    mapping(address account => uint256) public balanceOf;
    mapping(address account => bool) public isFrozen;
    /// @notice The number of transfers.
    uint256 public moves;
    /// @notice True once a call from within a transfer succeeded.
    bool public hasReentered;
    uint256 private limit = type(uint256).max;
    Refusal private refusal;
    uint256 private work;
    address private taxed;
    address private target;
    bytes private call;

    function mint(address to, uint256 value) external {
        balanceOf[to] += value;
    }

    function freeze(address account) external {
        isFrozen[account] = true;
    }

    /// @notice Refuse transfers above an amount.
    function limitTo(uint256 limit_, Refusal refusal_) external {
        limit = limit_;
        refusal = refusal_;
    }

    /// @notice Use so much gas for each signed transfer.
    function slowDown(uint256 work_) external {
        work = work_;
    }

    /// @notice Keep a tenth of what an account pays.
    function tax(address account) external {
        taxed = account;
    }

    /// @notice Call a contract during each transfer.
    function turnToCall(address target_, bytes calldata call_) external {
        target = target_;
        call = call_;
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
        uint256 end = gasleft() - work;
        while (gasleft() > end) {}
        _move(from, to, value);
    }

    function transfer(address to, uint256 value) external returns (bool) {
        if (value > limit) {
            if (refusal == Refusal.SaysNo) return false;
            bool burns = refusal == Refusal.BurnsGas;
            bool long = refusal == Refusal.RevertsWithAll;
            assembly {
                if burns { invalid() }
                if long { revert(0, mul(100000, gt(gas(), 60000))) }
                revert(0, 0)
            }
        }
        _move(msg.sender, to, value);
        return true;
    }

    function _move(address from, address to, uint256 value) private {
        require(!isFrozen[from] && !isFrozen[to], "frozen");
        if (target != address(0)) {
            (bool ok,) = target.call(call);
            if (ok) hasReentered = true;
        }
        ++moves;
        balanceOf[from] -= value;
        balanceOf[to] += from == taxed ? value - value / 10 : value;
    }
}
