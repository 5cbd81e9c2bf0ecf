import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { startCommand } from '../command.ts'
import { newInstance } from '../fleet.ts'
import { isExternal, needsOwnProcess, type Service, startService } from '../service.ts'

if (isExternal) process.stdout.write(`The audit tests under kills are left out: ${needsOwnProcess}\n`)

/** Suspends and resumes until the connection fails; calls `onEnough` once when the count of this round is reached. */
async function toggleUntilCut(service: Service, id: string, round: { left: number }, onEnough: () => void) {
  for (let suspend = true; ; suspend = !suspend) {
    const answer = await service
      .call('POST', `/api/${suspend ? 'kill' : 'resume'}/${id}`, suspend ? { body: { reason: 'toggled' } } : {})
      .catch(() => undefined)
    if (answer === undefined) return
    // The queue of a slow disk is full.
    if (answer.status === 503) continue
    // The state at the start of the round, or a change whose response the last kill interrupted.
    if (answer.status !== 200) expect(answer.status, answer.text).toBe(400)
    if (--round.left === 0) onEnough()
  }
}

describe.skipIf(isExternal)('the audit log', () => {
  // Without its entry, a resume with a stolen key would leave no trace; an entry without its change would accuse an
  // innocent operator.
  test('has one entry for each change of each instance, however often the process is killed', async () => {
    const kills = effort(3, 100)
    const service = await startService()
    const ids = await Promise.all(Array.from({ length: 12 }, () => newInstance(service)))
    for (let count = 1; count <= kills; count++) {
      const round = { left: 30 + 7 * (count % 9) }
      let killed: Promise<unknown> = Promise.resolve()
      const onEnough = () => {
        killed = service.kill9()
      }
      await Promise.all(ids.map((id) => toggleUntilCut(service, id, round, onEnough)))
      await killed
      await service.start()
    }
    await service.terminate()

    const database = new DatabaseSync(join(service.dataDir, 'wardline.db'), { readOnly: true })
    const count = database.prepare(
      "select count(*) as entries from audit_log where target = ? and action in ('instance.suspend', 'instance.resume')",
    )
    let changes = 0
    for (const id of ids) {
      const row = database.prepare('select control_version, suspended from instances where id = ?').get(id)!
      const { entries } = count.get(id) as { entries: number }
      expect(Number(row.control_version), id).toBe(entries)
      expect(row.suspended, 'they take turns').toBe(entries % 2)
      changes += entries
    }
    database.close()
    const env = { WARDLINE_DATA_DIR: service.dataDir, WARDLINE_API_KEY: service.key }
    const verified = await startCommand(['audit', 'verify'], env).ended
    expect(verified, verified.output).toMatchObject({ code: 0 })
    expect(changes).toBeGreaterThan(kills * 20)
    process.stdout.write(`${kills} kills: ${changes} changes, each with its entry\n`)
    await service.stop()
  })
})
