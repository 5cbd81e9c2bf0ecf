import { hkdfSync } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fchmodSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { type Config, ConfigError } from './config/config.ts'
import { randomSecret } from './ids.ts'
import { makePrivate, openPrivateFolder, syncFolder } from './private-files.ts'

export interface Secrets {
  /** Signs control messages. */
  controlKey: Buffer
  /** Seed of the Ed25519 key pair that signs control messages for agents. */
  controlSeed: Buffer
  /** Signs the events that processes publish to each other. */
  eventKey: Buffer
  /** Keys the HMAC under which decoys are stored. */
  decoyKey: Buffer
  /** Derives, with a salt in the database, the seed of each key pair that signs evidence. */
  evidenceKey: Buffer
  /** Becomes the secp256k1 key that signs attestations where no wallet is configured: 48 bytes. */
  attestationKey: Buffer
  /** Encrypts the settings of alert channels. */
  channelKey: Buffer
  /** Encrypts the tokens of people's providers. */
  signInKey: Buffer
  /** Keys the HMAC of buttons in alerts that decide approvals. */
  pressKey: Buffer
  /** Identifies this deployment to alert receivers: 16 hexadecimal digits that reveal no key. */
  deployment: string
}

/** Makes the data folder and its secrets private to this user. May return a warning. Throws ConfigError. */
export function openDataDir(dataDir: string): string | undefined {
  const warning = openPrivateFolder(dataDir)
  for (const name of ['secret', 'admin-key']) makePrivate(join(dataDir, name))
  return warning
}

/** Writes a file that only this user can read, synced to disk with its name because decoys are worthless without their key. */
export function writePrivateFile(file: string, content: string): void {
  const handle = openSync(file, 'w', 0o600)
  try {
    fchmodSync(handle, 0o600)
    writeSync(handle, content)
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
  syncFolder(dirname(file))
}

/** 32 random bytes as base64url. */
const secretForm = /^[\w-]{43}$/

/** Creates the file atomically. If two processes start together, the first one's file is kept. */
function createSecretFile(file: string): void {
  const draft = `${file}.${randomSecret(6)}`
  writePrivateFile(draft, `${randomSecret(32)}\n`)
  try {
    linkSync(draft, file)
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== 'EEXIST') throw fault
  } finally {
    unlinkSync(draft)
  }
  syncFolder(dirname(file))
}

function masterSecret(config: Config): string {
  if (config.secret) return config.secret
  const file = join(config.dataDir, 'secret')
  if (!existsSync(file)) createSecretFile(file)
  const secret = readFileSync(file, 'utf8').trim()
  if (secretForm.test(secret)) return secret
  throw new ConfigError([`${file} does not contain the secret that was written to it: restore it from a backup.`])
}

/** Derives one key per purpose from the master secret (HKDF, RFC 5869), so a leaked key does not reveal others. */
export function openSecrets(config: Config): Secrets {
  const master = masterSecret(config)
  const derive = (purpose: string, bytes = 32) => Buffer.from(hkdfSync('sha256', master, 'wardline', purpose, bytes))
  return {
    controlKey: derive('control-messages'),
    controlSeed: derive('control-signatures'),
    eventKey: derive('event-messages'),
    decoyKey: derive('decoy-fingerprints'),
    evidenceKey: derive('evidence-signatures'),
    attestationKey: derive('attestation-signatures', 48),
    channelKey: derive('alert-channels'),
    signInKey: derive('sign-in'),
    pressKey: derive('approval-buttons'),
    deployment: derive('deployment').toString('hex').slice(0, 16),
  }
}
