// Compiles every contract of a folder; equal sources give equal bytes.
//   node build.mjs TOOLS SOURCES ARTIFACTS [INPUTS]
// TOOLS has node_modules with solc. ARTIFACTS is the file to write: compiler, digests of sources,
// and each contract's ABI, creation code and deployed code. INPUTS is a folder for the standard
// JSON input of each source file, which block explorers verify with.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import process from 'node:process';

if (process.argv.length < 5) {
  console.error('usage: node build.mjs TOOLS SOURCES ARTIFACTS [INPUTS]');
  process.exit(2);
}
const [tools, folder, output, inputs] = process.argv.slice(2).map((path) => resolve(path));
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
for (const file of readdirSync(folder).filter((name) => name.endsWith('.sol')).sort()) {
  const content = readFileSync(join(folder, file), 'utf8');
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
if (inputs) {
  mkdirSync(inputs, { recursive: true });
  for (const [file, source] of Object.entries(sources)) {
    const input = { language: 'Solidity', sources: { [file]: source }, settings };
    writeFileSync(
      join(inputs, file.replace(/\.sol$/, '.json')), `${JSON.stringify(input, null, 1)}\n`,
    );
  }
}
