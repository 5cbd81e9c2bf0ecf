import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { type CodingTool, type Environment, productNames, readAgentSettings } from './agent-settings.ts'
import { CommandFault } from './command-fault.ts'
import { UnfitFile, withHook, withoutHook } from './hook-entries.ts'
import { parseSettings } from './settings-text.ts'
import { textDiff } from './text-diff.ts'

export interface InstallRequest {
  tool: CodingTool
  /** The settings of this folder, instead of those of the user. */
  inProject: boolean
  /** Write without asking. */
  yes: boolean
  /** Show, and write nothing. */
  dryRun: boolean
  failClosed: boolean
  env: Environment
  /** Asks a person; undefined where there is none. */
  ask: ((question: string) => Promise<boolean>) | undefined
  say: (line: string) => void
}

const files: Record<CodingTool, { folder: string; folderSetting?: string; file: string }> = {
  'claude-code': { folder: '.claude', folderSetting: 'CLAUDE_CONFIG_DIR', file: 'settings.json' },
  codex: { folder: '.codex', folderSetting: 'CODEX_HOME', file: 'hooks.json' },
  cursor: { folder: '.cursor', file: 'hooks.json' },
}

/** The file with the hooks; where it is a link, what the link leads to, so that it stays one. */
function hooksFile({ tool, inProject, env }: InstallRequest): string {
  const { folder, folderSetting, file } = files[tool]
  const own = (folderSetting && env[folderSetting]) || join(homedir(), folder)
  const path = resolve(inProject ? folder : own, file)
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

/** A Node.js that is replaced with every update is reached by the link that stays. */
function nodePath(execPath: string): string {
  const lasting = execPath.replace(/\/Cellar\/([^/]+)\/[^/]+\/bin\/node$/, '/opt/$1/bin/node')
  return existsSync(lasting) ? lasting : execPath
}

const quoted = (path: string): string =>
  process.platform === 'win32' ? `"${path}"` : `'${path.replaceAll("'", `'\\''`)}'`

/** The line by which a shell runs the hook: this program, by this Node.js, wherever it is started. */
function hookCommand({ tool, failClosed }: InstallRequest): string {
  const program = realpathSync(process.argv[1]!)
  return [
    quoted(nodePath(process.execPath)),
    quoted(program),
    'hook',
    tool,
    ...(failClosed ? ['--fail-closed'] : []),
  ].join(' ')
}

export async function install(request: InstallRequest): Promise<void> {
  const { tool, say } = request
  const command = hookCommand(request)
  const isChanged = await change(request, (settings) => withHook(settings, tool, command), 'already installed')
  if (/[\\/]_npx[\\/]/.test(command)) {
    const fate = tool === 'codex' ? 'nothing is checked any more' : 'every call is blocked'
    say(
      `This runs out of the cache of npx. When that is emptied, ${fate}: npm install -g @wardline/sdk, then install anew.`,
    )
  }
  if (tool === 'codex' && isChanged) {
    say('Codex runs a hook only after you have looked at it: open Codex, enter /hooks and trust this one.')
  }
  const settings = readAgentSettings(request.env, tool, request.failClosed)
  if ('fault' in settings) say(`The hook cannot work yet. ${settings.fault}`)
  else say(`Calls are reported as ${settings.instanceId}. Try it with: wardline-agent status ${tool}`)
}

export async function uninstall(request: InstallRequest): Promise<void> {
  await change(request, (settings) => withoutHook(settings), 'not installed')
}

/** Shows what is to be changed, asks, and writes. False when nothing was. */
async function change(
  request: InstallRequest,
  edit: (settings: unknown) => unknown,
  noChange: string,
): Promise<boolean> {
  const file = hooksFile(request)
  const { tool, say } = request
  const before = readIfThere(file)
  const after = edited(file, before ?? '', edit)
  if (after === undefined) {
    say(`${productNames[tool]}: ${noChange} in ${file}`)
    return false
  }
  say(`${file}\n${textDiff(before ?? '', after)}`)
  if (request.dryRun) return false
  if (!request.yes) await confirm(request)
  if (readIfThere(file) !== before)
    throw new CommandFault(`${file} was changed meanwhile. Nothing was written; try again.`)
  const backup = replace(file, before, after)
  say(`${productNames[tool]}: written${backup === undefined ? '' : `; what was there is in ${backup}`}`)
  return true
}

/** The new text of the file; undefined when nothing changes. */
function edited(file: string, text: string, edit: (settings: unknown) => unknown): string | undefined {
  try {
    const { value, format } = parseSettings(text)
    const next = edit(value)
    // Compared as values: an install that finds its hook leaves the form of the file alone as well.
    return JSON.stringify(next) === JSON.stringify(value) ? undefined : format(next)
  } catch (fault) {
    if (fault instanceof UnfitFile) throw new CommandFault(`${file} was left as it is. ${fault.message}`)
    throw fault
  }
}

async function confirm({ ask }: InstallRequest): Promise<void> {
  if (ask === undefined) throw new CommandFault('There is nobody to ask here. Nothing was written; add --yes.')
  if (!(await ask('Write this? [y/N] '))) throw new CommandFault('Nothing was written.')
}

const because = (fault: unknown): string => (fault as { code?: string }).code ?? 'unknown'

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (fault) {
    if (because(fault) === 'ENOENT') return undefined
    throw new CommandFault(`${file} cannot be read (${because(fault)}).`)
  }
}

/** Replaces the file as a whole. The path of the backup, when there was something to keep. */
function replace(file: string, before: string | undefined, after: string): string | undefined {
  const backup = before === undefined ? undefined : `${file}.${new Date().toISOString().replace(/[:.]/g, '-')}.bak`
  const draft = `${file}.${process.pid}.part`
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    if (backup !== undefined) writeFileSync(backup, before!, { mode: 0o600, flag: 'wx' })
    const mode = statSync(file, { throwIfNoEntry: false })?.mode ?? 0o600
    writeFileSync(draft, after, { mode: 0o600, flag: 'wx' })
    chmodSync(draft, mode)
    renameSync(draft, file)
    return backup
  } catch (fault) {
    rmSync(draft, { force: true })
    throw new CommandFault(`${file} cannot be written (${because(fault)}). It is as it was.`)
  }
}
