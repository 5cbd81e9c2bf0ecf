import { readFileSync } from 'node:fs'
import { answerLimits, boundedText, ControlKeys, type EvidenceKey, parsedJson, WardlineError } from '@wardline/contract'
import {
  assertValid,
  defaultOverlapHours,
  loadIncidentVerification,
  localActor,
  rotateSigningKey,
} from '@wardline/server'
import { safeJson, sanitize } from '@wardline/text'
import { type Command, InvalidArgumentError } from 'commander'
import { exitCodes, Failure } from './exit.ts'
import { openExportTarget } from './export/target.ts'
import { instantOption, readInstant } from './instant.ts'
import { withLocalDatabase } from './local.ts'
import { address, withService } from './service/options.ts'
import { rawRequest } from './service/raw-request.ts'
import { sendHttp } from './service/send-http.ts'
import { findService, notWardline, refusal, unreachable } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { onStopSignal } from './signals.ts'

interface ExportOptions extends ServiceFlags {
  since?: string
  until?: string
  output?: string
}

/** In this time, the service sends at least one file of the archive: 1 MiB uncompressed. */
const stalledAfterMs = 60_000

async function download(instance: string, { since, until, output, ...flags }: ExportOptions): Promise<void> {
  const { url, key, keyFrom } = await findService(flags)
  const now = new Date().toISOString()
  const target = new URL('/api/incidents/export', url)
  target.search = String(
    new URLSearchParams({ instance_id: instance, from: since ?? readInstant('24h', Date.now()), to: until ?? now }),
  )
  const stop = new AbortController()
  onStopSignal(() => stop.abort(new Failure('The export was stopped; no file was written.', 'stopped', 'failed')))
  let timer = setTimeout(() => {}, 0)
  const expectMore = () => {
    clearTimeout(timer)
    timer = setTimeout(() => stop.abort(unreachable(url, new Error('stalled'))), stalledAfterMs)
  }
  expectMore()
  const headers: Record<string, string> = key === undefined ? {} : { 'x-monitor-key': key }
  try {
    const answer = await sendHttp(target, { method: 'GET', headers, signal: stop.signal })
    if (answer.status !== 200) {
      const body = parsedJson(await boundedText(answer, answerLimits.list)) as { error?: unknown } | undefined
      const sentence = typeof body?.error === 'string' ? body.error : 'The service refused.'
      const code = answer.headers.get('x-error-code') ?? 'unexpected'
      throw refusal(url, keyFrom, new WardlineError(sentence, answer.status, code))
    }
    if (answer.headers.get('content-type') !== 'application/gzip' || !answer.body) throw notWardline(url, 'no archive')
    const name = output ?? `incident-${instance}-${now.slice(0, 10)}.tar.gz`
    const file = await openExportTarget(name)
    let bytes = 0
    try {
      for await (const piece of answer.body as AsyncIterable<Uint8Array>) {
        expectMore()
        bytes += piece.length
        await file.write(piece)
      }
      await file.finish()
    } catch (fault) {
      await file.abandon()
      throw fault
    }
    if (flags.json) return console.log(safeJson({ ok: true, file: name, bytes }))
    console.log(`${bytes.toLocaleString('en')} bytes in ${sanitize(name)}`)
    console.error(`-- verify it: wardline incident verify ${sanitize(name)} --keys ${url}`)
  } catch (fault) {
    if (stop.signal.aborted) throw stop.signal.reason
    if (fault instanceof Failure || (fault as NodeJS.ErrnoException).path !== undefined) throw fault
    throw unreachable(url, fault)
  } finally {
    clearTimeout(timer)
  }
}

const keysPath = '/.well-known/wardline-keys.json'

