import type { Client, KeyCreated, KeyQuotas, KeyView, NewKey } from '@wardline/contract'

/** Access to keys, by a service or in the database of this machine. */
export interface KeyStore {
  create(request: NewKey): Promise<KeyCreated>
  list(): Promise<KeyView[]>
  rotate(id: string, overlapSeconds: number | undefined): Promise<KeyCreated>
  setQuotas(id: string, quotas: KeyQuotas): Promise<void>
  revoke(id: string): Promise<void>
}

export const remoteKeys = (call: Client): KeyStore => ({
  create: (body) => call('createKey', { body }),
  list: async () => (await call('listKeys', {})).keys,
  rotate: (id, overlapSeconds) =>
    call('rotateKey', {
      params: { id },
      body: overlapSeconds === undefined ? {} : { overlap_seconds: overlapSeconds },
    }),
  setQuotas: async (id, quotas) => void (await call('setKeyQuotas', { params: { id }, body: quotas })),
  revoke: async (id) => void (await call('revokeKey', { params: { id } })),
})
