// `node build.mjs OUTPUT` makes the component; `agent-tool build` calls it. TypeScript is stripped of its types, and
// packages that the tools import are bundled.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { componentize } from '@bytecodealliance/componentize-js';
import { build } from 'esbuild';

const output = process.argv[2] ?? '.build/component.wasm';
const bundle = '.build/bundle.js';
mkdirSync(dirname(output), { recursive: true });
mkdirSync('.build', { recursive: true });

const tools = existsSync('tools.ts') ? './tools.ts' : './tools.js';
// Without the SDK the tools are the functions of the world, exported by name.
const hasSdk = existsSync('agent-tool');
const contents = hasSdk
  ? `import ${JSON.stringify(tools)};\nexport { tool } from './agent-tool/index.js';`
  : `export * from ${JSON.stringify(tools)};`;
try {
  await build({
    stdin: { contents, resolveDir: '.' },
    bundle: true,
    format: 'esm',
    platform: 'neutral',
    mainFields: ['module', 'main'],
    target: 'es2022',
    external: ['agent:*', 'wasi:*'],
    outfile: bundle,
    logLevel: 'error',
  });
} catch {
  process.exit(1); // esbuild has said why
}

// As a host would load it, natively: what is wrong shows here in its own words, before the slow step.
if (hasSdk) {
  const check = spawnSync(process.execPath, ['--import', './agent-tool/native.mjs', './agent-tool/check.mjs'], { stdio: 'inherit' });
  if (check.status !== 0) process.exit(1);
}

// What is not named in package.json is left out of the engine: each feature imports parts of WASI, and `http` needs a grant.
const features = JSON.parse(readFileSync('package.json', 'utf8'))['agent-host']?.features ?? [];
const { component } = await componentize({
  sourcePath: bundle,
  witPath: 'wit',
  worldName: 'guest',
  disableFeatures: ['stdio', 'random', 'clocks', 'http', 'fetch-event'].filter((feature) => !features.includes(feature)),
});
writeFileSync(output, component);
