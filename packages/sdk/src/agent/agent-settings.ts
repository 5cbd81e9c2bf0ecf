import { fstatSync } from 'node:fs'
import { homedir, hostname, userInfo } from 'node:os'
import { isAbsolute, join } from 'node:path'
import type { codingTools } from '../coding-tools.ts'
import type { FailMode, MonitorOptions } from '../monitor.ts'
import { readOptions } from '../options.ts'
import { openRegular, tailOf, withFile } from '../regular-file.ts'
import { shortHash } from './short-hash.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** A coding agent whose tool calls are hooked. */
export type CodingTool = (typeof codingTools)[number]
/** `supervisor` stands for the program that it runs, whose name it takes. */
export type AgentKind = CodingTool | 'mcp-proxy' | 'supervisor'

export const productNames: Record<AgentKind, string> = {
  'claude-code': 'Claude Code',
  codex: 'Codex',
  cursor: 'Cursor',
  'gemini-cli': 'Gemini CLI',
  'copilot-cli': 'Copilot CLI',
  opencode: 'OpenCode',
  openclaw: 'OpenClaw',
  'mcp-proxy': 'MCP proxy',
  supervisor: 'Supervisor',
}

/**
 * What happens to a call about which a policy asks: `deny` it until an operator has approved it, `wait` for the operator as
 * long as the time limit of the hook allows, or let the coding agent `ask` its own user.
 */
type HookOnAsk = 'deny' | 'wait' | 'ask'

export interface AgentSettings {
  url: string
  key: string
  instanceId: string
  name: string
  agentType: AgentKind
  failMode: FailMode
  parent: string | undefined
  publicKey: string | undefined
  resultText: boolean
  onAsk: HookOnAsk
}

/** The fault of invalid settings, and the parts that could be read. */
export interface InvalidSettings {
  fault: string
  failMode: FailMode
  url: string | undefined
  instanceId: string | undefined
}

const fileNames = [
  'url',
  'key',
  'keyFile',
  'instanceId',
  'name',
  'failMode',
  'publicKey',
  'resultText',
  'onAsk',
] as const
type FileSettings = Partial<Record<(typeof fileNames)[number], string>>

class InvalidSetting extends Error {}

/** By the XDG Base Directory Specification, a relative folder counts as unset. */
function xdgFolder(given: string | undefined, ...usual: string[]): string {
  return join(given !== undefined && isAbsolute(given) ? given : join(homedir(), ...usual), 'wardline')
}

const settingsFile = (env: Environment): string => join(xdgFolder(env.XDG_CONFIG_HOME, '.config'), 'agent.json')
export const stateFolder = (env: Environment): string => xdgFolder(env.XDG_STATE_HOME, '.local', 'state')

/** Settings and keys have a few hundred bytes. Of a longer file only the end is read, which is invalid. */
const maxFileBytes = 64 * 1024

const codeOf = (fault: unknown): string => (fault as { code?: string }).code ?? 'unknown'

/**
 * Reads a file only if other users cannot. Checks and reads one descriptor, so that the file cannot be swapped in
 * between.
 */
function readPrivately(file: string): string | undefined {
  let descriptor: number
  try {
    descriptor = openRegular(file, 'read', 'follow')
  } catch (fault) {
    if (/^ENO(ENT|TDIR)$/.test(codeOf(fault))) return undefined
    if (codeOf(fault) === 'unknown') throw fault
    throw new InvalidSetting(`${file} cannot be read (${codeOf(fault)}).`)
  }
  return withFile(descriptor, () => {
    // Windows has no mode bits; the user's folder is private there.
    if (process.platform !== 'win32' && (fstatSync(descriptor).mode & 0o077) !== 0) {
      throw new InvalidSetting(
        `Others on this machine can read or change ${file}, which contains a key. Run: chmod 600 ${file}`,
      )
    }
    return tailOf(descriptor, maxFileBytes)
  })
}

/** The messages do not quote the file, which contains a key. */
function parseFile(file: string, text: string): FileSettings {
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch {
    throw new InvalidSetting(`${file} is not JSON.`)
  }
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw new InvalidSetting(`${file} must be an object, such as { "url": "…", "key": "…" }.`)
  }
  for (const [name, value] of Object.entries(content)) {
    // A misspelled failMode would silently be "open".
    if (!(fileNames as readonly string[]).includes(name)) {
      throw new InvalidSetting(
        `${file} has the unknown setting ${JSON.stringify(name)}; known are ${fileNames.join(', ')}.`,
      )
    }
    if (typeof value !== 'string') throw new InvalidSetting(`${name} in ${file} must be a string.`)
  }
  return content
}

function readKeyFile(file: string): string {
  try {
    return withFile(openRegular(file, 'read', 'follow'), (descriptor) => tailOf(descriptor, maxFileBytes)).trim()
  } catch (fault) {
    throw new InvalidSetting(`The key file ${file} cannot be read (${codeOf(fault)}).`)
  }
}

function failModeOf(value: string | undefined, where: string): FailMode | undefined {
  if (!value) return undefined
  if (value !== 'open' && value !== 'closed') throw new InvalidSetting(`${where} must be "open" or "closed".`)
  return value
}

function isOn(value: string | undefined): boolean {
  if (value !== undefined && value !== '' && value !== 'on' && value !== 'off') {
    throw new InvalidSetting('WARDLINE_RESULT_TEXT, or resultText in the file, must be "on" or "off".')
  }
  return value === 'on'
}

const onAsks: readonly unknown[] = ['deny', 'wait', 'ask'] satisfies HookOnAsk[]

