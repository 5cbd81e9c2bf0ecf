import { createHmac } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { plainLine } from '../plain-line.ts'
import { redactedText } from '../redact.ts'
import type { CodingTool, Environment } from './agent-settings.ts'
import { BoundedReader, type FileContent, type FoundFile } from './configuration-files.ts'
import {
  claudeState,
  cosmetic,
  disablingSetting,
  fieldsOf,
  type ItemKind,
  managedFolders,
  type Source,
  sources,
  tomlDisablesHooks,
} from './configuration-sources.ts'
import { withoutPaths } from './hook-command.ts'
import { isBeforeTools, isHookEntry, isWholeEntry } from './hook-entries.ts'
import { hookSettingsFile, openclawConfig, settingsFolder } from './hook-settings.ts'
import { pluginFault } from './openclaw-config.ts'
import { hasPlugin, pluginText } from './plugin-text.ts'
import { type ServerDetails, serverDetails } from './server-address.ts'
import { isRefused, parseSettings } from './settings-text.ts'
import { shortHash } from './short-hash.ts'

// What a coding agent is configured with: names and hashes, never the content.

export interface Item extends ServerDetails {
  kind: ItemKind
  name: string
  sha256: string
  /** Our hook before tools, as `install` writes it, and not disabled. */
  ours?: true
}

export interface Place {
  tool: CodingTool
  env: Environment
  /** Key of the hashes, so that a short secret cannot be guessed from its hash. */
  key: string
  home: string
  /** Folder in which the coding agent works. */
  project: string | undefined
  /** Folder of administrators; default: that of Claude Code on this platform. */
  managed?: string | undefined
  /** The program whose hook is ours; default: the one that runs. */
  program?: string | undefined
}

/** What is configured in one place: of the user, or of one folder, so that sessions in several do not contradict. */
export interface Configuration {
  source: string
  items: Item[]
}

/** The service accepts as many. */
const maxItems = 1_000
const maxName = 200
/** Settings have some ten levels; a stack has room for thousands. */
const maxDepth = 200

