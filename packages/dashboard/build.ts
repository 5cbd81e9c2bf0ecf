import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { hashOfSources } from '../../tools/source-hash.ts'
import { screens } from './src/screens.ts'

// Builds the dashboard into dist/ if its sources have changed since the last build. With `--at-start`, a failure is
// only reported, and the service starts without a dashboard.

const root = fileURLToPath(new URL('.', import.meta.url))
const dist = join(root, 'dist')
const sourcesFile = 'sources.sha256'

/** Bytes after gzip. Within these limits, the first screen shows within two seconds at 1 Mbit/s. */
const maxEntryBytes = 180_000
const maxRouteBytes = 66_000

const builtFrom = (folder: string) =>
  existsSync(join(folder, sourcesFile)) ? readFileSync(join(folder, sourcesFile), 'utf8') : undefined

const themePlace = '<!-- theme-start -->'

/** Adds the theme script outside the bundle: it must block the first paint, so it is not a module. */
function addThemeScript(folder: string): void {
  const source = readFileSync(join(root, 'src', 'theme-start.js'))
  const name = `theme-${createHash('sha256').update(source).digest('base64url').slice(0, 8)}.js`
  writeFileSync(join(folder, 'assets', name), source)
  const page = readFileSync(join(folder, 'index.html'), 'utf8')
  if (!page.includes(themePlace)) throw new Error(`index.html has no place for the script of the theme: ${themePlace}`)
  writeFileSync(join(folder, 'index.html'), page.replace(themePlace, `<script src="/assets/${name}"></script>`))
}

function compress(folder: string): void {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (!/\.(js|css|html|svg)$/.test(path)) continue
    const bytes = readFileSync(path)
    for (const [suffix, packed] of [
      ['.br', brotliCompressSync(bytes)],
      ['.gz', gzipSync(bytes, { level: 9 })],
    ] as const)
      if (packed.length < bytes.length) writeFileSync(path + suffix, packed)
  }
}

interface Chunk {
  file: string
  isEntry?: boolean
  isDynamicEntry?: boolean
  imports?: string[]
  css?: string[]
}

/** Throws when a part exceeds the limits for phones on slow connections. */
function checkSizes(folder: string): string {
  const chunks = JSON.parse(readFileSync(join(folder, '.vite', 'manifest.json'), 'utf8')) as Record<string, Chunk>
  const bytes = (file: string) => gzipSync(readFileSync(join(folder, file)), { level: 9 }).length
  const filesOf = (name: string, into = new Set<string>()): Set<string> => {
    const { file, imports = [], css = [] } = chunks[name]!
    if (into.has(file)) return into
    for (const one of [file, ...css]) into.add(one)
    for (const imported of imports) filesOf(imported, into)
    return into
  }
  const sum = (files: Iterable<string>) => [...files].reduce((total, file) => total + bytes(file), 0)
  const entryName = Object.keys(chunks).find((name) => chunks[name]!.isEntry)!
  const entry = filesOf(entryName)
  const entryBytes = sum(entry)
  const routes = Object.keys(chunks)
    .filter((name) => chunks[name]!.isDynamicEntry)
    .map((name) => ({ name, bytes: sum([...filesOf(name)].filter((file) => !entry.has(file))) }))
  const heavy = [
    ...(entryBytes > maxEntryBytes ? [`the entry has ${entryBytes} bytes, ${maxEntryBytes} are the most`] : []),
    ...routes
      .filter((route) => route.bytes > maxRouteBytes)
      .map((route) => `${route.name} has ${route.bytes} bytes, ${maxRouteBytes} are the most`),
  ]
  if (heavy.length > 0) throw new Error(`The dashboard is too heavy: ${heavy.join('; ')}.`)
  const kb = (count: number) => `${(count / 1_000).toFixed(1)} kB`
  const parts = routes.map((route) => `${route.name.replace(/^src\//, '').replace(/\/.*$/, '')} ${kb(route.bytes)}`)
  return `entry ${kb(entryBytes)}; ${parts.join(', ')} (gzip)`
}

async function build(hash: string): Promise<void> {
  const started = performance.now()
  console.error('Building the dashboard, once: about ten seconds.')
  // Several processes may start at once, so each builds into a separate folder.
  const scratch = `${dist}-${process.pid}`
  try {
    // React's development build is twice as large, and a shell or a test runner may have set NODE_ENV.
    process.env.NODE_ENV = 'production'
    const { build: bundle } = await import('vite')
    await bundle({
      configFile: join(root, 'vite.config.ts'),
      logLevel: 'error',
      build: { outDir: scratch, emptyOutDir: true },
    })
    const sizes = checkSizes(scratch)
    rmSync(join(scratch, '.vite'), { recursive: true })
    addThemeScript(scratch)
    compress(scratch)
    writeFileSync(join(scratch, 'screens.json'), JSON.stringify(screens))
    writeFileSync(join(scratch, sourcesFile), hash)
    if (builtFrom(dist) !== hash) {
      rmSync(dist, { recursive: true, force: true })
      renameSync(scratch, dist)
    }
    if (!process.argv.includes('--at-start')) {
      console.log(`packages/dashboard: ${sizes}, built in ${((performance.now() - started) / 1_000).toFixed(1)} s`)
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

const hash = hashOfSources(
  ['packages/dashboard/src', 'packages/contract/src', 'packages/text/src'],
  [
    ...['index.html', 'build.ts', 'vite.config.ts', 'package.json'].map((name) => `packages/dashboard/${name}`),
    'package-lock.json',
  ],
)
if (builtFrom(dist) !== hash || process.argv.includes('--force')) {
  await build(hash).catch((fault) => {
    console.error(`The dashboard was not built: ${(fault as Error).message}`)
    if (!process.argv.includes('--at-start')) process.exitCode = 1
  })
}
