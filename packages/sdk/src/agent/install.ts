import { chmodSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { keyCommand } from '../service.ts'
import { checkAccess } from './access.ts'
import { type CodingTool, type Environment, productNames, readAgentSettings, stateFolder } from './agent-settings.ts'
import { CommandFault } from './command-fault.ts'
import { hookCommand } from './hook-command.ts'
import { withHook, withoutHook } from './hook-entries.ts'
import { hookSettingsFile, openclawConfig } from './hook-settings.ts'
import { withoutPlugin, withPlugin } from './openclaw-config.ts'
import { hasPlugin, isPlugin, pluginText } from './plugin-text.ts'
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

/** Returns the path of the settings file with the hooks. */
function hooksFile({ tool, inProject, env }: Pick<InstallRequest, 'tool' | 'inProject' | 'env'>): string {
  if (tool === 'openclaw' && inProject) throw new CommandFault('OpenClaw has no settings of a project.')
  return linked(hookSettingsFile(tool, env, inProject))
}

/** Resolves links, so that writing replaces the target and keeps the link. */
function linked(path: string): string {
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
  if (!hasPlugin(tool)) return withHook(text ?? '', tool, command)
  if (text !== null && !isPlugin(tool, text)) throw new InvalidFile('It is not the plugin of wardline-agent.')
  return pluginText(tool, command)
}

/** Returns the file without our hooks; null stands for no file. Throws InvalidFile. */
function removed(text: string, tool: CodingTool): string | null {
  if (!hasPlugin(tool)) return withoutHook(text)
  return isPlugin(tool, text) ? null : text
}

/** A file that an install changes. */
interface Target {
  file: string
  add: (text: string | null, command: string) => string
  /** Null stands for no file. */
  remove: (text: string) => string | null
}

/** Returns the files with the hook or plugin and, for OpenClaw, the configuration that enables the plugin. */
function targetsOf(request: Pick<InstallRequest, 'tool' | 'inProject' | 'env'>): Target[] {
  const { tool, env } = request
  const file = hooksFile(request)
  const main: Target = {
    file,
    add: (text, command) => added(text, tool, command),
    remove: (text) => removed(text, tool),
  }
  if (tool !== 'openclaw') return [main]
  const config = linked(openclawConfig(env))
  return [main, { file: config, add: (text) => withPlugin(text, file), remove: (text) => withoutPlugin(text, file) }]
}

/** Whether the settings of the user or of this folder contain the hook. */
export function isInstalled(tool: CodingTool, env: Environment): boolean {
  return [false, true].some((inProject) => {
    try {
      return targetsOf({ tool, inProject, env }).every(({ file, remove }) => {
        const text = readIfThere(file) ?? ''
        return remove(text) !== text
      })
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
  const changed = await change(
    request,
    targetsOf(request).map((target) => ({ ...target, edit: (text) => target.add(text, command) })),
    'already installed',
  )
  for (const { file, remove, ...edited } of changed) {
    const earlier = lastChange(file, env)
    const before = earlier?.after === edited.before ? earlier.before : edited.before
    // An uninstall must not restore a file that already contained the hook.
    const isClean = before === null || remove(before) === before
    keepChange(file, env, isClean ? { before, after: edited.after! } : undefined)
  }
  if (/[\\/]_npx[\\/]/.test(command)) {
    const failsOpen = tool === 'codex' || tool === 'gemini-cli'
    const fate = failsOpen ? 'calls are no longer checked' : 'every call is blocked'
    say(
      `This runs from the cache of npx. When the cache is emptied, ${fate}: npm install -g ${'url' in settings ? settings.url : '<address of the service>'}/sdk.tgz, then install again.`,
    )
  }
  if (tool === 'codex' && changed.length > 0) {
    say('Codex runs a hook only after you have reviewed it: open Codex, enter /hooks and trust this one.')
  }
  if (tool === 'openclaw' && changed.length > 0) {
    say('If the gateway of OpenClaw is running: openclaw plugins reload wardline')
  }
  if ('fault' in settings) {
    say(`The hook cannot work yet. ${settings.fault} To create a key where the service runs: ${keyCommand(`${tool}-`)}`)
  } else {
    say(`Calls are reported as ${settings.instanceId}. Check it with: wardline-agent status ${tool}`)
    if (access?.fault) say(`The key was not checked. ${access.fault}`)
  }
}

export async function uninstall(request: InstallRequest): Promise<void> {
  const { env } = request
  const edits = targetsOf(request).map((target): Edit => {
    const last = lastChange(target.file, env)
    const edit = (text: string | null) =>
      text !== null && text === last?.after ? last.before : text && target.remove(text)
    return { ...target, edit }
  })
  // OpenClaw must not be left with a configuration that names a missing plugin.
  for (const { file } of await change(request, edits.reverse(), 'not installed')) keepChange(file, env, undefined)
}

interface Edit extends Target {
  edit: (text: string | null) => string | null
}

/** Shows the changes, asks for confirmation and writes the files. Returns what was written; null stands for no file. */
async function change(
  request: InstallRequest,
  edits: Edit[],
  noChange: string,
): Promise<(Target & { before: string | null; after: string | null })[]> {
  const { tool, say } = request
  const changes = edits
    .map(({ edit, ...target }) => {
      const before = readIfThere(target.file)
      return { ...target, before, after: edited(target.file, before, edit) }
    })
    .filter(({ before, after }) => after !== before)
  if (changes.length === 0) say(`${productNames[tool]}: ${noChange} in ${hooksFile(request)}`)
  for (const { file, before, after } of changes) say(`${file}\n${textDiff(before ?? '', after ?? '')}`)
  if (request.dryRun || changes.length === 0) return []
  if (!request.yes) await confirm(request)
  for (const { file, before } of changes) {
    if (readIfThere(file) !== before)
      throw new CommandFault(`${file} was changed in the meantime. Nothing was written; run the command again.`)
  }
  for (const { file, before, after } of changes) {
    const backup = replace(file, before, after)
    const fate = after === null ? 'removed' : 'written'
    say(`${productNames[tool]}: ${fate}${backup === undefined ? '' : `; the previous settings are in ${backup}`}`)
  }
  return changes
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
