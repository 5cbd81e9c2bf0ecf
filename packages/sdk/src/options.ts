import type { FailMode, MonitorOptions, OnAsk } from './monitor.ts'

/** The options with defaults filled in. */
export type Settings = Required<
  Pick<MonitorOptions, 'url' | 'key' | 'instanceId' | 'name' | 'staleAfterMs' | 'checkTimeoutMs' | 'resultText'>
> &
  Pick<MonitorOptions, 'agentType' | 'version' | 'tags' | 'parent' | 'publicKey' | 'stateFile' | 'suspendLog'> & {
    failMode: FailMode
    onAsk: OnAsk
  }

/** A rotation with overlap needs two keys. More would cost time: each message may be verified against every key. */
const maxPublicKeys = 8

const known: Record<keyof MonitorOptions, true> = {
  url: true,
  key: true,
  instanceId: true,
  name: true,
  agentType: true,
  version: true,
  tags: true,
  parent: true,
  publicKey: true,
  failMode: true,
  staleAfterMs: true,
  checkTimeoutMs: true,
  stateFile: true,
  suspendLog: true,
  resultText: true,
  onAsk: true,
}

function check(holds: boolean, sentence: string): void {
  if (!holds) throw new TypeError(`createMonitor: ${sentence}`)
}

/** Leaves the url out of its errors, because it may contain a password. */
function checkUrl(url: unknown): void {
  let parsed: URL | undefined
  try {
    parsed = new URL(url as string)
  } catch {
    // Reported below.
  }
  check(
    typeof url === 'string' && parsed !== undefined && /^https?:$/.test(parsed.protocol),
    'url must be an http or https address, such as https://wardline.example',
  )
  check(
    parsed?.username === '' && parsed.password === '' && parsed.search === '' && parsed.hash === '',
    'url must have no user, password, query or fragment; the key goes into the option key',
  )
}

/** Whether the key and the answers of the service cross a network unencrypted. */
export function isUnencrypted(url: string): boolean {
  const { protocol, hostname } = new URL(url)
  // Like `isLoopback` of @wardline/text, plus names under localhost, which are loopback as well (RFC 6761, section
  // 6.3).
  const isLoopback = /^(.+\.)?localhost$|^127(\.\d{1,3}){3}$|^\[::1\]$/.test(hostname)
  return protocol === 'http:' && !isLoopback
}

function checkId(name: keyof MonitorOptions, id: unknown): void {
  check(
    typeof id === 'string' && /^[a-z0-9_-]{1,64}$/.test(id),
    `${name} must have 1 to 64 lower-case letters, digits, _ and -`,
  )
}

function checkText(name: keyof MonitorOptions, value: unknown, maxLength: number): void {
  const isValid = typeof value === 'string' && /\S/.test(value) && [...value].length <= maxLength
  check(value === undefined || isValid, `${name} must be a string of 1 to ${maxLength} characters`)
}

/** A misspelled value would silently mean the default. */
export function checkOnAsk(caller: string, onAsk: unknown): void {
  if (onAsk !== 'wait' && onAsk !== 'deny') throw new TypeError(`${caller}: onAsk must be "wait" or "deny"`)
}

/** Checks the options and fills in defaults. Throws TypeError that names the option and the expected value. */
export function readOptions(options: MonitorOptions): Settings {
  check(typeof options === 'object' && options !== null, 'options are required: { url, key, instanceId }')
  // Without this check, a misspelled failMode would silently mean "open".
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(known, name))
  check(unknown === undefined, `${unknown} is not an option; the options are ${Object.keys(known).join(', ')}`)
  const { url, key, instanceId, failMode = 'open', staleAfterMs = 120_000, checkTimeoutMs = 1_000 } = options
  checkUrl(url)
  check(
    typeof key === 'string' && /^[\x21-\x7e]{1,500}$/.test(key),
    'key must be the key of this agent: printable ASCII characters without spaces (is the environment variable set?)',
  )
  checkId('instanceId', instanceId)
  // An empty variable of the environment counts as none.
  const parent = options.parent || undefined
  if (parent !== undefined) checkId('parent', parent)
  check(failMode === 'open' || failMode === 'closed', 'failMode must be "open" or "closed"')
  for (const [name, value] of Object.entries({ staleAfterMs, checkTimeoutMs })) {
    check(Number.isFinite(value) && value > 0 && value <= 86_400_000, `${name} must be milliseconds, at most a day`)
  }
  const { publicKey } = options
  // The last of the 43 base64url characters encodes only 4 bits.
  check(
    publicKey === undefined ||
      (typeof publicKey === 'string' &&
        publicKey.split(',', maxPublicKeys + 1).length <= maxPublicKeys &&
        publicKey.split(',').every((x) => /^[\w-]{42}[AEIMQUYcgkosw048]$/.test(x.trim()))),
    'publicKey must be the x of a key in /.well-known/wardline-keys.json, or at most ' +
      `${maxPublicKeys} of them separated by commas`,
  )
  checkText('name', options.name, 80)
  checkText('agentType', options.agentType, 100)
  checkText('version', options.version, 100)
  const { tags } = options
  check(
    tags === undefined ||
      (Array.isArray(tags) &&
        tags.length <= 20 &&
        tags.every((tag) => typeof tag === 'string' && /^[a-z0-9_.:-]{1,40}$/.test(tag))),
    'tags must be an array of at most 20 strings, each of 1 to 40 lower-case letters, digits, _ . : and -',
  )
  const { resultText = false } = options
  check(typeof resultText === 'boolean', 'resultText must be true or false')
  const { onAsk = 'wait' } = options
  checkOnAsk('createMonitor', onAsk)
  checkText('stateFile', options.stateFile, 4096)
  checkText('suspendLog', options.suspendLog, 4096)
  const { agentType, version, stateFile } = options
  const suspendLog = options.suspendLog ?? (stateFile === undefined ? undefined : `${stateFile}.log`)
  const name = options.name ?? instanceId
  return {
    url,
    key,
    instanceId,
    name,
    failMode,
    staleAfterMs,
    checkTimeoutMs,
    agentType,
    version,
    tags,
    // A process may hand its environment to those that it starts.
    parent: parent === instanceId ? undefined : parent,
    publicKey,
    stateFile,
    suspendLog,
    resultText,
    onAsk,
  }
}