/** Writes JSON with sorted keys, so that neither their order nor whitespace is a change. */
function canonical(value: unknown, depth = 0): string {
  if (depth > maxDepth) throw new RangeError('too deep')
  const below = (each: unknown) => canonical(each, depth + 1)
  if (Array.isArray(value)) return `[${value.map(below).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const fields = value as Record<string, unknown>
  const members = Object.keys(fields).sort()
  return `{${members.map((name) => `${JSON.stringify(name)}:${below(fields[name])}`).join()}}`
}

/** A file whose content is known, with its settings; undefined if it does not contain any. */
interface ReadFile extends FoundFile {
  source: Source
  settings: Record<string, unknown> | undefined
}

function settingsOf(tool: CodingTool, source: Source, content: FileContent): Record<string, unknown> | undefined {
  if (source.whole || !Buffer.isBuffer(content)) return undefined
  try {
    const text = content.toString()
    if (isRefused(tool, text)) return undefined
    const settings = parseSettings(text)
    // Fails where it would fail later.
    canonical(settings)
    return typeof settings === 'object' && settings !== null && !Array.isArray(settings)
      ? (settings as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

/** Reads files of the places that a source may be in, within limits for all of them. */
function readerOf({ tool, env, home, project, managed = managedFolders[process.platform] }: Place) {
  const reader = new BoundedReader()
  const folders = { home, user: settingsFolder(tool, env, home), project, managed }
  const all = tool === 'claude-code' ? [...sources[tool], claudeState(!!env.CLAUDE_CONFIG_DIR)] : sources[tool]
  const read = (source: Source): ReadFile[] => {
    const isMoved = tool === 'openclaw' && source.path === 'openclaw.json'
    const path = isMoved ? openclawConfig(env, home) : source.path
    const found = reader.find(isMoved ? '' : folders[source.in]!, path)
    return found.map((file) => ({
      ...file,
      name: isMoved ? source.path : file.name,
      source,
      settings: settingsOf(tool, source, file.content),
    }))
  }
  return (...places: Source['in'][]) =>
    all.filter((source) => places.includes(source.in) && folders[source.in] !== undefined).flatMap(read)
}

/** Files of the user and of administrators, and what disables hooks in them. */
function readUser(place: Place, read: ReturnType<typeof readerOf>) {
  const ofUser = read('home', 'user')
  const ofManaged = read('managed')
  /** Later files override the values of earlier ones. */
  const managed = (name: string) => {
    const value = ofManaged.reduce<unknown>((before, { settings }) => settings?.[name] ?? before, undefined)
    return value === true ? `${name} in the managed settings` : undefined
  }
  const allOff = managed('disableAllHooks')
  const off = allOff ?? managed('allowManagedHooksOnly') ?? disabledIn(place, ofUser)
  return { ofUser, ofManaged, allOff, off }
}

/** Returns the setting by which hooks in a user's files do not run; undefined if there is none. */
function disabledIn({ tool, env, home }: Place, files: readonly ReadFile[]): string | undefined {
  const found = files.find((file) => disables(tool, file) !== undefined)
  if (found) return `${disables(tool, found)} in ${found.name}`
  if (tool !== 'openclaw') return undefined
  const config = files.find(({ name }) => name === 'openclaw.json')
  const fault = pluginFault(config?.settings, realPath(hookSettingsFile(tool, env, false, home)))
  return fault && `${fault} in ${openclawConfig(env, home)}`
}

function disables(tool: CodingTool, { name, content, settings }: ReadFile): string | undefined {
  if (settings) return disablingSetting(tool, settings)
  const isOff = name.endsWith('config.toml') && Buffer.isBuffer(content) && tomlDisablesHooks(content.toString())
  return isOff ? 'hooks = false' : undefined
}

/** Returns the configuration of the user and that of the project. */
export function readConfiguration(place: Place): Configuration[] {
  const { tool, env, home, project } = place
  const read = readerOf(place)
  const { ofUser, ofManaged, allOff, off } = readUser(place, read)
  const collection = new Collection(place).add(ofManaged, allOff !== undefined)
  // Only administrators can disable their hooks.
  const isManaged = collection.hasHook
  const folder = settingsFolder(tool, env, home)
  const configurations = [
    {
      source: folder === settingsFolder(tool, {}, home) ? tool : sourceOf(tool, folder),
      items: collection.add(ofUser, off !== undefined).items(),
    },
  ]
  if (project === undefined) return configurations
  const ofProject = read('project')
  const isOffHere = !isManaged && ofProject.some((file) => disables(tool, file) !== undefined)
  const inFolder = new Collection(place)
  // A project can disable the hook of the user.
  inFolder.push('hook', 'in this folder', isOffHere ? 'disabled' : 'enabled', isOffHere ? {} : { ours: true })
  inFolder.add(ofProject, off !== undefined || isOffHere).addServersOf(project, ofUser)
  return [...configurations, { source: sourceOf(tool, project), items: inFolder.items() }]
}

/** Returns what disables the hook of the user, and settings of administrators that may; undefined if there is none. */
export function disablingFiles(place: Place): { off: string | undefined; unknown: string | undefined } {
  const { ofManaged, off, allOff } = readUser(place, readerOf(place))
  const isManaged = new Collection(place).add(ofManaged, allOff !== undefined).hasHook
  return { off: isManaged ? undefined : off, unknown: ofManaged.find(({ settings }) => !settings)?.name }
}

function realPath(file: string): string {
  try {
    return realpathSync(file)
  } catch {
    return file
  }
}

/** Folders of the same name have different sources. */
function sourceOf(tool: CodingTool, folder: string): string {
  const name = basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .slice(0, 40)
  return `${tool}:${name}-${shortHash(folder)}`
}

class Collection {
  readonly #place: Place
  readonly #items: Item[] = []
  readonly #names = new Set<string>()
  /** The last number of each name that is used more than once. */
  readonly #counts = new Map<string, number>()

  constructor(place: Place) {
    this.#place = place
  }

  /** Adds the items of files. `isOff`: hooks do not run where the files apply. */
  add(files: readonly ReadFile[], isOff: boolean): this {
    for (const file of files) {
      const { source, name, content, settings } = file
      if (settings) this.#addSettings(name, settings, source, isOff)
      else if (Buffer.isBuffer(content)) this.#addWhole(file, content, isOff)
      else this.push(source.whole ?? 'permission', name, `unreadable ${content.state}`)
    }
    return this
  }

  /** Adds the servers that Claude Code keeps for a project in the files of the user. */
  addServersOf(project: string, files: readonly ReadFile[]): void {
    for (const { settings, source } of files) {
      const projects = fieldsOf(source.only?.includes('mcpServers') && settings?.projects)
      this.#addServers(fieldsOf(Object.hasOwn(projects, project) ? projects[project] : undefined).mcpServers)
    }
  }

  get hasHook(): boolean {
    return this.#items.some(({ ours }) => ours)
  }

  /** Returns the items. Those beyond the limit are one; our hook is never among them. */
  items(): Item[] {
    if (this.#items.length <= maxItems) return this.#items
    this.#items.sort((one, other) => Number(other.ours === true) - Number(one.ours === true))
    const rest = this.#items.splice(maxItems - 1)
    this.push('permission', `${rest.length} more entries`, canonical(rest))
    return this.#items
  }

  #addWhole({ source, name }: ReadFile, bytes: Buffer, isOff: boolean): void {
    const { tool, program } = this.#place
    const shown = source.whole === 'skill' ? basename(dirname(name)) : name
    const command = hasPlugin(tool) && /"command":("(?:[^"\\]|\\.)*")/.exec(bytes.toString())?.[1]
    const plain = command && withoutPaths(JSON.parse(command), tool, program)
    if (plain && bytes.toString() === pluginText(tool, JSON.parse(command))) {
      this.push('hook', shown, `ours ${plain}${isOff ? ' disabled' : ''}`, isOff ? {} : { ours: true })
    } else this.push(source.whole ?? 'permission', shown, bytes)
  }

  #addSettings(file: string, settings: Record<string, unknown>, { only }: Source, isOff: boolean): void {
    const { hooks, ...others } = settings
    // Cursor ignores hooks in a file without a version.
    const isIgnored = this.#place.tool === 'cursor' && settings.version !== 1
    if (hooks !== undefined && !only) this.#addHooks(file, hooks, isOff || isIgnored)
    for (const [name, value] of Object.entries(others)) {
      if (only ? !only.includes(name) : cosmetic.has(name)) continue
      if (name === 'mcpServers' || (name === 'mcp' && this.#place.tool === 'opencode')) this.#addServers(value)
      else if (name === 'enabledPlugins') this.#addEach('plugin', file, value)
      else if (name === 'permissions') this.#addEach('permission', `${file} permissions`, value)
      else this.push('permission', `${file} ${name}`, canonical(value))
    }
  }

  /** Servers have the name that the coding agent and its policies use. */
  #addServers(value: unknown): void {
    for (const [name, server] of Object.entries(fieldsOf(value))) {
      this.push('server', name, canonical(server), serverDetails(server))
    }
  }

  #addEach(kind: ItemKind, file: string, value: unknown): void {
    const entries = Object.entries(fieldsOf(value))
    for (const [name, entry] of entries) this.push(kind, `${file} ${name}`, canonical(entry))
    // It has another form, such as a list.
    if (entries.length === 0) this.push(kind, file, canonical(value))
  }

  #addHooks(file: string, value: unknown, isOff: boolean): void {
    for (const [event, entries] of Object.entries(fieldsOf(value))) {
      for (const entry of Array.isArray(entries) ? entries : [entries]) this.#addHookEntry(file, event, entry, isOff)
    }
  }

  /** Adds each hook of an entry, which is either a command or a group of them. */
  #addHookEntry(file: string, event: string, entry: unknown, isOff: boolean): void {
    const { hooks, ...group } = fieldsOf(entry)
    const alone = Array.isArray(hooks) ? hooks.map((hook) => ({ hook, entry: { ...group, hooks: [hook] } })) : undefined
    for (const each of alone ?? [{ hook: entry, entry }]) this.#addHook(`${file} ${event}`, event, each, isOff)
  }

  #addHook(name: string, event: string, { hook, entry }: { hook: unknown; entry: unknown }, isOff: boolean): void {
    const { tool, program } = this.#place
    const { command } = fieldsOf(hook)
    const plain = withoutPaths(command, tool, program)
    const isWhole = plain !== undefined && isWholeEntry(tool, event, entry, String(command), canonical)
    if (isWhole) {
      const ours = isBeforeTools(tool, event) && !isOff ? ({ ours: true } as const) : {}
      this.push('hook', `${name} wardline`, `ours ${event} ${plain}${isOff ? ' disabled' : ''}`, ours)
      return
    }
    const { matcher } = fieldsOf(entry)
    // A matcher may contain the arguments of a command.
    const tools = typeof matcher === 'string' && /^[\w*|]{1,60}$/.test(matcher) ? ` ${matcher}` : ''
    // A weakened hook keeps its name, so that it counts as changed.
    this.push('hook', `${name}${isHookEntry(hook) ? ' wardline' : tools}`, canonical(entry))
  }

  push(kind: ItemKind, name: string, content: string | Buffer, more: Partial<Item> = {}): void {
    const clean = redactedText(plainLine(name), maxName - 10) || 'unnamed'
    let count = (this.#counts.get(`${kind} ${clean}`) ?? 0) + 1
    const numbered = () => (count === 1 ? clean : `${clean} (${count})`)
    while (this.#names.has(`${kind} ${numbered()}`)) count++
    this.#counts.set(`${kind} ${clean}`, count)
    this.#names.add(`${kind} ${numbered()}`)
    const hmac = createHmac('sha256', this.#place.key).update(`wardline-configuration\n${kind}\n`).update(content)
    this.#items.push({ kind, name: numbered(), sha256: hmac.digest('hex'), ...more })
  }
}
