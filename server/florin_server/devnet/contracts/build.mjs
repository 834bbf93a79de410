// Compiles every contract beside this file; equal sources give equal bytes.
//   node build.mjs [output file, default artifacts.json here] [directory whose node_modules has solc]
//     [output file for the contracts that rails use on any chain, default rails/evm/setup/bytecode.json]
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const output = resolve(process.argv[2] ?? join(here, 'artifacts.json'));
const tools = resolve(process.argv[3] ?? here);
const railsOutput = resolve(process.argv[4] ?? join(here, '../../rails/evm/setup/bytecode.json'));
// contracts that also exist, or run by eth_call, on third-party chains
const onAnyChain = ['ChainReader', 'Opener', 'PaySettler', 'SignatureProbe'];
const solc = createRequire(join(tools, 'package.json'))('solc');

const settings = {
  evmVersion: 'cancun',
  viaIR: true,
  optimizer: { enabled: true, runs: 10000 },
  // no metadata hash in the code, as it would change with every comment
  metadata: { bytecodeHash: 'none', appendCBOR: false },
  outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object', 'evm.deployedBytecode.object'] } },
};

const sources = {};
const digests = {};
for (const file of readdirSync(here).filter((name) => name.endsWith('.sol')).sort()) {
  const content = readFileSync(join(here, file), 'utf8');
  sources[file] = { content };
  digests[file] = createHash('sha256').update(content).digest('hex');
}

const result = JSON.parse(
  solc.compile(JSON.stringify({ language: 'Solidity', sources, settings })),
);
// a warning fails too
for (const problem of result.errors ?? []) console.error(problem.formattedMessage);
if (result.errors?.length) process.exit(1);

const contracts = {};
for (const file of Object.keys(sources)) {
  for (const [name, made] of Object.entries(result.contracts[file])) {
    if (!made.evm.bytecode.object) continue;
    contracts[name] = {
      abi: made.abi,
      bytecode: `0x${made.evm.bytecode.object}`,
      runtime: `0x${made.evm.deployedBytecode.object}`,
    };
  }
}
const artifacts = { compiler: solc.version(), sources: digests, contracts };
writeFileSync(output, `${JSON.stringify(artifacts, null, 1)}\n`);
const carried = Object.fromEntries(
  onAnyChain.map((name) => {
    const { bytecode, runtime } = contracts[name];
    return [name, { bytecode, runtime }];
  }),
);
writeFileSync(railsOutput, `${JSON.stringify(carried, null, 1)}\n`);