/** Reads the list of keys from a file or a service. */
async function readKeys(from: string): Promise<EvidenceKey[]> {
  let list: unknown
  if (/^https?:\/\//.test(from)) {
    const { status, body } = await rawRequest(address(from), keysPath).catch((fault) => {
      throw unreachable(from, fault)
    })
    if (status !== 200) throw notWardline(from, `status ${status} for ${keysPath}`)
    list = body
  } else list = parsedJson(readFileSync(from, 'utf8'))
  try {
    assertValid(ControlKeys, list)
  } catch (cause) {
    const message = `${from} is not a list of keys in the format of ${keysPath}: ${(cause as Error).message}`
    throw new Failure(sanitize(message), 'keys', 'refused', { cause })
  }
  return (list as ControlKeys).evidence_keys
}

async function verify(file: string, { keys: from, json }: { keys?: string; json?: boolean }): Promise<void> {
  const keys = from === undefined ? undefined : await readKeys(from)
  const { verifyIncident } = await loadIncidentVerification()
  const verdict = await verifyIncident(file, keys)
  if (!verdict.ok) {
    process.exitCode = exitCodes.failed
    if (json) console.log(safeJson(verdict))
    else console.error(sanitize(`Refused at ${verdict.entry}: ${verdict.detail}`))
    return
  }
  const { manifest, kid, isKnownKey, rows } = verdict
  const { entries: _, ...header } = manifest
  if (json) return console.log(safeJson({ ok: true, key_is_known: isKnownKey, kid, rows, ...header }))
  const { instance_id, from: since, to, exported_at, exported_by, deployment, audit } = manifest
  console.log(`The bundle is intact: instance ${instance_id}, ${since} to ${to}.`)
  console.log(
    sanitize(`Exported at ${exported_at} by ${exported_by.name} (${exported_by.key_id}) of deployment ${deployment}.`),
  )
  console.log(
    Object.entries(rows)
      .map(([kind, count]) => `${kind} ${count}`)
      .join(', '),
  )
  const count = audit.last.seq - audit.after.seq
  console.log(`The chain of ${count === 1 ? '1 audit entry' : `${count} audit entries`} is intact.`)
  if (isKnownKey) console.log(`Signed by key ${kid}, which is among the given keys.`)
  else {
    console.log(
      `Signed by key ${kid}, which the bundle itself contains: nothing was altered since it was signed, but anyone could have signed it. Compare the key with the deployment's: --keys <url or file>.`,
    )
  }
}

function hours(text: string): number {
  const value = Number(text)
  if (!/^\d{1,4}$/.test(text) || value > 720) throw new InvalidArgumentError('It must be a whole number from 0 to 720.')
  return value
}

async function rotate({ overlap, json }: { overlap: number; json?: boolean }): Promise<void> {
  const key = await withLocalDatabase((deps) =>
    rotateSigningKey(deps, { actor: localActor('cli'), overlapHours: overlap, now: deps.clock.now() }),
  )
  if (json) return console.log(safeJson(key))
  console.log(`Key ${key.kid} signs bundles and checkpoints from now on; what earlier keys signed still verifies.`)
}

export function addIncident(program: Command): void {
  const incident = program.command('incident').description('export and verify signed bundles of evidence')
  const exporting = incident
    .command('export <instance>')
    .description('export what is stored about an instance as one signed archive; needs an admin key')
    .option(
      '--since <instant>',
      'at or after: an ISO 8601 instant, a day, or 90s, 15m, 2h, 7d ago; default: 24h',
      instantOption,
    )
    .option('--until <instant>', 'before: in the same formats; default: now', instantOption)
    .option('--output <file>', 'file to write; default: incident-<instance>-<day>.tar.gz')
  withService(exporting).action(download)
  incident
    .command('verify <file>')
    .description('verify a bundle offline: exit code 0 when it is intact, 1 with the file that was altered')
    .option('--keys <file or url>', `keys to trust: a copy of ${keysPath}, or the address of the service`)
    .option('--json', 'print JSON')
    .action(verify)
  incident
    .command('rotate-key')
    .description('replace the key that signs bundles and checkpoints; run it where the service runs')
    .option(
      '--overlap <hours>',
      `hours for which the old key stays valid; default: ${defaultOverlapHours}`,
      hours,
      defaultOverlapHours,
    )
    .option('--json', 'print JSON')
    .action(rotate)
}
