import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const encodings = ['br', 'gzip'] as const
type Encoding = (typeof encodings)[number]

export interface BuiltFile {
  contentType: string
  /** Strong: a hash of the bytes. */
  etag: string
  bytes: Buffer
  /** Compressed by the build; absent for encodings that save nothing. */
  compressed: Partial<Record<Encoding, Buffer>>
}

export interface BuiltDashboard {
  /** The one page for all screens; its script reads the address. */
  page: BuiltFile
  /** By URL path. File names contain a hash of the contents. */
  assets: ReadonlyMap<string, BuiltFile>
  isScreen(path: string): boolean
}

const contentTypes: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}
const suffixes: Record<Encoding, string> = { br: '.br', gzip: '.gz' }

/** In a clone, the build output is in the dashboard package; in compiled code, it is in the same folder. */
export const builtFolder = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? '../../../../dashboard/dist/' : './built/', import.meta.url),
)

function readBuilt(path: string): BuiltFile {
  const bytes = readFileSync(path)
  const compressed: BuiltFile['compressed'] = {}
  for (const encoding of encodings) {
    const file = path + suffixes[encoding]
    if (existsSync(file)) compressed[encoding] = readFileSync(file)
  }
  const etag = `"${createHash('sha256').update(bytes).digest('base64url')}"`
  return { contentType: contentTypes[extname(path)] ?? 'application/octet-stream', etag, bytes, compressed }
}

/** Converts a route such as `/fleet/:id` to a regular expression. */
const screenPattern = (path: string) => new RegExp(`^${path.replaceAll(/:\w+/g, '[^/]+')}/?$`)

/** Read once for all services of a process, whose build does not change. */
const filesOf = new Map<string, Pick<BuiltDashboard, 'page' | 'assets'>>()

function readFiles(folder: string): Pick<BuiltDashboard, 'page' | 'assets'> {
  const known = filesOf.get(folder)
  if (known) return known
  const names = readdirSync(join(folder, 'assets')).filter((name) => extname(name) in contentTypes)
  const read = {
    page: readBuilt(join(folder, 'index.html')),
    assets: new Map(names.map((name) => [`/assets/${name}`, readBuilt(join(folder, 'assets', name))])),
  }
  filesOf.set(folder, read)
  return read
}

/**
 * Reads the whole build (less than a megabyte) into memory. Undefined without a build. Screens in `off` get no address.
 */
export function readDashboard(folder: string, off: readonly string[]): BuiltDashboard | undefined {
  if (!existsSync(join(folder, 'screens.json'))) return undefined
  const screens = (JSON.parse(readFileSync(join(folder, 'screens.json'), 'utf8')) as string[])
    .filter((path) => !off.includes(path))
    .map(screenPattern)
  return { ...readFiles(folder), isScreen: (path) => screens.some((pattern) => pattern.test(path)) }
}
