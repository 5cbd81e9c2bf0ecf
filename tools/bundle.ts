import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { hashOfSources } from './source-hash.ts'

// Joins the modules of the service and of the command line into a tenth of the files: they load in two thirds of the
// time (docs/adr/0053-a-clone-runs-from-a-bundle.md). As a program, called by `npm start`, it writes
// start.mjs, which runs the bundle of the current sources, or the sources themselves when they cannot be bundled.

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = join(root, 'node_modules/.cache/wardline')
const main = join(root, 'packages/cli/src/main.js')
/** Exports what the program runs, for tests that run many commands in one process. */
const run = join(root, 'packages/cli/src/run.ts')
const startFile = join(folder, 'start.mjs')
/** A service that runs loads parts of its bundle later, so an old bundle is not removed at once. */
const keptMs = 7 * 86_400_000

/**
 * Dependencies of many modules. Others stay as they are: joined, some of CommonJS export less or miss their files.
 */
const joinedDependency = /[\\/]node_modules[\\/](kysely|viem|ox|abitype|@noble|typebox|yaml)[\\/]/
const dependency = /[\\/]node_modules[\\/]/

/** `import.meta.url` stays that of the source, beside which its files are. */
const withSourceUrls = {
  name: 'source-urls',
  transform: (code: string, id: string) =>
    code.includes('import.meta.url')
      ? { code: code.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href)) }
      : null,
}

/** Modules of Node.js that load undici, 2 MB of source, for names that nothing here uses, once an `import` reads all. */
const unusedNames = ['CloseEvent', 'MessageEvent', 'WebSocket']
const httpWithoutWebSockets = {
  name: 'http-without-web-sockets',
  resolveId: (id: string) => (id === 'node:http' ? '\0http' : null),
  load: (id: string) => {
    if (id !== '\0http') return null
    const names = Object.keys(http).filter((name) => !unusedNames.includes(name))
    return `const http = process.getBuiltinModule('node:http')
      export const { ${names.join(', ')} } = http
      export default http`
  },
}

async function build(into: string): Promise<void> {
  const { rolldown } = await import('rolldown')
  const bundle = await rolldown({
    input: { main, run },
    platform: 'node',
    resolve: { conditionNames: ['wardline-source', 'node', 'import'] },
    external: (id, _importer, isResolved) => isResolved && dependency.test(id) && !joinedDependency.test(id),
    logLevel: 'silent',
    plugins: [withSourceUrls, httpWithoutWebSockets],
  })
  await bundle.write({ dir: into, entryFileNames: '[name].mjs', chunkFileNames: '[name]-[hash].mjs' })
  await bundle.close()
}

function removeOldBundles(): void {
  for (const name of readdirSync(folder).filter((entry) => entry.startsWith('bundle-'))) {
    const path = join(folder, name)
    const stat = statSync(path, { throwIfNoEntry: false })
    if (stat && Date.now() - stat.mtimeMs > keptMs) rmSync(path, { recursive: true, force: true })
  }
}

/** Resolves with the main file of the bundle, which is built when the sources changed since the last one. */
export async function bundleCommand(): Promise<string> {
  const sources = ['cli', 'contract', 'policy', 'sdk', 'server', 'text'].map((name) => `packages/${name}/src`)
  // The bundle has addresses of this folder: a clone that was moved needs another one.
  const hash = createHash('sha256').update(
    `${root} ${hashOfSources(sources, ['tools/bundle.ts', 'package-lock.json'])}`,
  )
  const target = join(folder, `bundle-${hash.digest('hex').slice(0, 16)}`)
  if (!existsSync(target)) {
    // Several processes may build at once: each into a separate folder.
    const scratch = join(folder, `scratch-${process.pid}`)
    mkdirSync(scratch, { recursive: true })
    try {
      removeOldBundles()
      await build(scratch)
      renameSync(scratch, target)
    } catch (fault) {
      if (!existsSync(target)) throw fault
    } finally {
      rmSync(scratch, { recursive: true, force: true })
    }
  }
  return join(target, 'main.mjs')
}

function writeStartFile(program: string): void {
  const text = `await import(${JSON.stringify(pathToFileURL(program).href)})\n`
  // Another user may have started the service before.
  if (existsSync(startFile) && readFileSync(startFile, 'utf8') === text) return
  mkdirSync(folder, { recursive: true })
  const scratch = `${startFile}-${process.pid}`
  writeFileSync(scratch, text)
  renameSync(scratch, startFile)
}

if (import.meta.main) {
  const program = await bundleCommand().catch((fault) => {
    console.error(`The service starts from its sources, which takes longer: ${(fault as Error).message}`)
    return main
  })
  try {
    writeStartFile(program)
  } catch (fault) {
    console.error(`${(fault as Error).message}: make ${folder} writable for this user, or use npm run dev.`)
    process.exitCode = 1
  }
}
