import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { seededDraws } from '../../test-servers/seeded-draws.ts'
import { judge, maxDoubles, startFlakyReceiver } from '../flaky-receiver.ts'
import { isExternal, needsOwnProcess, newDataDir, startService, until } from '../service.ts'

const alerts = effort(300, 2_000)
const kills = effort(6, 50)
const eventsOfALife = Math.ceil(alerts / kills)
const hour = 3_600_000

test.skipIf(isExternal)(
  `${alerts} alerts reach a receiver that fails 30 % and hangs 10 %, while the service is killed ${kills} times (needs a separate process: ${needsOwnProcess})`,
  async () => {
    const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
    console.log(`seed ${seed}`)
    const random = seededDraws(seed)
    const receiver = await startFlakyReceiver(random)
    const shiftFile = join(newDataDir(), 'shift')
    let shift = 0
    const runAhead = (ms: number) => {
      shift += ms
      writeFileSync(shiftFile, String(shift))
    }
    runAhead(0)
    const preload = fileURLToPath(new URL('../shifted-clock.js', import.meta.url))
    const service = await startService({
      env: {
        ALERT_WEBHOOK_URL: `${receiver.url}/alerts`,
        NODE_OPTIONS: `--import=${preload}`,
        CLOCK_SHIFT_FILE: shiftFile,
      },
    })

    const acknowledged: string[] = []
    const waiting = Array.from({ length: alerts }, (_, number) => ({ key: randomUUID(), number }))
    /** Sends one event; if a kill interrupts it, it is sent again after the restart with the same idempotency key. */
    async function report(): Promise<void> {
      const next = waiting.shift()
      if (!next) return
      const body = {
        severity: 'critical',
        source: 'chaos',
        event_type: 'policy_violation',
        description: `${next.number}`,
        // On a busy machine most reports come after the last restart; from one instance they would be summarized.
        instance_id: `chaos-${next.number % 100}`,
      }
      const headers = { 'idempotency-key': next.key }
      const answer = await service.call<{ id: string }>('POST', '/api/events', { body, headers }).catch(() => undefined)
      if (answer?.status === 201) acknowledged.push(answer.body.id)
      else waiting.push(next)
    }

    for (let life = 0; life < kills; life++) {
      const { requests } = receiver.counts
      const enough = requests + random() * 2 * eventsOfALife
      const reports = Promise.all(Array.from({ length: eventsOfALife + 2 }, report))
      // A receiver that hangs or counts as down gets no messages for a while.
      await until(
        'requests',
        () => receiver.counts.requests,
        (count) => count > enough,
        3_000,
      ).catch(() => {})
      // The kill must come at an arbitrary moment of the work, so this is a fixed pause.
      await pause(random() * 200)
      await service.kill9()
      await reports
      runAhead(2 * hour)
      await service.start()
    }
    while (waiting.length > 0) await Promise.all(Array.from({ length: 20 }, report))
    const underFire = receiver.taken.length

    // The rest is delivered by the retry schedule; messages that failed finally are sent again.
    receiver.recover()
    const channel = async () =>
      (await service.call<{ waiting: number; dead: number; behind: number }>('GET', '/api/alert-channels/env-webhook'))
        .body
    let replayed = 0
    for (;;) {
      await service.terminate()
      runAhead(25 * hour)
      await service.start()
      const { body } = await service.call<{ replayed: number }>('POST', '/api/alert-channels/env-webhook/replay')
      replayed += body.replayed
      const isDone = ({ waiting: messages, dead, behind }: Awaited<ReturnType<typeof channel>>) =>
        messages + dead + behind === 0
      const done = await until('the last alert', channel, isDone).catch(() => undefined)
      if (done) break
    }

    const { lost, strangers, doubles } = judge(acknowledged, receiver.taken)
    const { requests, failed, hung } = receiver.counts
    console.log(
      `${acknowledged.length} alerts, ${kills} kills, ${requests} requests (${failed} failed, ${hung} hung): ` +
        `${underFire} delivered under fire, ${lost.length} lost, ${doubles} doubles (${((100 * doubles) / alerts).toFixed(1)} %), ` +
        `${strangers.length} of them under another id, ${replayed} replayed`,
    )
    expect(new Set(acknowledged).size).toBe(alerts)
    expect(lost).toEqual([])
    expect(strangers).toEqual([])
    expect(doubles).toBeLessThanOrEqual(maxDoubles(kills, alerts))
    receiver.close()
    await service.stop()
  },
  900_000,
)
