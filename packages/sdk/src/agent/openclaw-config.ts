import { fieldsOf, listOf } from './configuration-sources.ts'
import { withMember } from './hook-entries.ts'
import { withItem, without } from './json-edit.ts'
import { InvalidFile, parseSettings } from './settings-text.ts'

// OpenClaw loads a plugin only if its configuration names the file and enables the id.

const pluginId = 'wardline'

type Fields = Record<string, unknown>
type Path = readonly string[]

function fieldsAt(text: string, path: Path): Fields {
  let found: unknown = parseSettings(text)
  for (const step of ['', ...path]) {
    if (step) found = (found as Fields)[step] ?? {}
    if (typeof found !== 'object' || found === null || Array.isArray(found)) {
      throw new InvalidFile(`${path.join('.') || 'The configuration'} must be an object.`)
    }
  }
  return found as Fields
}

function listAt(text: string, path: Path): unknown[] {
  const list = fieldsAt(text, path.slice(0, -1))[path.at(-1)!] ?? []
  if (!Array.isArray(list)) throw new InvalidFile(`${path.join('.')} must be a list.`)
  return list
}

function withValue(text: string, path: Path, value: unknown): string {
  const [parent, key] = [path.slice(0, -1), path.at(-1)!]
  const fields = fieldsAt(text, parent)
  if (fields[key] === value) return text
  const isThere = parent.length === 0 || Object.hasOwn(fieldsAt(text, parent.slice(0, -1)), parent.at(-1)!)
  return withMember(isThere ? text : withValue(text, parent, {}), parent, key, value)
}

const entryPath = ['plugins', 'entries', pluginId]
/** The default of OpenClaw, longer than the plugin waits for the hook. */
const timeoutMs = 15_000
const pathsPath = ['plugins', 'load', 'paths']
const allowPath = ['plugins', 'allow']

/** Returns the configuration in which the plugin is loaded. Throws InvalidFile, also if the user has disabled it. */
export function withPlugin(given: string | null, file: string): string {
  let text = given !== null && /[^\s\ufeff]/.test(given) ? given : `${given ?? ''}{}\n`
  if (fieldsAt(text, ['plugins']).enabled === false) {
    throw new InvalidFile('plugins.enabled is false, so OpenClaw would not load the plugin.')
  }
  if (listAt(text, ['plugins', 'deny']).includes(pluginId)) {
    throw new InvalidFile(`plugins.deny names ${pluginId}, so OpenClaw would not load the plugin.`)
  }
  const paths = listAt(text, pathsPath)
  if (paths.length === 0) text = withValue(text, pathsPath, [file])
  else if (!paths.includes(file)) text = withItem(text, pathsPath, paths.length, file)
  text = withValue(text, [...entryPath, 'enabled'], true)
  // The gateway loads a plugin without a manifest at startup only if its entry has a setting for hooks.
  const timeouts = [...entryPath, 'hooks', 'timeouts']
  if (fieldsAt(text, timeouts).before_tool_call === undefined) {
    text = withValue(text, [...timeouts, 'before_tool_call'], timeoutMs)
  }
  // An empty list allows every plugin.
  const allowed = listAt(text, allowPath)
  return allowed.length === 0 || allowed.includes(pluginId) ? text : withItem(text, allowPath, allowed.length, pluginId)
}

/** Returns why OpenClaw does not load the plugin in `file`; undefined if it does. */
export function pluginFault(config: unknown, file: string): string | undefined {
  const { enabled, deny, allow, entries, load } = fieldsOf(fieldsOf(config).plugins)
  if (enabled === false) return 'plugins.enabled'
  if (listOf(deny).includes(pluginId)) return 'plugins.deny'
  if (listOf(allow).length > 0 && !listOf(allow).includes(pluginId)) return 'plugins.allow'
  if (fieldsOf(fieldsOf(entries)[pluginId]).enabled !== true) return 'plugins.entries.wardline'
  return listOf(fieldsOf(load).paths).includes(file) ? undefined : 'plugins.load.paths'
}

function withoutEntry(text: string, path: Path, value: string): string {
  const at = listAt(text, path).indexOf(value)
  return at < 0 ? text : without(text, [...path, at])
}

/** Returns the configuration without the plugin and without objects that contained nothing else. Throws InvalidFile. */
export function withoutPlugin(given: string, file: string): string {
  // Without the file, an entry of that id is the user's.
  if (!listAt(given, pathsPath).includes(file)) return given
  let text = withoutEntry(withoutEntry(given, pathsPath, file), allowPath, pluginId)
  if (Object.hasOwn(fieldsAt(text, ['plugins', 'entries']), pluginId)) text = without(text, entryPath)
  for (const path of [pathsPath, ['plugins', 'load'], ['plugins', 'entries'], ['plugins']]) {
    const value = fieldsAt(text, path.slice(0, -1))[path.at(-1)!]
    if (typeof value === 'object' && value !== null && Object.keys(value).length === 0) text = without(text, path)
  }
  return text
}
