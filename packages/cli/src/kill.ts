import { setTimeout as pause } from 'node:timers/promises'
import type { InstanceDetail } from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import { type Command, InvalidArgumentError } from 'commander'
import { Failure } from './exit.ts'
import { withService } from './service/options.ts'
import { findService, type Service, systemCode } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'

interface WaitOptions extends ServiceFlags {
  wait: boolean
  timeout: number
}

/** Frequent enough to show a confirmation immediately, without load on the service. */
const askEveryMs = 250

interface Confirmation {
  /** Null if the command did not wait. */
  confirmed: boolean | null
  /** Milliseconds from the change to the confirmation, by the clock of the service. */
  confirm_ms: number | null
  detail?: InstanceDetail
}

/** Returns undefined if the service is temporarily unavailable: the change is stored, so waiting continues. */
async function readDetail({ call }: Service, instanceId: string): Promise<InstanceDetail | undefined> {
  try {
    return await call('getInstance', { params: { instanceId } })
  } catch (fault) {
    if (fault instanceof Failure && (fault.exit === 'unreachable' || fault.exit === 'failed')) return undefined
    throw fault
  }
}

async function confirmation(
  service: Service,
  instanceId: string,
  wanted: 'suspended' | 'active',
  seconds: number,
): Promise<Confirmation> {
  const deadline = performance.now() + seconds * 1_000
  let last: InstanceDetail | undefined
  for (;;) {
    const detail = await readDetail(service, instanceId)
    last = detail ?? last
    if (detail) {
      const { confirmed, changed_at, applied_at } = detail.control
      if ((detail.status === 'suspended') !== (wanted === 'suspended')) {
        throw new Failure(
          `${instanceId} was ${wanted === 'suspended' ? 'resumed' : 'suspended'} by another operator in the meantime.`,
          'changed_meanwhile',
          'unconfirmed',
        )
      }
      if (confirmed) {
        const confirm_ms =
          applied_at && changed_at ? Math.max(0, Date.parse(applied_at) - Date.parse(changed_at)) : null
        return { confirmed: true, confirm_ms, detail }
      }
    }
    if (performance.now() >= deadline) {
      return { confirmed: false, confirm_ms: null, ...(last ? { detail: last } : {}) }
    }
    await pause(askEveryMs)
  }
}

/** Adds a note when a request was lost on its way and may have taken effect. */
function withDoubt(fault: unknown, instanceId: string): unknown {
  const neverArrived = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'].includes(systemCode(fault) ?? '')
  if (!(fault instanceof Failure) || fault.code !== 'unreachable' || neverArrived) return fault
  return new Failure(
    `${fault.message} It may have taken effect: wardline instances ${instanceId} shows the state.`,
    fault.code,
    fault.exit,
    { cause: fault },
  )
}

const secondsText = (ms: number) => `${(ms / 1_000).toFixed(3)} s`

function unconfirmed(instanceId: string, { detail }: Confirmation, seconds: number): Failure {
  const lastHeartbeat = detail ? ` Its last heartbeat came at ${detail.last_heartbeat}.` : ''
  return new Failure(
    `The agent of ${instanceId} has not confirmed it within ${seconds} s.${lastHeartbeat} It may still be running: stop its process if necessary.`,
    'unconfirmed',
    'unconfirmed',
  )
}

async function change(id: string, options: WaitOptions, reason: string | undefined): Promise<void> {
  const service = await findService(options)
  const params = { instanceId: id }
  const reply = await (reason === undefined
    ? service.call('resumeInstance', { params })
    : service.call('killInstance', { params, body: { reason } })
  ).catch((fault) => Promise.reject(withDoubt(fault, id)))
  const { json, wait, timeout } = options
  if (!json) console.log(`${id} is ${reason === undefined ? 'resumed' : `suspended: ${sanitize(reason)}`}`)
  if (!json && wait && process.stderr.isTTY) console.error('Waiting for its agent to confirm …')
  const found: Confirmation = wait
    ? await confirmation(service, id, reply.status, timeout)
    : { confirmed: null, confirm_ms: null }
  const { confirmed, confirm_ms } = found
  if (json) console.log(safeJson({ ...reply, confirmed, confirm_ms }, 2))
  else if (confirmed)
    console.log(`Its agent confirmed${confirm_ms === null ? '' : ` after ${secondsText(confirm_ms)}`}.`)
  if (confirmed === false) throw unconfirmed(id, found, timeout)
}

function seconds(text: string): number {
  const value = Number(text)
  if (!/^\d{1,6}(\.\d+)?$/.test(text) || value > 86_400) {
    throw new InvalidArgumentError('It must be a number of seconds, at most one day.')
  }
  return value
}

function withWait(command: Command): Command {
  const waiting = command
    .option('--no-wait', 'do not wait for the agent to confirm')
    // Agents poll every 30 seconds; 35 leaves a margin.
    .option('--timeout <seconds>', 'how long to wait for the confirmation; exit code 5 on timeout', seconds, 35)
  return withService(waiting)
}

export function addKill(program: Command): void {
  const kill = program
    .command('kill <id>')
    .description('suspend an instance, and wait for its agent to confirm')
    .requiredOption('--reason <text>', 'reason; sent to the agent and stored in the audit log')
  withWait(kill).action((id: string, options: WaitOptions & { reason: string }) => change(id, options, options.reason))
}

export function addResume(program: Command): void {
  const resume = program.command('resume <id>').description('resume a suspended instance')
  withWait(resume).action((id: string, options: WaitOptions) => change(id, options, undefined))
}
