import { type KeyCreated, KeyQuotas, KeyRotation, type KeyView, NewKey } from '@wardline/contract'
import { assertValid, createKey, listKeys, localActor, revokeKey, rotateKey, setKeyQuotas } from '@wardline/server'
import { Failure } from '../exit.ts'
import { withLocalDatabase } from '../local.ts'
import type { KeyStore } from './key-store.ts'

/** Converts errors, so that the exit code is the same as with a remote service. */
function refusalOf(fault: unknown): unknown {
  const { name, message, code } = fault as { name?: string; message: string; code?: string }
  return name === 'AppError' ? new Failure(message, code ?? 'invalid', 'refused', { cause: fault }) : fault
}

const inDatabase: typeof withLocalDatabase = (work, options) =>
  withLocalDatabase(work, options).catch((fault) => Promise.reject(refusalOf(fault)))

const actor = () => localActor('cli')

/** Keys in the database of this machine, whether the service is running or not. */
export const localKeys: KeyStore = {
  create: (request: NewKey): Promise<KeyCreated> =>
    inDatabase(
      async ({ database, clock }) => {
        assertValid(NewKey, request)
        return await createKey(database, request, actor(), clock.now())
      },
      { mayCreate: true },
    ),
  list: (): Promise<KeyView[]> => inDatabase(({ database }) => listKeys(database.db)),
  rotate: (id: string, overlapSeconds: number | undefined): Promise<KeyCreated> =>
    inDatabase(async ({ database, clock }) => {
      assertValid(KeyRotation, overlapSeconds === undefined ? {} : { overlap_seconds: overlapSeconds })
      return await rotateKey(database, id, overlapSeconds, actor(), clock.now())
    }),
  setQuotas: (id: string, quotas: KeyQuotas): Promise<void> =>
    inDatabase(async ({ database, clock }) => {
      assertValid(KeyQuotas, quotas)
      await setKeyQuotas(database, id, quotas, actor(), clock.now())
    }),
  revoke: (id: string): Promise<void> =>
    inDatabase(({ database, clock }) => revokeKey(database, id, actor(), clock.now())),
}
