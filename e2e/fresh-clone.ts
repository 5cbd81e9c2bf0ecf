import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  cpSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { removeWithTests } from './left-behind.ts'

export const root = fileURLToPath(new URL('..', import.meta.url))

/** Default port, which documents and program contain. */
const printedPort = 4747

/** Returns the files that git tracks or would track, without the output of builds and runs. */
export const trackedFiles = (): string[] =>
  execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root, encoding: 'utf8' })
    .split('\0')
    .filter((path) => path !== '')

const text = /\.(md|ts|js|py|sh|yaml|service)$/
/** Files without the port. Builds are cached by their hash, which must be the same in every clone. */
const sourcesOfBuilt = /^packages\/(contract|dashboard|sdk|text)\//
const built = ['packages/dashboard/dist', 'node_modules/.cache/wardline/sdk']

/**
 * A clone of the working tree, in which everything says `port` instead of 4747: several of them, and whatever listens on
 * this machine, do not meet.
 */
export function freshClone(folder: string, port: number): void {
  for (const path of trackedFiles()) {
    try {
      copyInto(folder, path, port)
    } catch (fault) {
      // Deleted in the working tree but still tracked.
      if ((fault as NodeJS.ErrnoException).code !== 'ENOENT') throw fault
    }
  }
}

function copyInto(folder: string, path: string, port: number): void {
  const target = join(folder, path)
  mkdirSync(dirname(target), { recursive: true })
  const source = text.test(path) && !sourcesOfBuilt.test(path) ? readFileSync(join(root, path), 'utf8') : undefined
  if (source?.includes(String(printedPort))) writeFileSync(target, withPort(source, port))
  else copyFileSync(join(root, path), target)
}

/** Files with the times of their last change, and folders, without what is in node_modules. */
function contentsOf(clone: string): Map<string, number> {
  const contents = new Map<string, number>()
  const read = (folder: string) => {
    for (const entry of readdirSync(join(clone, folder), { withFileTypes: true })) {
      const path = join(folder, entry.name)
      contents.set(path, entry.isDirectory() ? 0 : lstatSync(join(clone, path)).mtimeMs)
      if (entry.isDirectory() && entry.name !== 'node_modules') read(path)
    }
  }
  read('')
  return contents
}

/**
 * Returns a function that gives a clone its present files again. What was built from its sources into node_modules
 * stays: it would be built alike.
 */
export function restorer(clone: string, port: number): () => void {
  const before = contentsOf(clone)
  return () => {
    const now = contentsOf(clone)
    for (const [path, changed] of now)
      if (before.get(path) !== changed) rmSync(join(clone, path), { recursive: true, force: true })
    for (const [path, changed] of before) if (changed > 0 && now.get(path) !== changed) copyInto(clone, path, port)
  }
}

export const withPort = (source: string, port: number): string =>
  source.replaceAll(new RegExp(`\\b${printedPort}\\b`, 'g'), String(port))

/** Links the packages that are installed here, because `npm ci` takes 20 seconds. */
export function linkModules(clone: string): void {
  const from = join(root, 'node_modules')
  const to = join(clone, 'node_modules')
  mkdirSync(to)
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    if (entry.name === '.cache' || entry.name === '.vite') continue
    if (entry.isSymbolicLink()) symlinkSync(readlinkSync(join(from, entry.name)), join(to, entry.name))
    else if (entry.name === '.bin' || entry.name === '@wardline') {
      mkdirSync(join(to, entry.name))
      for (const name of readdirSync(join(from, entry.name)))
        linkAlike(join(from, entry.name, name), join(to, entry.name, name))
    } else symlinkSync(join(from, entry.name), join(to, entry.name))
  }
  linkCommand(clone)
}

/** Links the dashboard and the packed SDK that a previous service built. */
export function addBuilt(clone: string): void {
  for (const path of built) cpSync(join(root, path), join(clone, path), { recursive: true })
}

/** Links the command line like npm does; `npm ci` may have run here before the command existed. */
function linkCommand(clone: string): void {
  const link = join(clone, 'node_modules', '.bin', 'wardline')
  rmSync(link, { force: true })
  symlinkSync('../wardline/bin/wardline.js', link)
}

/** Copies relative links, such as those of workspace packages, which then lead into the clone. */
function linkAlike(from: string, to: string): void {
  try {
    symlinkSync(readlinkSync(from), to)
  } catch {
    symlinkSync(from, to)
  }
}

export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-docs-'))
  removeWithTests(folder)
  return folder
}
