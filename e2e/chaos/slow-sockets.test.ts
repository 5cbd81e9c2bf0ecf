import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { anEvent, beat } from '../fleet.ts'
import { eachOf, play, statuses } from '../raw-socket.ts'
import { isExternal, type Service, startService, until } from '../service.ts'
import type { EventRow, StreamBody } from '../shapes.ts'

const slowHeaders = effort(200, 2_000)
const slowBodies = effort(60, 500)
const connects = effort(300, 5_000)
const silentReaders = effort(12, 200)
const storedEvents = 10_000
const waitMs = effort(600_000, 300_000)
/** Ordinary runs share the machine with other tests. */
const closedWithinMs = effort(120_000, 20_000)

/** Opens a connection from a local address; on Linux these are all of 127.0.0.0/8. */
function open(service: Service, address = '127.0.0.1'): Promise<Socket> {
  const localAddress = process.platform === 'linux' ? address : '127.0.0.1'
  return new Promise((resolve, reject) => {
    const socket = connect({ port: service.port, host: '127.0.0.1', localAddress, allowHalfOpen: true })
    socket.once('error', reject).once('connect', () => resolve(socket.off('error', reject).on('error', () => {})))
  })
}

/** When the service closed the connection, in milliseconds from now; undefined while it is open. */
function watchEnd(socket: Socket): { endedMs: number | undefined } {
  const startedAt = performance.now()
  const watched: { endedMs: number | undefined } = { endedMs: undefined }
  const note = () => {
    watched.endedMs ??= performance.now() - startedAt
    socket.destroy()
  }
  socket.resume().once('end', note).once('close', note)
  return watched
}

/** A process for each look would cost more than the service. */
const residentMiB = (service: Service) =>
  (process.platform === 'linux'
    ? Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${service.pid()}/status`, 'utf8'))![1])
    : Number(execFileSync('ps', ['-o', 'rss=', '-p', String(service.pid())], { encoding: 'utf8' }))) / 1024

const metric = async (service: Service, name: string) => {
  const { text } = await service.call('GET', '/metrics', { key: null })
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${name} `))
  return Number(line?.split(' ').at(-1) ?? 0)
}

