import type { Suspension } from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

const heads = [
  'REQUESTED',
  'STATE',
  'STORED',
  'PUBLISHED',
  'DELIVERED',
  'ACKNOWLEDGED',
  'HELD',
  'SILENT',
  'BREACHES',
  'REASON',
  'ENFORCEMENT',
]

/** Formats one line per suspension, with milliseconds from the request to each stage; - = not observed. */
export function suspensionTable(suspensions: readonly Suspension[]): string {
  const starts = new Set(suspensions.map(({ requested_at }) => requested_at))
  const endOf = ({ ends_at, resumed_at }: Suspension): string => {
    if (resumed_at !== null) return starts.has(resumed_at) ? ', taken over' : ', resumed'
    return ends_at === null ? '' : `, until ${ends_at}`
  }
  const rows = suspensions.map((one) => {
    const after = (time: string | null, source: string | null = null): string =>
      time === null ? '-' : `${Date.parse(time) - Date.parse(one.requested_at)} ms${source ? ` (${source})` : ''}`
    return [
      one.requested_at,
      `${one.state}${endOf(one)}`,
      after(one.stored_at),
      after(one.published_at),
      after(one.delivered_at, one.delivered_by),
      after(one.acknowledged_at, one.acknowledged_by),
      after(one.enforced_at, one.enforced_by),
      after(one.silent_at ?? one.quiet_at),
      String(one.breaches),
      sanitize(one.reason),
      one.enforcement.map(({ point, state }) => `${sanitize(point)} ${state}`).join(', '),
    ]
  })
  return textTable([heads, ...rows])
}

async function show(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('listSuspensions', { params: { instanceId: id } })
  if (flags.json) console.log(safeJson(reply, 2))
  else if (reply.suspensions.length === 0) console.error(`${sanitize(id)} was never suspended.`)
  else console.log(suspensionTable(reply.suspensions))
}

export function addSuspensions(program: Command): void {
  const suspensions = program
    .command('suspensions <instance>')
    .description('show the suspensions of an instance, newest first, with milliseconds until each stage')
  withService(suspensions).action(show)
}
