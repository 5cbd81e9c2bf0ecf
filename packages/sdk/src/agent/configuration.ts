import { createHmac } from 'node:crypto'
import { basename, dirname } from 'node:path'
import { plainLine } from '../plain-line.ts'
import { redactedText } from '../redact.ts'
import type { CodingTool, Environment } from './agent-settings.ts'
import { BoundedReader, type FileContent, type FoundFile } from './configuration-files.ts'
import {
  claudeState,
  cosmetic,
  disablesHooks,
  fieldsOf,
  type ItemKind,
  type Source,
  sources,
  tomlDisablesHooks,
} from './configuration-sources.ts'
import { withoutPaths } from './hook-command.ts'
import { isBeforeTools, isHookEntry, isWholeEntry } from './hook-entries.ts'
import { settingsFolder } from './hook-settings.ts'
import { hasPlugin, pluginText } from './plugin-text.ts'
import { type ServerDetails, serverDetails } from './server-address.ts'
import { parseSettings } from './settings-text.ts'
import { shortHash } from './short-hash.ts'

// What a coding agent is configured with: names and hashes, never the content.

export interface Item extends ServerDetails {
  kind: ItemKind
  name: string
  sha256: string
  /** Our hook before tools, as `install` writes it, and not disabled. */
  ours?: true
}

interface Place {
  tool: CodingTool
  env: Environment
  /** Key of the hashes, so that a short secret cannot be guessed from its hash. */
  key: string
  home: string
  /** Folder in which the coding agent works. */
  project: string | undefined
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

function settingsOf(source: Source, content: FileContent): Record<string, unknown> | undefined {
  if (source.whole || !Buffer.isBuffer(content)) return undefined
  try {
    const settings = parseSettings(content.toString())
    // Fails where it would fail later.
    canonical(settings)
    return typeof settings === 'object' && settings !== null && !Array.isArray(settings)
      ? (settings as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

/** Returns the configuration of the user and that of the project. */
export function readConfiguration(place: Place): Configuration[] {
  const { tool, env, home, project } = place
  const reader = new BoundedReader()
  const user = settingsFolder(tool, env, home)
  const all = tool === 'claude-code' ? [...sources[tool], claudeState(!!env.CLAUDE_CONFIG_DIR)] : sources[tool]
  const read = (folder: string, source: Source): ReadFile[] =>
    reader.find(folder, source.path).map((file) => ({ ...file, source, settings: settingsOf(source, file.content) }))
  const ofUser = all
    .filter((source) => source.in !== 'project')
    .flatMap((source) => read(source.in === 'home' ? home : user, source))
  const isOff = ofUser.some((file) => disables(tool, file))
  const configurations = [{ source: tool as string, items: new Collection(place).add(ofUser, isOff).items() }]
  if (project === undefined) return configurations
  const ofProject = all.filter((source) => source.in === 'project').flatMap((source) => read(project, source))
  const isOffHere = ofProject.some((file) => disables(tool, file))
  const collection = new Collection(place)
  // A project can disable the hook of the user.
  collection.push('hook', 'in this folder', isOffHere ? 'disabled' : 'enabled', isOffHere ? {} : { ours: true })
  collection.add(ofProject, isOff || isOffHere).addServersOf(project, ofUser)
  return [...configurations, { source: sourceOf(tool, project), items: collection.items() }]
}

function disables(tool: CodingTool, { name, content, settings }: ReadFile): boolean {
  if (settings) return disablesHooks(tool, settings)
  return name.endsWith('config.toml') && Buffer.isBuffer(content) && tomlDisablesHooks(content.toString())
}

/** Folders of the same name have different sources. */
function sourceOf(tool: CodingTool, project: string): string {
  const name = basename(project)
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .slice(0, 40)
  return `${tool}:${name}-${shortHash(project)}`
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
      else if (Buffer.isBuffer(content)) this.#addWhole(file, content)
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

  /** Returns the items. Those beyond the limit are one; our hook is never among them. */
  items(): Item[] {
    if (this.#items.length <= maxItems) return this.#items
    this.#items.sort((one, other) => Number(other.ours === true) - Number(one.ours === true))
    const rest = this.#items.splice(maxItems - 1)
    this.push('permission', `${rest.length} more entries`, canonical(rest))
    return this.#items
  }

  #addWhole({ source, name }: ReadFile, bytes: Buffer): void {
    const { tool } = this.#place
    const shown = source.whole === 'skill' ? basename(dirname(name)) : name
    const command = hasPlugin(tool) && /"command":("(?:[^"\\]|\\.)*")/.exec(bytes.toString())?.[1]
    const plain = command && withoutPaths(JSON.parse(command), tool)
    if (plain && bytes.toString() === pluginText(tool, JSON.parse(command))) {
      this.push('hook', shown, `ours ${plain}`, { ours: true })
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
    const { tool } = this.#place
    const { command } = fieldsOf(hook)
    const plain = withoutPaths(command, tool)
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
