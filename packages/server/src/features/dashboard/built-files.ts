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
  /** The same bytes as the build compressed them; absent where that saves nothing. */
  compressed: Partial<Record<Encoding, Buffer>>
}

export interface BuiltDashboard {
  /** The page of every address; a script in it reads the address. */
  page: BuiltFile
  /** By URL path. Names hold a hash of the contents. */
  assets: ReadonlyMap<string, BuiltFile>
  /** Whether a screen has this URL path. */
  isScreen(path: string): boolean
}

const contentTypes: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}
const suffixes: Record<Encoding, string> = { br: '.br', gzip: '.gz' }

/** A clone builds into the package of the dashboard; compiled code has the files beside it. */
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

/** `/fleet/:id` as a pattern of one address. */
const screenPattern = (path: string) => new RegExp(`^${path.replaceAll(/:\w+/g, '[^/]+')}/?$`)

/** Reads all that was built, less than a megabyte. Undefined when nothing was. Screens that are `off` have no address. */
export function readDashboard(folder: string, off: readonly string[]): BuiltDashboard | undefined {
  if (!existsSync(join(folder, 'screens.json'))) return undefined
  const screens = (JSON.parse(readFileSync(join(folder, 'screens.json'), 'utf8')) as string[])
    .filter((path) => !off.includes(path))
    .map(screenPattern)
  const names = readdirSync(join(folder, 'assets')).filter((name) => extname(name) in contentTypes)
  return {
    page: readBuilt(join(folder, 'index.html')),
    assets: new Map(names.map((name) => [`/assets/${name}`, readBuilt(join(folder, 'assets', name))])),
    isScreen: (path) => screens.some((pattern) => pattern.test(path)),
  }
}
