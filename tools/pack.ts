import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type LockFile, placesOf } from './build-sbom.ts'

// The command line and the service as one file, `dist/wardline-<version>.tgz`, after `npm run build`. It holds everything
// that it needs, in the versions of the lock file: `npm install -g` of it asks no registry.

const root = fileURLToPath(new URL('..', import.meta.url))
const readJson = (...path: string[]) => JSON.parse(readFileSync(join(root, ...path), 'utf8'))
const lock: LockFile = readJson('package-lock.json')

/** Where a place of this repository comes to lie in the packed package, such as `node_modules/fastify`. */
function placeInPackage(place: string): string {
  const [, owner, rest = ''] = /^packages\/(\w+)(\/.*)?$/.exec(place) ?? []
  if (owner === undefined) return place
  return owner === 'cli' ? rest.slice(1) : `node_modules/${readJson('packages', owner, 'package.json').name}${rest}`
}

/**
 * No process reads these, two thirds of all files: types, source maps, tests and documentation of dependencies, and the
 * CommonJS copy of packages that are imported (viem, ox).
 */
const isIdle = (path: string) =>
  /\.(map|[cm]?ts)$|^\/(_cjs|test|tests|bench|benchmark|benchmarks|docs|\.github)(\/|$)/.test(path)

/** Copies a package without the packages nested in it, which have separate places. */
function copyPackage(place: string, stage: string): void {
  const to = join(stage, placeInPackage(place))
  const isOurs = place.startsWith('packages/')
  for (const part of isOurs ? ['package.json', 'README.md', 'LICENSE', 'bin', 'dist'] : ['']) {
    const from = join(root, place, part)
    if (!existsSync(from)) continue
    const filter = (source: string) => {
      const path = source.slice(from.length)
      return !isIdle(isOurs ? `/${part}${path}` : path) && (isOurs || !path.startsWith('/node_modules'))
    }
    cpSync(from, join(to, part), { recursive: true, filter })
  }
}

const stage = mkdtempSync(join(tmpdir(), 'wardline-pack-'))
try {
  const places = placesOf(lock, ['cli'])
  for (const place of places) copyPackage(place, stage)
  const bundled = [...places].map(placeInPackage).filter((place) => /^node_modules\/(@[^/]+\/)?[^/]+$/.test(place))
  const names = bundled.map((place) => place.slice('node_modules/'.length)).sort()
  const description = readJson('packages', 'cli', 'package.json')
  const dependencies = Object.fromEntries(
    names.map((name) => [
      name,
      JSON.parse(readFileSync(join(stage, 'node_modules', name, 'package.json'), 'utf8')).version,
    ]),
  )
  writeFileSync(
    join(stage, 'package.json'),
    `${JSON.stringify({ ...description, dependencies, bundleDependencies: names }, null, 2)}\n`,
  )
  const into = join(root, 'dist')
  mkdirSync(into, { recursive: true })
  const args = ['pack', '--json', '--ignore-scripts', '--loglevel=error', '--pack-destination', into]
  const options = { cwd: stage, encoding: 'utf8', maxBuffer: 64 * 1_048_576 } as const
  const [{ filename }] = JSON.parse(execFileSync('npm', args, options)) as [{ filename: string }]
  const size = statSync(join(into, filename)).size
  console.log(
    `dist/${filename}: ${(size / 1_048_576).toFixed(1)} MiB, with ${names.length} packages: npm install -g ./dist/${filename}`,
  )
} finally {
  rmSync(stage, { recursive: true, force: true })
}
