import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { compileSdk, packSdk } from './build-sdk.ts'
import { hashOfSources } from './source-hash.ts'

// Prints the SDK as an installable file, made from the sources as they are now: what a service that runs from a clone
// answers to GET /sdk.tgz. Rebuilt only when a source has changed.

const root = fileURLToPath(new URL('..', import.meta.url))
/** In the repository, because what is compiled finds the frameworks from there. */
const cache = join(root, 'node_modules', '.cache', 'wardline', 'sdk')

const hash = hashOfSources(
  ['packages/sdk/src', 'packages/policy/src'],
  [
    'packages/policy/package.json',
    ...['package.json', 'README.md', 'LICENSE'].map((name) => `packages/sdk/${name}`),
    'tools/build-sdk.ts',
    'package-lock.json',
  ],
)

async function pack(file: string): Promise<void> {
  const scratch = mkdtempSync(join(cache, 'making-'))
  try {
    await compileSdk(scratch, join(scratch, 'dist'))
    // A file is there whole or not at all, also when two services pack at the same time.
    renameSync(packSdk(join(scratch, 'dist'), scratch, scratch).file, file)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

mkdirSync(cache, { recursive: true })
const file = join(cache, `${hash.slice(0, 32)}.tgz`)
if (!existsSync(file)) await pack(file)
process.stdout.write(readFileSync(file))
