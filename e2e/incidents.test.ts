import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { runCommand } from './command.ts'
import { anEvent, newInstance } from './fleet.ts'
import { isExternal, needsOwnProcess, newDataDir, startService } from './service.ts'

if (isExternal) process.stdout.write(`The tests of incident bundles are left out: ${needsOwnProcess}\n`)

describe.skipIf(isExternal)('an incident bundle', () => {
  test('is exported, verified with a key file, the service and offline, and refused after a change', async () => {
    const service = await startService()
    const id = await newInstance(service)
    await service.call('POST', '/api/events', { body: anEvent({ source: id, instance_id: id }) })
    await service.call('POST', `/api/kill/${id}`, { body: { reason: 'an incident' } })
    const folder = newDataDir()
    const file = join(folder, 'bundle.tar.gz')
    const env = { WARDLINE_URL: service.baseUrl, WARDLINE_KEY: service.key }
    const run = async (args: string[], more: Record<string, string> = {}) =>
      runCommand(['incident', ...args], { ...env, ...more })
    const made = await run(['export', id, '--since', '1h', '--output', file])
    expect(made.code, made.output).toBe(0)
    expect(made.stdout).toContain('bytes in')

    const alone = await run(['verify', file])
    expect(alone.code, alone.output).toBe(0)
    expect(alone.stdout).toContain('anyone could have signed it')
    const keys = join(folder, 'keys.json')
    const { text } = await service.call('GET', '/.well-known/wardline-keys.json')
    writeFileSync(keys, text)
    for (const from of [keys, service.baseUrl]) {
      const verified = await run(['verify', file, '--keys', from])
      expect(verified.code, verified.output).toBe(0)
      expect(verified.stdout).toContain('which is among the given keys')
      expect(verified.stdout).toContain('suspensions 1')
    }

    const local = { WARDLINE_DATA_DIR: service.dataDir, WARDLINE_API_KEY: service.key }
    const rotated = await run(['rotate-key'], local)
    expect(rotated.code, rotated.output).toBe(0)
    expect((await run(['verify', file, '--keys', keys])).code).toBe(0)
    const checkpoint = join(folder, 'checkpoint')
    writeFileSync(checkpoint, (await runCommand(['audit', 'checkpoint'], local)).stdout)
    expect(readFileSync(checkpoint, 'utf8')).toMatch(/ sig=[\w-]{86}\n$/)
    const audited = await runCommand(['audit', 'verify', '--checkpoint', checkpoint], local)
    expect(audited.code, audited.output).toBe(0)

    const bytes = readFileSync(file)
    bytes[40]! ^= 1
    writeFileSync(file, bytes)
    const refused = await run(['verify', file])
    expect(refused.code).toBe(1)
    expect(refused.stderr).toContain('Refused at agent/000001.ndjson:')

    const unknown = await run(['export', 'agent-unknown', '--since', '1h', '--output', file])
    expect(unknown.code).toBe(2)
    expect(unknown.stderr).toContain('No instance with id agent-unknown')
    const early = await run(['export', id, '--since', '2020-01-01', '--output', file])
    expect(early.stderr).toContain('at most 92 days apart')
  })
})
