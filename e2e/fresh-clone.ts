import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  cpSync,
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

export const root = fileURLToPath(new URL('..', import.meta.url))

/** The port that the documents and the program name. */
export const printedPort = 4747

/** What git has, or would have, of this working tree: never what a build or a run has left. */
export const trackedFiles = (): string[] =>
  execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root, encoding: 'utf8' })
    .split('\0')
    .filter((path) => path !== '')

const text = /\.(md|ts|js|py|sh|yaml|service)$/
/** What the service builds from these, by a hash of them, is the same in every clone: none of them opens the port. */
const sourcesOfBuilt = /^packages\/(contract|dashboard|sdk|text)\//
const built = ['packages/dashboard/dist', 'node_modules/.cache/wardline/sdk']

/**
 * A clone of the working tree, in which everything says `port` instead of 4747: several of them, and whatever listens on
 * this machine, do not meet.
 */
export function freshClone(folder: string, port: number): void {
  for (const path of trackedFiles()) {
    const target = join(folder, path)
    mkdirSync(dirname(target), { recursive: true })
    let source: string | undefined
    try {
      source = text.test(path) && !sourcesOfBuilt.test(path) ? readFileSync(join(root, path), 'utf8') : undefined
      if (source?.includes(String(printedPort))) writeFileSync(target, withPort(source, port))
      else copyFileSync(join(root, path), target)
    } catch (fault) {
      // Deleted in the working tree, and not yet for git.
      if ((fault as NodeJS.ErrnoException).code !== 'ENOENT') throw fault
    }
  }
}

export const withPort = (source: string, port: number): string =>
  source.replaceAll(new RegExp(`\\b${printedPort}\\b`, 'g'), String(port))

/** What `npm ci` would install, without its 20 seconds: links to what is installed here. */
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

/** What a service that ran here before has built: the dashboard and the packed SDK. */
export function addBuilt(clone: string): void {
  for (const path of built) cpSync(join(root, path), join(clone, path), { recursive: true })
}

/** As npm links the command line; `npm ci` may have run here before there was one. */
function linkCommand(clone: string): void {
  const link = join(clone, 'node_modules', '.bin', 'wardline')
  rmSync(link, { force: true })
  symlinkSync('../wardline/bin/wardline.js', link)
}

/** Relative links, such as that of a package of the house, lead to the same place in the clone. */
function linkAlike(from: string, to: string): void {
  try {
    symlinkSync(readlinkSync(from), to)
  } catch {
    symlinkSync(from, to)
  }
}

export const newFolder = (): string => mkdtempSync(join(tmpdir(), 'wardline-docs-'))
