import { createHash } from 'node:crypto'

// The software bill of materials: what an installation of the published packages consists of, from the lock file that it
// was built and tested with. Format: CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/).

interface LockedPackage {
  name?: string
  version?: string
  integrity?: string
  license?: string
  link?: boolean
  resolved?: string
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
}

export interface LockFile {
  packages: Record<string, LockedPackage>
}

type License = { license: { id: string } } | { expression: string }

interface Component {
  type: 'application' | 'library'
  'bom-ref': string
  group?: string
  name: string
  version: string
  purl: string
  licenses: License[]
  hashes?: { alg: string; content: string }[]
}

interface Sbom {
  $schema: string
  bomFormat: 'CycloneDX'
  specVersion: '1.6'
  serialNumber: string
  version: 1
  metadata: { lifecycles: { phase: string }[]; component: Component }
  components: Component[]
  dependencies: { ref: string; dependsOn: string[] }[]
}

/** Folder of the package that the others belong to. */
const main = 'packages/cli'
const algorithms: Record<string, string> = { sha256: 'SHA-256', sha384: 'SHA-384', sha512: 'SHA-512' }

/** Where Node finds a dependency: in the folder of the one that needs it, or above; undefined when it is not installed. */
function find(lock: LockFile, from: string, name: string): string | undefined {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/')))) {
    const place = folder === '' ? `node_modules/${name}` : `${folder}/node_modules/${name}`
    const found = lock.packages[place]
    if (found) return found.link ? found.resolved : place
    if (folder === '') return undefined
  }
}

function needs(lock: LockFile, place: string): string[] {
  const { dependencies = {}, optionalDependencies = {} } = lock.packages[place]!
  const found = new Set<string>()
  for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
    const target = find(lock, place, name)
    if (target !== undefined) found.add(target)
    else if (!(name in optionalDependencies)) throw new Error(`${place} needs ${name}, which the lock file lacks.`)
  }
  return [...found]
}

const nameOf = (place: string, { name }: LockedPackage): string => name ?? place.split('node_modules/').at(-1)!
const purlOf = (name: string, version: string): string => `pkg:npm/${name.replace('@', '%40')}@${version}`

function hashesOf(place: string, integrity: string): Component['hashes'] {
  return integrity.split(' ').map((entry) => {
    const dash = entry.indexOf('-')
    const alg = algorithms[entry.slice(0, dash)]
    if (alg === undefined) throw new Error(`The integrity of ${place} is of an unknown kind.`)
    return { alg, content: Buffer.from(entry.slice(dash + 1), 'base64').toString('hex') }
  })
}

function component(lock: LockFile, place: string): Component {
  const locked = lock.packages[place]!
  const { version, license, integrity } = locked
  const fullName = nameOf(place, locked)
  const isOurs = place.startsWith('packages/')
  if (version === undefined || license === undefined) throw new Error(`${place} has no version or no licence.`)
  if (!isOurs && integrity === undefined) throw new Error(`${place} has no checksum.`)
  const [group, name] = fullName.startsWith('@') ? fullName.split('/') : [undefined, fullName]
  const purl = purlOf(fullName, version)
  return {
    type: place === main ? 'application' : 'library',
    'bom-ref': purl,
    ...(group === undefined ? {} : { group }),
    name: name!,
    version,
    purl,
    licenses: [/ |\(/.test(license) ? { expression: license } : { license: { id: license } }],
    ...(integrity === undefined ? {} : { hashes: hashesOf(place, integrity) }),
  }
}

/** The same for the same lock file: a build can be repeated to the byte. */
function serialNumber(parts: unknown): string {
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest('hex')
  // Version 8 of RFC 9562: a value of one's own making.
  return `urn:uuid:${hash.slice(0, 8)}-${hash.slice(8, 12)}-8${hash.slice(13, 16)}-a${hash.slice(17, 20)}-${hash.slice(20, 32)}`
}

/** Folders of the packages and of everything that they need to run. */
export function placesOf(lock: LockFile, packages: readonly string[]): Set<string> {
  const places = new Set(packages.map((name) => `packages/${name}`))
  // A set grows while it is walked.
  for (const place of places) for (const needed of needs(lock, place)) places.add(needed)
  return places
}

/** Everything that the published packages need to run. Throws an Error when the lock file does not say what it is. */
export function makeSbom(lock: LockFile, published: readonly string[]): Sbom {
  const places = placesOf(lock, published)
  const byRef = new Map<string, { component: Component; dependsOn: Set<string> }>()
  for (const place of [...places].sort()) {
    const made = component(lock, place)
    const known = byRef.get(made.purl) ?? { component: made, dependsOn: new Set() }
    for (const needed of needs(lock, place)) known.dependsOn.add(component(lock, needed).purl)
    byRef.set(made.purl, known)
  }
  const all = [...byRef.values()]
  const application = component(lock, main)
  const components = all.map((known) => known.component).filter(({ purl }) => purl !== application.purl)
  const dependencies = all.map(({ component: { purl }, dependsOn }) => ({
    ref: purl,
    dependsOn: [...dependsOn].sort(),
  }))
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: serialNumber([components, dependencies]),
    version: 1,
    metadata: { lifecycles: [{ phase: 'build' }], component: application },
    components,
    dependencies,
  }
}
