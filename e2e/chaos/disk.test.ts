import { spawnSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { anEvent, newInstance, postEvent } from '../fleet.ts'
import { isExternal, needsOwnProcess, newDataDir, startService, until } from '../service.ts'

const mebibyte = 1024 * 1024
const mounted: string[] = []

/** Mounts a separate file system in memory that the test may fill; undefined if mounting is not allowed. */
function smallDisk(mebibytes: number): string | undefined {
  const folder = newDataDir()
  const mount = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${mebibytes}m`, 'tmpfs', folder])
  if (mount.status !== 0) return undefined
  mounted.push(folder)
  return folder
}

afterAll(() => {
  for (const folder of mounted) spawnSync('umount', ['-l', folder])
})

const bigEvent = () => anEvent({ description: 'x'.repeat(900), metadata: { filler: 'y'.repeat(15_000) } })

// Otherwise an agent could fill the disk and thereby disable the kill switch.
test('a full disk refuses events, lets the kill switch work, and is forgotten once there is room', async ({ skip }) => {
  if (isExternal) return skip(needsOwnProcess)
  const disk = smallDisk(70)
  if (!disk) return skip('only root of Linux may mount a small disk')
  const service = await startService({ env: { WARDLINE_DATA_DIR: join(disk, 'data') } })
  const id = await newInstance(service)
  const ballast = join(disk, 'ballast')
  writeFileSync(ballast, Buffer.alloc(30 * mebibyte))

  const acknowledged: string[] = []
  for (;;) {
    const answer = await service.call<{ id: string }>('POST', '/api/events', { body: bigEvent() })
    if (answer.status !== 201) {
      expect(answer.status, answer.text).toBe(500)
      break
    }
    acknowledged.push(answer.body.id)
  }
  expect(acknowledged.length).toBeGreaterThan(10)
  expect((await service.call('POST', `/api/kill/${id}`, { body: { reason: 'It floods us' } })).status).toBe(200)
  expect((await service.call('GET', `/api/instances/${id}/status`)).body).toEqual({
    suspended: true,
    reason: 'It floods us',
  })
  expect((await service.call('GET', '/healthz')).status).toBe(200)
  expect((await service.call('GET', '/api/status')).status).toBe(200)
  expect((await service.call('POST', '/api/events', { body: bigEvent() })).status).toBe(500)
  await until(
    'readiness says so',
    () => service.call('GET', '/readyz'),
    ({ status }) => status === 503,
  )

  rmSync(ballast)
  const room = () => service.call('POST', '/api/events', { body: bigEvent() })
  await until('events are taken again', room, ({ status }) => status === 201)
  const stored = new Set<string>()
  for (let before = ''; ; ) {
    const page = await service.call<{ events: { id: string }[]; next: string | null }>(
      'GET',
      `/api/events?limit=200${before}`,
    )
    for (const row of page.body.events) stored.add(row.id)
    if (page.body.next === null) break
    before = `&before=${page.body.next}`
  }
  expect(acknowledged.filter((eventId) => !stored.has(eventId))).toEqual([])
  await service.stop()
})

// After a failed sync the kernel may mark unwritten pages as clean: continuing would acknowledge lost data.
test('a disk that fails to sync ends the process with code 70 before anything is acknowledged', async ({ skip }) => {
  if (isExternal) return skip(needsOwnProcess)
  const probe = spawnSync('strace', ['-e', 'inject=fsync:error=EIO:when=1', 'true'])
  if (probe.status !== 0) return skip('strace is missing, or may not inject faults here')
  // Of a new database, the first start takes some 60.
  const inject = ['-e', 'trace=fsync,fdatasync', '-e', 'inject=fsync,fdatasync:error=EIO:when=120+']
  const service = await startService({ wrapper: ['strace', '-D', '-f', '-o', '/dev/null', ...inject] })
  const statuses: number[] = []
  for (;;) {
    const answer = await service.call('POST', '/api/events', { body: anEvent() }).catch(() => undefined)
    if (answer?.status !== 201) break
    statuses.push(answer.status)
    expect(statuses.length).toBeLessThan(200)
  }
  await until(
    'the process says why it ends',
    () => service.logs(),
    (logs) => logs.includes('Fatal: disk I/O error'),
  )
  expect(await service.terminate()).toEqual({ code: 70, signal: null })
  await service.start()
  await postEvent(service)
  await service.stop()
})
