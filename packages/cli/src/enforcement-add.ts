import { randomBytes } from 'node:crypto'
import { existsSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { sanitize } from '@wardline/text'
import { type Command, InvalidArgumentError } from 'commander'
import { Failure } from './exit.ts'

/** Settings of a receiver; an empty value is filled in by the operator. */
interface Lever {
  settings: Record<string, string>
  /** What its file of identities lists for an agent. */
  identity?: string
  /** Default: suspend and resume. */
  actions?: ['suspend']
}

/** The levers of examples/enforcement, with the settings that have no default there. */
export const levers: Record<string, Lever> = {
  docker: { settings: { DOCKER_SOCKET: '/var/run/docker.sock' } },
  kubernetes: { settings: { KUBERNETES_NAMESPACE: '', RESUME_REPLICAS: '1' } },
  litellm: { settings: { LITELLM_URL: '', LITELLM_KEY: '' }, identity: 'hash of a key, or id of an agent' },
  okta: { settings: { OKTA_URL: '', OKTA_TOKEN: '' }, identity: 'id of an app, user or AI agent' },
  entra: {
    settings: { ENTRA_TENANT: '', ENTRA_CLIENT_ID: '', ENTRA_CLIENT_SECRET: '' },
    identity: 'object id of a service principal or agent identity',
  },
  aws: { settings: { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '' }, identity: 'name of a role' },
  vault: { settings: { VAULT_ADDR: '', VAULT_TOKEN: '', ACCESSORS: '' }, actions: ['suspend'] },
}

const firstPort = 8090

interface Entry {
  name: string
  url: string
  secret: string
  instances?: string[]
  tags?: string[]
  actions?: string[]
}

interface Options {
  name?: string
  url?: string
  instance?: string[]
  tag?: string[]
  file?: string
}

const exists = (message: string) => new Failure(message, 'exists', 'refused')

/** Returns the address of the first port on this machine that no other point has. */
function localUrl(points: readonly { url: string }[]): string {
  const used = new Set(points.map(({ url }) => new URL(url).port))
  let port = firstPort
  while (used.has(String(port))) port += 1
  return `http://127.0.0.1:${port}/`
}

/** Single quotes: everything in them is as it stands. */
const quoted = (value: string): string => (/^[\w./:+=-]*$/.test(value) ? value : `'${value}'`)

function settingsText(lever: string, entry: Entry, settings: Record<string, string>): string {
  const { port, protocol } = new URL(entry.url)
  const all = {
    WARDLINE_ENFORCEMENT_SECRET: entry.secret,
    // Behind a proxy with TLS, the receiver has another port.
    PORT: protocol === 'http:' && port !== '' ? port : String(firstPort),
    ...settings,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}=${quoted(value)}`)
  return `# Settings of the receiver ${lever}; a secret can also be in a file: <name>_FILE=<path>.\n${lines.join('\n')}\n`
}

/** Writes the entry and the receiver's settings; both files are private. Throws Failure before it changes a file. */
async function add(lever: string, { name = lever, url, instance, tag, file: given }: Options): Promise<void> {
  // On demand: the other commands of this group do not need the modules of the service.
  const { loadEnforcementFiles } = await import('@wardline/server')
  const { parsePoints, readPrivateFile } = await loadEnforcementFiles()
  const { settings, identity, actions } = levers[lever]!
  const named = resolve(given ?? (process.env.WARDLINE_ENFORCEMENT_FILE || 'enforcement.json'))
  const file = existsSync(named) ? realpathSync(named) : named
  const text = existsSync(file) ? readPrivateFile(file, 'WARDLINE_ENFORCEMENT_FILE') : '[]'
  const points = parsePoints(text, file)
  if (points.some((point) => point.name === name)) {
    throw exists(`${file} has a point ${name}: choose another --name, or remove the entry.`)
  }
  const entry: Entry = {
    name,
    url: url ?? localUrl(points),
    secret: `whsec_${randomBytes(32).toString('base64')}`,
    ...(instance === undefined ? {} : { instances: instance }),
    ...(tag === undefined ? {} : { tags: tag }),
    ...(actions === undefined ? {} : { actions }),
  }
  const whole = `${JSON.stringify([...JSON.parse(text), entry], null, 2)}\n`
  parsePoints(whole, file)
  const folder = dirname(file)
  const envFile = join(folder, `${name}.env`)
  const identities: Record<string, string> =
    identity === undefined ? {} : { IDENTITIES: join(folder, `${name}.identities.json`) }
  write(envFile, settingsText(lever, entry, { ...settings, ...identities }), file, whole)

  const missing = Object.keys(settings).filter((setting) => settings[setting] === '')
  const lines = [
    `Added ${name} to ${file}, for ${[...(instance ?? []), ...(tag ?? [])].join(' ') || 'all agents'}.`,
    `Settings of the receiver: ${envFile}${missing.length > 0 ? `; fill in ${missing.join(', ')}` : ''}`,
    ...Object.values(identities).map((path) => `Identities: list them in ${path}, { "<agent>": "<${identity}>" }`),
    '',
    "Next, start the receiver in a clone of Wardline's repository:",
    `  npm run example -- enforcement ${lever} ${quoted(envFile)}`,
    'Restart Wardline with this setting, and test the point:',
    `  WARDLINE_ENFORCEMENT_FILE=${quoted(file)}`,
    `  wardline enforcement test ${name}`,
  ]
  for (const line of lines) console.log(sanitize(line))
}

/** Creates the settings and replaces the file of points, or changes nothing. */
function write(envFile: string, env: string, file: string, points: string): void {
  try {
    writeFileSync(envFile, env, { mode: 0o600, flag: 'wx' })
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause
    throw exists(`${envFile} exists: choose another --name, or move the file.`)
  }
  const draft = `${file}.${process.pid}.part`
  try {
    writeFileSync(draft, points, { mode: 0o600, flag: 'wx' })
    renameSync(draft, file)
  } catch (cause) {
    rmSync(draft, { force: true })
    rmSync(envFile)
    throw cause
  }
}

function leverArgument(value: string): string {
  if (Object.hasOwn(levers, value)) return value
  throw new InvalidArgumentError(`The levers are ${Object.keys(levers).join(', ')}.`)
}

const several = (value: string, before: string[] = []): string[] => [...before, value]

export function addEnforcementAdd(enforcement: Command): void {
  enforcement
    .command('add')
    .description('write the entry of a point, and the settings of its receiver from examples/enforcement')
    .argument('<lever>', Object.keys(levers).join(', '), leverArgument)
    .option('--name <name>', 'name of the point (default: the lever)')
    .option('--url <url>', 'address of the receiver (default: a port of this machine, from 8090)')
    .option('--instance <pattern>', 'call it for this agent, or prefix followed by *; repeatable', several)
    .option('--tag <pattern>', 'call it for agents with this tag, or prefix followed by *; repeatable', several)
    .option('--file <file>', 'file of points (default: WARDLINE_ENFORCEMENT_FILE, else enforcement.json)')
    .action(add)
}
