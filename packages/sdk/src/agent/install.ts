import { chmodSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { keyCommand } from '../service.ts'
import { checkAccess } from './access.ts'
import { type CodingTool, type Environment, productNames, readAgentSettings, stateFolder } from './agent-settings.ts'
import { CommandFault } from './command-fault.ts'
import { hookCommand } from './hook-command.ts'
import { withHook, withoutHook } from './hook-entries.ts'
import { hookSettingsFile } from './hook-settings.ts'
import { isPlugin, pluginText } from './opencode-plugin.ts'
import { InvalidFile } from './settings-text.ts'
import { shortHash } from './short-hash.ts'
import { textDiff } from './text-diff.ts'

interface InstallRequest {
  tool: CodingTool
  /** Changes the settings of this folder instead of the user's. */
  inProject: boolean
  /** Writes without confirmation. */
  yes: boolean
  /** Shows the change without writing it. */
  dryRun: boolean
  failClosed: boolean
  env: Environment
  /** Asks a person for confirmation; undefined without a terminal. */
  ask: ((question: string) => Promise<boolean>) | undefined
  say: (line: string) => void
}

/**
 * Returns the path of the settings file with the hooks. Links are resolved, so that writing replaces the target and
 * keeps the link.
 */
function hooksFile({ tool, inProject, env }: Pick<InstallRequest, 'tool' | 'inProject' | 'env'>): string {
  const path = hookSettingsFile(tool, env, inProject)
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

/** Content of a file before and after an install; null if it did not exist. */
interface Change {
  before: string | null
  after: string
}

/** Returns the file that stores the last change. Only its owner can read it, because settings may contain keys. */
const changeFile = (file: string, env: Environment): string => join(stateFolder(env), `install-${shortHash(file)}.json`)

function lastChange(file: string, env: Environment): Change | undefined {
  try {
    return JSON.parse(readFileSync(changeFile(file, env), 'utf8'))
  } catch {
    return undefined
  }
}

/** Stores the last change. If that fails, an uninstall only removes the hook instead of restoring the file. */
function keepChange(file: string, env: Environment, change: Change | undefined): void {
  const path = changeFile(file, env)
  try {
    rmSync(path, { force: true })
    if (change === undefined) return
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    writeFileSync(path, JSON.stringify(change), { mode: 0o600, flag: 'wx' })
  } catch {}
}

/** Returns the file with the hook. Throws InvalidFile. */
function added(text: string | null, tool: CodingTool, command: string): string {
  if (tool !== 'opencode') return withHook(text ?? '', tool, command)
  if (text !== null && !isPlugin(text)) throw new InvalidFile('It is not the plugin of wardline-agent.')
  return pluginText(command)
}

/** Returns the file without our hooks; null stands for no file. Throws InvalidFile. */
function removed(text: string, tool: CodingTool): string | null {
  if (tool !== 'opencode') return withoutHook(text)
  return isPlugin(text) ? null : text
}

/** Whether the settings of the user or of this folder contain the hook. */
export function isInstalled(tool: CodingTool, env: Environment): boolean {
  return [false, true].some((inProject) => {
    try {
      const text = readIfThere(hooksFile({ tool, inProject, env })) ?? ''
      return removed(text, tool) !== text
    } catch {
      return false
    }
  })
}

export async function install(request: InstallRequest): Promise<void> {
  const { tool, env, say } = request
  const settings = readAgentSettings(env, tool, request.failClosed)
  const access = 'fault' in settings || request.dryRun ? undefined : await checkAccess(settings, undefined)
  if (access?.isRefused) throw new CommandFault(`${access.fault} Nothing was written.`)
  const command = hookCommand(tool, request.failClosed)
  const file = hooksFile(request)
  const changed = await change(request, file, (text) => added(text, tool, command), 'already installed')
  if (changed) {
    const earlier = lastChange(file, env)
    const before = earlier?.after === changed.before ? earlier.before : changed.before
    // An uninstall must not restore a file that already contained the hook.
    const isClean = before === null || removed(before, tool) === before
    keepChange(file, env, isClean ? { before, after: changed.after! } : undefined)
  }
  if (/[\\/]_npx[\\/]/.test(command)) {
    const failsOpen = tool === 'codex' || tool === 'gemini-cli'
    const fate = failsOpen ? 'calls are no longer checked' : 'every call is blocked'
    say(
      `This runs from the cache of npx. When the cache is emptied, ${fate}: npm install -g ${'url' in settings ? settings.url : '<address of the service>'}/sdk.tgz, then install again.`,
    )
  }
  if (tool === 'codex' && changed) {
    say('Codex runs a hook only after you have reviewed it: open Codex, enter /hooks and trust this one.')
  }
  if ('fault' in settings) {
    say(`The hook cannot work yet. ${settings.fault} To create a key where the service runs: ${keyCommand(`${tool}-`)}`)
  } else {
    say(`Calls are reported as ${settings.instanceId}. Check it with: wardline-agent status ${tool}`)
    if (access?.fault) say(`The key was not checked. ${access.fault}`)
  }
}

export async function uninstall(request: InstallRequest): Promise<void> {
  const { tool, env } = request
  const file = hooksFile(request)
  const last = lastChange(file, env)
  const edit = (text: string | null) =>
    text !== null && text === last?.after ? last.before : text && removed(text, tool)
  if (await change(request, file, edit, 'not installed')) keepChange(file, env, undefined)
}

/**
 * Shows the change, asks for confirmation and writes the file. Returns undefined if nothing was written; null stands
 * for a missing file.
 */
async function change(
  request: InstallRequest,
  file: string,
  edit: (text: string | null) => string | null,
  noChange: string,
): Promise<{ before: string | null; after: string | null } | undefined> {
  const { tool, say } = request
  const before = readIfThere(file)
  const after = edited(file, before, edit)
  if (after === before) {
    say(`${productNames[tool]}: ${noChange} in ${file}`)
    return undefined
  }
  say(`${file}\n${textDiff(before ?? '', after ?? '')}`)
  if (request.dryRun) return undefined
  if (!request.yes) await confirm(request)
  if (readIfThere(file) !== before)
    throw new CommandFault(`${file} was changed in the meantime. Nothing was written; run the command again.`)
  const backup = replace(file, before, after)
  const fate = after === null ? 'removed' : 'written'
  say(`${productNames[tool]}: ${fate}${backup === undefined ? '' : `; the previous settings are in ${backup}`}`)
  return { before, after }
}

function edited(file: string, text: string | null, edit: (text: string | null) => string | null): string | null {
  try {
    return edit(text)
  } catch (fault) {
    if (fault instanceof InvalidFile) throw new CommandFault(`${file} was not changed. ${fault.message}`)
    throw fault
  }
}

async function confirm({ ask }: InstallRequest): Promise<void> {
  if (ask === undefined) throw new CommandFault('No terminal to confirm on: nothing was written. Add --yes.')
  if (!(await ask('Write this? [y/N] '))) throw new CommandFault('Nothing was written.')
}

const because = (fault: unknown): string => (fault as { code?: string }).code ?? 'unknown'

function readIfThere(file: string): string | null {
  let bytes: Buffer
  try {
    bytes = readFileSync(file)
  } catch (fault) {
    if (because(fault) === 'ENOENT') return null
    throw new CommandFault(`${file} cannot be read (${because(fault)}).`)
  }
  const text = bytes.toString()
  // Invalid UTF-8 could not be written back unchanged.
  if (!Buffer.from(text).equals(bytes)) throw new CommandFault(`${file} was not changed. It is not UTF-8.`)
  return text
}

/** Replaces the whole file. Returns the path of the backup if one was written. */
function replace(file: string, before: string | null, after: string | null): string | undefined {
  const backup = before === null ? undefined : `${file}.${new Date().toISOString().replace(/[:.]/g, '-')}.bak`
  const draft = `${file}.${process.pid}.part`
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    if (after === null) {
      rmSync(file)
      return undefined
    }
    if (backup !== undefined) writeFileSync(backup, before!, { mode: 0o600, flag: 'wx' })
    const mode = statSync(file, { throwIfNoEntry: false })?.mode ?? 0o600
    writeFileSync(draft, after, { mode: 0o600, flag: 'wx' })
    chmodSync(draft, mode)
    renameSync(draft, file)
    return backup
  } catch (fault) {
    rmSync(draft, { force: true })
    throw new CommandFault(`${file} cannot be written (${because(fault)}). It was not changed.`)
  }
}