/** Only the file may leave the decision to the user of the coding agent, which a folder could switch to approve all. */
function onAskOf(env: Environment, file: FileSettings): HookOnAsk | undefined {
  for (const value of [env.WARDLINE_ON_ASK, file.onAsk]) {
    if (value && !onAsks.includes(value)) {
      throw new InvalidSetting('WARDLINE_ON_ASK, or onAsk in the file, must be "deny", "wait" or "ask".')
    }
  }
  const isLoosened = env.WARDLINE_ON_ASK === 'ask' && file.url !== undefined && file.onAsk !== 'ask'
  return ((isLoosened ? undefined : env.WARDLINE_ON_ASK) || file.onAsk || undefined) as HookOnAsk | undefined
}

/** Derives an id from `<kind>-<host>-<user>`; characters that are invalid in an id are represented by a hash. */
export function derivedInstanceId(kind: string, host: string, user: string): string {
  const wanted = `${kind}-${host}-${user}`.toLowerCase()
  const id = wanted.replace(/[^a-z0-9_-]+/g, '-')
  return id === wanted && id.length <= 64 ? id : `${id.slice(0, 56).replace(/-+$/, '')}-${shortHash(wanted)}`
}

/** In a container the user may have no name. */
function userName(env: Environment): string {
  try {
    return userInfo().username
  } catch {
    return env.USER || String(process.getuid?.() ?? 'user')
  }
}

/**
 * Reads the settings from the environment, else from the file. Variables may come from a folder that the coding agent
 * trusts, so they must neither redirect the key of the file nor loosen its settings: WARDLINE_URL is only used together
 * with a key, and the strictest fail mode applies.
 */
export function readAgentSettings(
  env: Environment,
  kind: AgentKind,
  failClosed: boolean,
  program?: string,
): AgentSettings | InvalidSettings {
  const user = userName(env)
  // Assume "closed" until all settings are read, because one may say so.
  const known: Omit<InvalidSettings, 'fault'> = { failMode: 'closed', url: undefined, instanceId: undefined }
  try {
    const fileName = settingsFile(env)
    const text = readPrivately(fileName)
    const file = text === undefined ? {} : parseFile(fileName, text)
    const modes = [
      failModeOf(env.WARDLINE_FAIL_MODE, 'WARDLINE_FAIL_MODE'),
      failModeOf(file.failMode, `failMode in ${fileName}`),
    ]
    if (!failClosed && !modes.includes('closed')) known.failMode = 'open'
    known.instanceId =
      env.WARDLINE_INSTANCE_ID || file.instanceId || derivedInstanceId(program ?? kind, hostname(), user)
    const { url, key } = readAccess(env, file)
    known.url = url
    if (!url || !key) {
      const missing = url ? 'a key' : 'the address of the service'
      throw new InvalidSetting(
        `The setting for ${missing} is missing. Set WARDLINE_URL and WARDLINE_KEY, or write ${fileName}.`,
      )
    }
    const name = file.name ?? `${program ?? productNames[kind]} of ${user} on ${hostname()}`.slice(0, 80)
    const { instanceId, failMode } = known
    // The file's public keys belong to its service; variables cannot add to them.
    const publicKey = (url === file.url && file.publicKey) || env.WARDLINE_PUBLIC_KEY || undefined
    const parent = env.WARDLINE_PARENT === instanceId ? undefined : env.WARDLINE_PARENT || undefined
    const resultText = isOn(file.resultText ?? env.WARDLINE_RESULT_TEXT)
    // A client of MCP waits for a call, a coding agent only for seconds for its hook.
    const onAsk = onAskOf(env, file) ?? (kind === 'mcp-proxy' ? 'wait' : 'deny')
    const of = { url, key, instanceId, name, agentType: kind, parent }
    return checkedSettings({ ...of, failMode, publicKey, resultText, onAsk })
  } catch (fault) {
    if (fault instanceof InvalidSetting) return { ...known, fault: fault.message }
    throw fault
  }
}

/** A key from the file, or from a file that it names, is only sent to the address in the file. */
function readAccess(env: Environment, file: FileSettings): { url?: string | undefined; key?: string | undefined } {
  const given = env.WARDLINE_KEY || (env.WARDLINE_KEY_FILE && readKeyFile(env.WARDLINE_KEY_FILE))
  if (!env.WARDLINE_URL || !given) {
    if (!file.url) return { url: env.WARDLINE_URL, key: undefined }
    return { url: file.url, key: given || file.key || (file.keyFile && readKeyFile(file.keyFile)) }
  }
  // The variable may name the same key file as the settings, or the settings file itself.
  const own = file.key || (file.keyFile && !env.WARDLINE_KEY && readKeyFile(file.keyFile))
  if (own && !env.WARDLINE_KEY && given.includes(own) && env.WARDLINE_URL !== file.url) {
    throw new InvalidSetting('WARDLINE_KEY_FILE is the key file of the settings file, whose key is only for its url.')
  }
  return { url: env.WARDLINE_URL, key: given }
}

/** A proxy cannot ask the user of its client. */
export const monitorOptions = ({ onAsk, ...settings }: AgentSettings): MonitorOptions => ({
  ...settings,
  onAsk: onAsk === 'wait' ? 'wait' : 'deny',
})

function checkedSettings(settings: AgentSettings): AgentSettings {
  try {
    readOptions(monitorOptions(settings))
    return settings
  } catch (fault) {
    throw new InvalidSetting(`${(fault as Error).message.replace(/^createMonitor: /, 'Among the settings, ')}.`)
  }
}
