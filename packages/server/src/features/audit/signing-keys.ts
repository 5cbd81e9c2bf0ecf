import { createHmac, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import type { EvidenceKey } from '@wardline/contract'
import { hourMs, isoTime, isoTimeOrNull } from '../../clock.ts'
import type { Db } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { keyPairOf } from '../../ed25519.ts'
import { AppError, DatabaseError } from '../../errors.ts'
import { randomSecret } from '../../ids.ts'
import type { Secrets } from '../../secrets.ts'
import { SharedRun } from '../../shared-run.ts'
import { type Actor, auditStatements } from './audit.ts'
import {
  endSigningKeyStatement,
  insertSigningKeyStatement,
  readSigningKeys,
  type SigningKeyRow,
} from './signing-queries.ts'

type SigningDeps = Pick<Deps, 'database' | 'secrets'>

/** Key pair with which the deployment signs. */
export interface SigningKey {
  kid: string
  /** base64url. */
  publicKey: string
  privateKey: KeyObject
}

/** All processes derive the same pair from the salt in the database and the master secret. */
const pairOf = (salt: string, { evidenceKey }: Pick<Secrets, 'evidenceKey'>) =>
  keyPairOf(createHmac('sha256', evidenceKey).update(salt).digest())

function newRow(generation: number, secrets: Pick<Secrets, 'evidenceKey'>, now: number): SigningKeyRow {
  const salt = randomSecret(16)
  const { kid, x } = pairOf(salt, secrets)
  return { generation, kid, public_key: x, salt, valid_from: now, valid_until: null }
}

/** Returns the current key; the first call of a deployment creates it. */
export async function currentSigningKey({ database, secrets }: SigningDeps, now: number): Promise<SigningKey> {
  let [row] = await readSigningKeys(database.db)
  if (!row) {
    try {
      await database.batch([insertSigningKeyStatement(database.db, newRow(1, secrets, now))])
    } catch (fault) {
      // Another process has created the key.
      if (!(fault instanceof DatabaseError && fault.constraint)) throw fault
    }
    row = (await readSigningKeys(database.db))[0]!
  }
  const { privateKey, x, kid } = pairOf(row.salt, secrets)
  if (x !== row.public_key) throw new AppError('internal', `Signing key ${row.kid} was altered in the database.`)
  return { kid, publicKey: x, privateKey }
}

/** Returns all current and former keys, newest first. */
async function listSigningKeys(db: Db): Promise<EvidenceKey[]> {
  const rows = await readSigningKeys(db)
  return rows.map(({ kid, public_key, valid_from, valid_until }) => ({
    kid,
    algorithm: 'Ed25519',
    public_key,
    valid_from: isoTime(valid_from),
    valid_until: isoTimeOrNull(valid_until),
  }))
}

/** The list is available without a key, so it is cached this long to limit queries. */
const listedForMs = 2_000

/** Returns a cached list of keys. If the database is unavailable, it is the last list, or empty if there is none. */
export function createKeyList(deps: SigningDeps & Pick<Deps, 'clock'>): () => Promise<EvidenceKey[]> {
  let keys: EvidenceKey[] = []
  async function read(): Promise<EvidenceKey[]> {
    try {
      await currentSigningKey(deps, deps.clock.now())
      keys = await listSigningKeys(deps.database.db)
      return keys
    } catch {
      return keys
    }
  }
  const list = new SharedRun(read, { clock: deps.clock, keptMs: listedForMs })
  return () => list.get()
}

/** Default hours that a replaced key stays valid. Clients that store the list of keys should reload it daily. */
export const defaultOverlapHours = 24

/** Replaces the key. Signatures that the previous key made before the end of the overlap stay valid forever. */
export async function rotateSigningKey(
  deps: SigningDeps,
  { actor, overlapHours, now }: { actor: Actor; overlapHours: number; now: number },
): Promise<EvidenceKey> {
  const { database, secrets } = deps
  await currentSigningKey(deps, now)
  const [last] = await readSigningKeys(database.db)
  const next = newRow(last!.generation + 1, secrets, now)
  const until = now + overlapHours * hourMs
  const { kid } = next
  const action = { action: 'signing_key.rotate', target: kid, before: { kid: last!.kid }, after: { kid } }
  try {
    await database.batch([
      insertSigningKeyStatement(database.db, next),
      endSigningKeyStatement(database.db, last!.generation, until),
      ...auditStatements(database, actor, action, now),
    ])
  } catch (fault) {
    if (!(fault instanceof DatabaseError && fault.constraint)) throw fault
    throw new AppError('invalid', 'Another request rotated the signing key at the same time.')
  }
  return (await listSigningKeys(database.db))[0]!
}

/** The signed bytes begin with the kind, so that a signature of one kind is not valid for another. */
export const signEvidence = ({ privateKey }: Pick<SigningKey, 'privateKey'>, kind: string, content: Buffer): string =>
  sign(null, Buffer.concat([Buffer.from(`${kind}\n`), content]), privateKey).toString('base64url')

export function isSignedBy(publicKey: string, kind: string, content: Buffer, signature: string): boolean {
  try {
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: publicKey }, format: 'jwk' })
    const text = Buffer.concat([Buffer.from(`${kind}\n`), content])
    return verify(null, text, key, Buffer.from(signature, 'base64url'))
  } catch {
    return false
  }
}

/** Returns the public key if the master secret derives it. An attacker may have inserted others into the database. */
export async function ownPublicKey({ database, secrets }: SigningDeps, kid: string): Promise<string | undefined> {
  const row = (await readSigningKeys(database.db)).find((known) => known.kid === kid)
  return row && pairOf(row.salt, secrets).x === row.public_key ? row.public_key : undefined
}
