import { copyFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, test } from 'vitest'
import { effort } from '../test-servers/effort.ts'
import { runCommand } from './command.ts'
import { allEvents, anEvent, createKeyDecoy, newInstance, unique } from './fleet.ts'
import { isExternal, needsOwnProcess, newDataDir, type Service, startService } from './service.ts'
import type { Created } from './shapes.ts'

if (isExternal) process.stdout.write(`The backup tests are left out: ${needsOwnProcess}\n`)

/** Starts writers that store events until stopped and add the ids to `acknowledged`. */
function writeOn(service: Service, writers: number) {
  const acknowledged: string[] = []
  let isOver = false
  const write = async () => {
    while (!isOver) {
      const body = anEvent({ source: 'backup-writer', description: unique('written') })
      const answer = await service.call<Created>('POST', '/api/events', { body })
      expect(answer.status, answer.text).toBe(201)
      acknowledged.push(answer.body.id)
    }
  }
  const all = Promise.all(Array.from({ length: writers }, write))
  return {
    acknowledged,
    end: async () => {
      isOver = true
      await all
    },
  }
}

describe.skipIf(isExternal)('a backup under load', () => {
  test('contains everything acknowledged before it started, and runs as a separate service', async () => {
    const backups = effort(3, 20)
    const service = await startService()
    const id = await newInstance(service)
    const decoy = await createKeyDecoy(service, id)
    await service.call('POST', `/api/kill/${id}`, { body: { reason: 'before the backup' } })
    const writers = writeOn(service, effort(8, 32))
    const env = { WARDLINE_DATA_DIR: service.dataDir, WARDLINE_API_KEY: service.key }
    const taken: { folder: string; before: string[] }[] = []
    for (let count = 0; count < backups; count++) {
      const folder = newDataDir()
      const before = [...writers.acknowledged]
      const { code, output } = await runCommand(['backup', join(folder, 'wardline.db')], env)
      expect(code, output).toBe(0)
      taken.push({ folder, before })
    }
    await writers.end()
    await service.terminate()

    for (const { folder, before } of taken) {
      const database = new DatabaseSync(join(folder, 'wardline.db'), { readOnly: true })
      expect(database.prepare('pragma integrity_check').get()).toEqual({ integrity_check: 'ok' })
      database.close()
      copyFileSync(join(service.dataDir, 'secret'), join(folder, 'secret'))
      const restored = await startService({ env: { WARDLINE_DATA_DIR: folder, WARDLINE_API_KEY: service.key } })
      const kept = new Set((await allEvents(restored)).map((row) => row.id))
      expect(before.filter((event) => !kept.has(event))).toEqual([])
      const state = await restored.call('GET', `/api/instances/${id}/status`)
      expect(state.body).toEqual({ suspended: true, reason: 'before the backup' })
      const check = await restored.call('POST', '/api/honeypots/check/key', { body: { key: decoy.key } })
      expect(check.body).toEqual({ matched: true })
      await restored.terminate()
      const verified = await runCommand(['audit', 'verify'], { ...env, WARDLINE_DATA_DIR: folder })
      expect(verified, verified.output).toMatchObject({ code: 0 })
      await restored.stop()
    }
    expect(taken.at(-1)!.before.length).toBeGreaterThan(100)
    process.stdout.write(`${backups} backups, the last with ${taken.at(-1)!.before.length} events: nothing missing\n`)
    await service.stop()
  })

  // A mistyped name must not overwrite an existing backup.
  test('never overwrites a file', async () => {
    const service = await startService()
    const env = { WARDLINE_DATA_DIR: service.dataDir, WARDLINE_API_KEY: service.key }
    const target = join(newDataDir(), 'copy.db')
    expect((await runCommand(['backup', target], env)).code).toBe(0)
    const again = await runCommand(['backup', target], env)
    expect(again.code).toBe(1)
    expect(again.output).toContain(`${target} already exists.`)
    expect(existsSync(target)).toBe(true)
    await service.stop()
  })
})
