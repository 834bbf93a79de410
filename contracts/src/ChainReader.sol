// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice Reads many things at one moment. It is never deployed: eth_call runs it as the code of
/// a creation, and what a creation returns are the answers.
/// @dev A question has a head of 29 bytes: kind (1), account (20), gas (4), most (2), size (2).
/// Kind 0 calls the account with the `size` bytes that follow and at most `gas`; it answers whether
/// that went well (1), how much was returned (3), and the first `most` bytes of it, filled up with
/// zeros. Kind 1 answers the account's coin (32). Kind 2 answers whether the account has code (1);
/// if it has none, the `size` bytes that follow, which are questions, are skipped.
/// Before the answers stands a 1: code must not begin with 0xef.
contract ChainReader {
    constructor(bytes memory questions) {
        assembly {
            let at := add(questions, 32)
            let end := add(at, mload(questions))
            // nothing was written behind the questions: all of it is zero
            let answers := add(end, 32)
            let out := answers
            mstore8(out, 1)
            out := add(out, 1)
            for {} lt(at, end) {} {
                let head := mload(at)
                let account := and(shr(88, head), 0xffffffffffffffffffffffffffffffffffffffff)
                let size := and(shr(24, head), 0xffff)
                at := add(at, 29)
                switch byte(0, head)
                case 0 {
                    let most := and(shr(40, head), 0xffff)
                    let limit := and(shr(56, head), 0xffffffff)
                    // a call that gets less than it was promised would tell a lie by failing
                    if lt(gas(), add(add(limit, shr(5, limit)), 10000)) { revert(0, 0) }
                    let good := staticcall(limit, account, at, size, 0, 0)
                    let told := returndatasize()
                    if gt(told, 0xffffff) { told := 0xffffff }
                    mstore(out, or(shl(248, good), shl(224, told)))
                    out := add(out, 4)
                    switch gt(told, most)
                    case 0 { returndatacopy(out, 0, told) }
                    default { returndatacopy(out, 0, most) }
                    out := add(out, most)
                    at := add(at, size)
                }
                case 1 {
                    mstore(out, balance(account))
                    out := add(out, 32)
                }
                default {
                    let coded := iszero(iszero(extcodesize(account)))
                    mstore8(out, coded)
                    out := add(out, 1)
                    if iszero(coded) { at := add(at, size) }
                }
            }
            return(answers, sub(out, answers))
        }
    }
}
