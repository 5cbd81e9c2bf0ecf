import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { compileSdk, packSdk } from './build-sdk.ts'

// Prints the SDK as an installable file, made from the sources as they are now: what a service that runs from a clone
// answers to GET /sdk.tgz. Rebuilt only when a source has changed.

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = join(root, 'packages', 'sdk')
/** In the repository, because what is compiled finds the frameworks from there. */
const cache = join(root, 'node_modules', '.cache', 'wardline', 'sdk')

function hashOfSources(): string {
  const sources = readdirSync(join(folder, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .map((name) => join('src', name))
  const hash = createHash('sha256')
  const files = [
    ...sources,
    'package.json',
    'README.md',
    'LICENSE',
    '../../tools/build-sdk.ts',
    '../../package-lock.json',
  ]
  for (const name of files.sort())
    hash
      .update(`${name}\0`)
      .update(readFileSync(join(folder, name)))
      .update('\0')
  return hash.digest('hex').slice(0, 32)
}

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
const file = join(cache, `${hashOfSources()}.tgz`)
if (!existsSync(file)) await pack(file)
process.stdout.write(readFileSync(file))
