import type { BrakeView } from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

function print(brake: BrakeView): void {
  const { limits, last_minute, suspended } = brake
  if (brake.engaged) {
    console.log(
      `Engaged since ${brake.engaged_at} by event ${brake.engaged_by_event}: nothing is suspended automatically.`,
    )
    console.log(`Refused since: ${brake.refused}`)
  } else console.log('Not engaged.')
  console.log(`Automatic suspensions: ${last_minute} of ${limits.per_minute} in the last minute`)
  console.log(
    `Suspended automatically: ${suspended} of ${limits.fleet_max} (${limits.fleet_percent} % of ${limits.fleet} agents, at least ${limits.fleet_min})`,
  )
  if (brake.refused_instances.length === 0) return
  const rows = brake.refused_instances.map((one) => [
    sanitize(one.instance_id),
    String(one.count),
    one.at,
    one.event_id,
  ])
  console.log(`\n${textTable([['Not suspended', 'Times', 'Last', 'Event'], ...rows])}`)
}

async function show(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const brake: BrakeView = await call('getBrake', {})
  if (flags.json) console.log(safeJson(brake, 2))
  else print(brake)
}

async function release(flags: ServiceFlags & { reason: string }): Promise<void> {
  const { call } = await findService(flags)
  const brake: BrakeView = await call('changeBrake', { body: { action: 'release', reason: flags.reason } })
  console.log(flags.json ? safeJson(brake, 2) : 'The brake is released: automatic suspensions are made again.')
}

export function addBrake(program: Command): void {
  const brake = program.command('brake').description('show and release the brake of automatic suspensions')
  const showing = brake
    .command('show', { isDefault: true })
    .description('show whether the brake is engaged, by what, and which agents it left running')
  withService(showing).action(show)
  const releasing = brake
    .command('release')
    .description('release the brake: agents are suspended automatically again')
    .requiredOption('--reason <text>', 'reason; stored in the audit log')
  withService(releasing).action(release)
}
