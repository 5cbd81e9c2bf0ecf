import type { KeyCreated, KeyView, NewKey } from '@wardline/contract'
import { createKey, listKeys, localActor, revokeKey, rotateKey } from '@wardline/server'
import { Failure } from './exit.ts'
import type { KeyStore } from './key-store.ts'
import { withLocalDatabase } from './local.ts'

/** A refusal has the same exit code whether the service or the database gave it. */
function refusalOf(fault: unknown): unknown {
  const { name, message, code } = fault as { name?: string; message: string; code?: string }
  return name === 'AppError' ? new Failure(message, code ?? 'invalid', 'refused', { cause: fault }) : fault
}

const inDatabase: typeof withLocalDatabase = (work) =>
  withLocalDatabase(work).catch((fault) => Promise.reject(refusalOf(fault)))

const actor = () => localActor('cli')

/** The keys in the database of this machine, beside a running service or without one. */
export const localKeys: KeyStore = {
  create: (request: NewKey): Promise<KeyCreated> =>
    inDatabase(({ database, clock }) => createKey(database.db, request, actor(), clock.now())),
  list: (): Promise<KeyView[]> => inDatabase(({ database }) => listKeys(database.db)),
  rotate: (id: string, overlapSeconds: number | undefined): Promise<KeyCreated> =>
    inDatabase(({ database, clock }) => rotateKey(database.db, id, overlapSeconds, actor(), clock.now())),
  revoke: (id: string): Promise<void> =>
    inDatabase(({ database, clock }) => revokeKey(database.db, id, actor(), clock.now())),
}
