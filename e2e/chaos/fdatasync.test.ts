import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { newInstance, postEvent } from '../fleet.ts'
import { isExternal, needsOwnProcess, newDataDir, type Service, startService, until } from '../service.ts'

const reason = (() => {
  if (isExternal) return needsOwnProcess
  if (process.platform !== 'linux') return 'strace is a tool of Linux'
  const probe = spawnSync('strace', ['-f', '-e', 'trace=fdatasync', 'true'])
  return probe.status === 0 ? undefined : 'strace is missing, or may not trace here'
})()
if (reason !== undefined) process.stdout.write(`The test of durable acknowledgements is left out: ${reason}\n`)

interface Acknowledgement {
  line: number
  /** Whether a disk sync started after the request arrived and ended before the response was sent. */
  isSynced: boolean
}

/**
 * Parses a trace of `read, write, writev, fdatasync, fsync` over all threads. Its lines are in the order of time: the
 * arguments of a call show its start, its result shows its end, for interrupted calls on a later line.
 */
function acknowledgements(trace: string): Acknowledgement[] {
  const found: Acknowledgement[] = []
  const arrivals = new Map<string, number>()
  const pendingReads = new Map<string, string>()
  const pendingSyncs = new Map<string, number>()
  let syncs: { begin: number; end: number }[] = []
  for (const [line, text] of trace.split('\n').entries()) {
    const [, thread = '', call = ''] = /^(\d+) +(.*)$/.exec(text) ?? []
    const read = /^read\((\d+), (.*)/.exec(call)
    const resumedRead = /^<\.\.\. read resumed>(.*)/.exec(call)
    if (read?.[2]?.startsWith('<unfinished') || read?.[2]?.startsWith(' <unfinished'))
      pendingReads.set(thread, read[1]!)
    const received = read?.[2] ?? resumedRead?.[1] ?? ''
    if (/^"POST \/api\/events /.test(received)) {
      arrivals.set(read?.[1] ?? pendingReads.get(thread) ?? '', line)
    }
    const sync = /^(?:fdatasync|fsync)\(\d+\)?(.*)/.exec(call)
    if (sync !== null && /= 0$/.test(sync[1]!)) syncs.push({ begin: line, end: line })
    else if (sync !== null) pendingSyncs.set(thread, line)
    if (/^<\.\.\. (?:fdatasync|fsync) resumed>.*= 0$/.test(call)) {
      syncs.push({ begin: pendingSyncs.get(thread) ?? line, end: line })
    }
    const [, socket] = /^writev?\((\d+), (?:\[\{iov_base=)?"HTTP\/1\.1 201/.exec(call) ?? []
    if (socket !== undefined) {
      const arrival = arrivals.get(socket)
      if (arrival === undefined)
        throw new Error(`line ${line + 1} answers a request that the trace does not show: ${text}`)
      found.push({ line, isSynced: syncs.some(({ begin }) => begin > arrival) })
      arrivals.delete(socket)
      syncs = syncs.slice(-200)
    }
  }
  return found
}

// The page cache survives a killed process, so only the order of system calls shows what a power failure would lose.
describe.skipIf(reason !== undefined)('a 201', () => {
  test('leaves only after the disk has confirmed a sync that began after the request, at the first and second start', async () => {
    const folder = newDataDir()
    const output = join(folder, 'trace')
    // -D keeps the service a direct child. Without -ff, because it would write the threads to separate files.
    const wrapper = ['strace', '-D', '-f', '-s', '48', '-e', 'trace=read,write,writev,fdatasync,fsync', '-o', output]
    const service = await startService({ wrapper })
    const readTrace = () => (readdirSync(folder).includes('trace') ? readFileSync(output, 'utf8') : '')
    for (const start of ['first', 'second']) {
      if (start === 'second') await service.start()
      await newInstance(service)
      for (let index = 0; index < 20; index++) await postEvent(service)
      for (let wave = 0; wave < 4; wave++) await Promise.all(Array.from({ length: 20 }, () => postEvent(service)))
      await endTraced(service, readTrace)
      const found = acknowledgements(readTrace())
      expect(found.length, `${start} start`).toBe(100)
      expect(
        found.filter((answer) => !answer.isSynced),
        `${start} start`,
      ).toEqual([])
    }
    await service.stop()
  })
})

/** Stops the service and waits until the tracer has written its last line. */
async function endTraced(service: Service, readTrace: () => string): Promise<void> {
  await service.terminate()
  await until(
    'the end of the trace',
    () => /\+\+\+ exited with 0 \+\+\+\s*$/.test(readTrace()),
    (isOver) => isOver,
  )
}
