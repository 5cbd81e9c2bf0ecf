import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { dataFolder } from '@wardline/contract'
import { Failure } from '../exit.ts'
import { defaultProfile, type Profiles } from './profile-file.ts'

/** Address and key from the options of a command. */
export interface ServiceFlags {
  url?: string
  profile?: string
  keyFile?: string
  json?: boolean
}

export interface ServiceSettings {
  url: string
  /** Source of the address, for messages. */
  urlFrom: string
  /** Undefined if no key is configured. */
  key: KeyPlace | undefined
  /** Whether a service or a key file is configured; the default is the service on this machine. */
  isChosen: boolean
}

/** A key or its file, and the source of this setting. */
export type KeyPlace = { from: string } & ({ key: string } | { file: string })

/**
 * Whether the stored admin key may be sent to the address, because it is that of this machine's service. Other loopback
 * addresses, such as 127.0.0.2, may belong to another program or a tunnel.
 */
export const isLocal = (url: string): boolean => ['localhost', '127.0.0.1', '[::1]'].includes(new URL(url).hostname)

export const localUrl = 'http://127.0.0.1:4747'

interface Layer {
  url?: string | undefined
  urlFrom: string
  key?: KeyPlace | undefined
  /** The key may be used only for the address of this layer. */
  keepsKey?: boolean
}

const invalidConfiguration = (message: string) => new Failure(message, 'configuration', 'configuration')

/** Normalizes an address. Throws Error with the predicate of a sentence, which does not quote the address. */
export function serviceUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol)) throw new Error('must begin with http:// or https://')
  if (url.username || url.password) throw new Error('must not contain a user or a password')
  if (url.pathname !== '/' || url.search || url.hash) throw new Error('must end after the host and the port')
  return url.origin
}

function checkedUrl(text: string, from: string): string {
  try {
    return serviceUrl(text)
  } catch (fault) {
    throw invalidConfiguration(`The address in ${from} ${(fault as Error).message}.`)
  }
}

function profileLayer(name: string | undefined, from: string, profiles: Profiles): Layer[] {
  if (!name) return []
  const profile = profiles.get(name)
  if (!profile)
    throw invalidConfiguration(`No profile ${name} (from ${from}): wardline profile list shows the profiles.`)
  const place = `the profile ${name}`
  return [
    {
      url: checkedUrl(profile.url, place),
      urlFrom: place,
      key: profile.key === undefined ? undefined : { from: place, key: profile.key },
      keepsKey: true,
    },
  ]
}

function environmentKey({ WARDLINE_KEY: key, WARDLINE_KEY_FILE: file }: NodeJS.ProcessEnv): KeyPlace | undefined {
  if (key && file) throw invalidConfiguration('WARDLINE_KEY and WARDLINE_KEY_FILE exclude each other: unset one.')
  if (key) return { from: 'WARDLINE_KEY', key }
  return file ? { from: 'WARDLINE_KEY_FILE', file } : undefined
}

/** Returns the settings by precedence: options, environment, default profile. An empty variable counts as unset. */
function layersOf(flags: ServiceFlags, env: NodeJS.ProcessEnv, profiles: Profiles): Layer[] {
  const { WARDLINE_URL, WARDLINE_PROFILE } = env
  return [
    {
      url: flags.url === undefined ? undefined : checkedUrl(flags.url, '--url'),
      urlFrom: '--url',
      key: flags.keyFile === undefined ? undefined : { from: '--key-file', file: flags.keyFile },
    },
    ...profileLayer(flags.profile, '--profile', profiles),
    {
      url: WARDLINE_URL ? checkedUrl(WARDLINE_URL, 'WARDLINE_URL') : undefined,
      urlFrom: 'WARDLINE_URL',
      key: environmentKey(env),
    },
    ...profileLayer(WARDLINE_PROFILE, 'WARDLINE_PROFILE', profiles),
    ...(profiles.has(defaultProfile) ? profileLayer(defaultProfile, 'the default', profiles) : []),
  ]
}

/** Returns the address that the service wrote; undefined if none runs. */
function writtenUrl(file: string): string | undefined {
  try {
    const url = serviceUrl(readFileSync(file, 'utf8').trim())
    // A folder that others made, such as a clone, must not have the caller's key sent to their server.
    return isLocal(url) ? url : undefined
  } catch {
    return undefined
  }
}

/** The service that runs in this folder, or that the same environment would start, or the only one with a login. */
function serviceHere(env: NodeJS.ProcessEnv, loggedIn: readonly string[]): { url: string; urlFrom: string } {
  const file = join(env.WARDLINE_DATA_DIR || dataFolder.path, dataFolder.addressFile)
  const written = writtenUrl(file)
  if (written !== undefined) return { url: written, urlFrom: file }
  const port = Number(env.PORT)
  if (Number.isInteger(port) && port > 0 && port < 65_536) return { url: `http://127.0.0.1:${port}`, urlFrom: 'PORT' }
  // With several, a command could reach another service than the person has in mind.
  return loggedIn.length === 1
    ? { url: loggedIn[0]!, urlFrom: 'the only login' }
    : { url: localUrl, urlFrom: 'the address of a service on this machine' }
}

/** Resolves address and key. Throws Failure with exit `configuration` if the settings are invalid. */
export function resolveSettings(
  flags: ServiceFlags,
  env: NodeJS.ProcessEnv,
  profiles: Profiles,
  loggedIn: readonly string[] = [],
): ServiceSettings {
  const layers = layersOf(flags, env, profiles)
  const chosen = layers.find(({ url }) => url !== undefined)
  const here = serviceHere(env, loggedIn)
  const url = chosen?.url ?? here.url
  // The key of a profile must not be sent to another address.
  const key = layers.find((layer) => layer.key && (!layer.keepsKey || layer.url === url))?.key
  return {
    url,
    urlFrom: chosen?.urlFrom ?? here.urlFrom,
    key,
    isChosen: chosen !== undefined || flags.keyFile !== undefined,
  }
}
