import type { Checkpoint } from '@wardline/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { hourMs } from '../../clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { auditCheckpoint, localActor, verifyAudit } from './audit.ts'
import { formatCheckpoint } from './chain.ts'
import { readCheckpoint, signCheckpoint } from './signed-checkpoint.ts'
import { rotateSigningKey } from './signing-keys.ts'

let service: TestService
let other: TestService
let checkpoint: Checkpoint
beforeAll(async () => {
  service = await openTestService()
  other = await openTestService()
  await service.createKey('viewer')
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'bot', name: 'bot' } })
  await service.call('POST', '/api/kill/bot', { body: { reason: 'x' } })
  checkpoint = await auditCheckpoint(service.deps.database.db, service.clock.now())
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await other[Symbol.asyncDispose]()
})

it('a checkpoint is accepted with a valid signature, even after a key rotation, and without a signature', async () => {
  const line = await signCheckpoint(service.deps, checkpoint)
  expect(await readCheckpoint(service.deps, `${line}\n`)).toEqual({ checkpoint, isSigned: true })
  expect(await verifyAudit(service.deps.database, checkpoint)).toMatchObject({ ok: true })
  const unsigned = formatCheckpoint(checkpoint)
  expect(await readCheckpoint(service.deps, unsigned)).toEqual({ checkpoint, isSigned: false })
  service.clock.advance(hourMs)
  const change = { actor: localActor('cli'), overlapHours: 1, now: service.clock.now() }
  await rotateSigningKey(service.deps, change)
  expect(await readCheckpoint(service.deps, line)).toMatchObject({ isSigned: true })
  expect(await signCheckpoint(service.deps, checkpoint)).not.toBe(line)
})

// An attacker who rewrites the log also has to forge its checkpoint.
it('a checkpoint is rejected if it was altered or signed by another deployment', async () => {
  const line = await signCheckpoint(service.deps, checkpoint)
  const altered = line.replace(`seq=${checkpoint.seq}`, `seq=${checkpoint.seq - 1}`)
  await expect(readCheckpoint(service.deps, altered)).rejects.toThrow('The signature of the audit checkpoint is wrong')
  const foreign = await signCheckpoint(other.deps, checkpoint)
  await expect(readCheckpoint(service.deps, foreign)).rejects.toThrow('not a key of this deployment')
})

// An attacker with write access to the database can insert a public key, but does not know the master secret.
it('a checkpoint is rejected if its key was inserted into the database', async () => {
  const line = await signCheckpoint(other.deps, checkpoint)
  const { deps } = other
  const [row] = await deps.database.db.selectFrom('signing_keys').selectAll().execute()
  await service.deps.database.db
    .insertInto('signing_keys')
    .values({ ...row!, generation: 0 })
    .execute()
  await expect(readCheckpoint(service.deps, line)).rejects.toThrow('not a key of this deployment')
})
