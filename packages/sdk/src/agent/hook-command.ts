import { existsSync, realpathSync } from 'node:fs'
import { basename } from 'node:path'
import { openRegular, tailOf, withFile } from '../regular-file.ts'
import type { CodingTool } from './agent-settings.ts'

/** Returns a path of Node.js that survives updates: Homebrew's link instead of the versioned folder. */
function nodePath(execPath: string): string {
  const lasting = execPath.replace(/\/Cellar\/([^/]+)\/[^/]+\/bin\/node$/, '/opt/$1/bin/node')
  return existsSync(lasting) ? lasting : execPath
}

const quoted = (path: string): string =>
  process.platform === 'win32' ? `"${path}"` : `'${path.replaceAll("'", `'\\''`)}'`

const word = process.platform === 'win32' ? '"([^"]*)"' : `'((?:[^']|'\\\\'')*)'`
const twoPaths = new RegExp(`^${word} ${word} `)
const unquoted = (path = ''): string => (process.platform === 'win32' ? path : path.replaceAll(`'\\''`, "'"))

const ending = (tool: CodingTool, failClosed: boolean): string =>
  ['hook', tool, ...(failClosed ? ['--fail-closed'] : [])].join(' ')

const ownProgram = (): string => process.argv[1]!

const commandOf = (node: string, program: string, tool: CodingTool, failClosed: boolean): string =>
  [quoted(node), quoted(program), ending(tool, failClosed)].join(' ')

/** Returns the shell command of the hook, with absolute paths of this program and this Node.js. */
export const hookCommand = (tool: CodingTool, failClosed: boolean, node = nodePath(process.execPath)): string =>
  commandOf(node, realpathSync(ownProgram()), tool, failClosed)

/** The program is a few kilobytes long. */
const maxProgramBytes = 256 * 1024
const contentOf = (file: string): string => withFile(openRegular(file, 'read'), (it) => tailOf(it, maxProgramBytes))

/** Whether a program is the other one, or a copy, as after an update of Node.js by a manager of its versions. */
function isProgram(program: string, other: string): boolean {
  try {
    const known = realpathSync(other)
    return program === known || contentOf(program) === contentOf(known)
  } catch {
    return false
  }
}

/**
 * Returns a command without its paths if `install` writes it for this program, with any existing Node.js; undefined for
 * every other one, such as a comment that names the hook.
 */
export function withoutPaths(command: unknown, tool: CodingTool, ownProgramFile = ownProgram()): string | undefined {
  const [, node, program] = (typeof command === 'string' && twoPaths.exec(command)?.map(unquoted)) || []
  if (!node || !program || basename(node) !== basename(process.execPath) || !existsSync(node)) return undefined
  const failClosed = [false, true].find((isClosed) => command === commandOf(node, program, tool, isClosed))
  if (failClosed === undefined || !isProgram(program, ownProgramFile)) return undefined
  return `wardline-agent ${ending(tool, failClosed)}`
}