describe.skipIf(isExternal).concurrent('slow and silent clients', () => {
  // Otherwise sockets that never finish a request would use up the connections of the fleet (Slowloris).
  test(
    'that drip headers or bodies are closed in time, and honest requests do not notice',
    async () => {
      const service = await startService()
      await beat(service, 'honest')
      const sockets = await eachOf(Array.from({ length: slowHeaders + slowBodies }), 50, () => open(service))
      const watched = sockets.map(watchEnd)
      const head = 'POST /api/events HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n'
      for (const [index, socket] of sockets.entries()) {
        if (index < slowHeaders) socket.write(index % 10 === 0 ? '' : 'GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ')
        else socket.write(`${head}x-monitor-key: ${service.key}\r\ncontent-length: 10000\r\n\r\n{`)
      }
      const times: number[] = []
      const drip = setInterval(() => {
        for (const [index, socket] of sockets.entries()) {
          // One in ten sends nothing.
          if (!socket.destroyed && (index >= slowHeaders || index % 10 !== 0)) socket.write('y')
        }
      }, 500)
      const giveUpAt = performance.now() + 2 * closedWithinMs
      while (watched.some(({ endedMs }) => endedMs === undefined) && performance.now() < giveUpAt) {
        const startedAt = performance.now()
        const answer = await service.call('GET', '/api/instances/honest/status')
        times.push(performance.now() - startedAt)
        expect(answer.status).toBe(200)
        await pause(effort(50, 10))
      }
      clearInterval(drip)
      const ends = watched.map(({ endedMs }) => endedMs ?? Infinity)
      const p99 = times.sort((left, right) => left - right)[Math.floor(0.99 * times.length)]!
      console.log(
        `${slowHeaders} slow headers closed by ${(Math.max(...ends.slice(0, slowHeaders)) / 1000).toFixed(1)} s, ` +
          `${slowBodies} slow bodies by ${(Math.max(...ends.slice(slowHeaders)) / 1000).toFixed(1)} s; ` +
          `${times.length} honest polls, p99 ${p99.toFixed(0)} ms`,
      )
      expect(Math.max(...ends)).toBeLessThanOrEqual(closedWithinMs)
      await service.stop()
    },
    waitMs,
  )

  test(
    'that open more streams than one address may have are refused exactly',
    async () => {
      const service = await startService()
      const request = 'GET /api/stream HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n'
      const streams: Socket[] = []
      const heard = await eachOf(Array.from({ length: connects }), 100, async () => {
        const socket = await open(service)
        return await new Promise<number>((resolve) => {
          socket.once('data', (chunk) => {
            const [status = 0] = statuses(chunk.toString('latin1'))
            if (status === 200) streams.push(socket)
            else socket.destroy()
            resolve(status)
          })
          socket.write(request)
        })
      })
      expect(heard.filter((status) => status === 200)).toHaveLength(100)
      expect(heard.filter((status) => status === 503)).toHaveLength(connects - 100)
      expect(await metric(service, 'wardline_stream_clients{kind="events"}')).toBe(100)
      for (const socket of streams) socket.destroy()
      await until(
        'free places',
        () => metric(service, 'wardline_stream_clients{kind="events"}'),
        (count) => count === 0,
      )
      expect(statuses((await play(service.port, [{ write: request }], 200, 60_000)).text)).toEqual([200])
      await service.stop()
    },
    waitMs,
  )

  test(
    'that read nothing of their streams cost little memory and are cut, while a fast reader gets every event',
    async () => {
      const service = await startService()
      const fast = await service.openStream('/api/stream')
      await fast.next<StreamBody>((body) => body.type === 'heartbeat')
      const silent = await eachOf([...Array(silentReaders).keys()], 20, async (index) => {
        const socket = await open(service, `127.0.1.${1 + (index % 8)}`)
        socket.pause().write('GET /api/stream HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n')
        return socket
      })
      const clients = 'wardline_stream_clients{kind="events"}'
      await until(
        'all streams',
        () => metric(service, clients),
        (count) => count === silentReaders + 1,
      )
      const before = residentMiB(service)
      let peak = before
      const body = Array.from({ length: 500 }, () => anEvent({ source: 'flood', description: 'x'.repeat(1_000) }))
      for (let stored = 0; stored < storedEvents; stored += body.length) {
        const answer = await service.call('POST', '/api/events/batch', { body })
        expect(answer.status, answer.text).toBe(200)
        peak = Math.max(peak, residentMiB(service))
      }
      const rows = () =>
        fast.messages.flatMap(({ json }) => {
          const message = json as StreamBody
          return message.type === 'event' && message.data.source === 'flood' ? [message.data as EventRow] : []
        })
      await until(
        'every event at the fast reader',
        () => rows().length,
        (count) => count === storedEvents,
        180_000,
      )
      const seqs = rows().map(({ seq }) => seq)
      expect(seqs).toEqual(Array.from({ length: storedEvents }, (_, index) => seqs[0]! + index))
      await until(
        'the end of the silent streams',
        async () => {
          peak = Math.max(peak, residentMiB(service))
          return await metric(service, clients)
        },
        (count) => count === 1,
        180_000,
      )
      const cuts = await metric(service, 'wardline_stream_cuts_total{reason="stalled"}')
      console.log(
        `${silentReaders} silent readers: memory grew by ${(peak - before).toFixed(0)} MiB at most; ${cuts} cut`,
      )
      expect(peak - before).toBeLessThanOrEqual(128)
      expect(cuts).toBe(silentReaders)
      fast.close()
      for (const socket of silent) socket.destroy()
      await service.stop()
    },
    waitMs,
  )
})
