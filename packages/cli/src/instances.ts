import { type InstanceDetail, type InstanceStatus, type InstanceView, instanceStatuses } from '@wardline/contract'
import { type Command, Option } from 'commander'
import { statusText } from './event-text.ts'
import { ageText } from './instant.ts'
import { findService } from './service.ts'
import { withService } from './service-options.ts'
import type { ServiceFlags } from './service-settings.ts'
import { plainJson, plainText } from './terminal-text.ts'
import { textTable } from './text-table.ts'

interface InstancesOptions extends ServiceFlags {
  status?: InstanceStatus
}

/** The status is coloured after the columns were measured. */
function fleetTable(instances: readonly InstanceView[]): string {
  const width = Math.max(0, ...instances.map(({ status }) => status.length))
  const lines = textTable(
    instances.map(({ id, name, secondsAgo, suspension_reason }) =>
      [id, `${ageText(secondsAgo)} ago`, name, suspension_reason ?? ''].map(plainText),
    ),
  ).split('\n')
  return instances.map(({ status }, index) => `${statusText(status, width)}  ${lines[index]}`).join('\n')
}

function controlText({ control, status }: InstanceDetail): string {
  if (control.version === 0) return 'never suspended'
  const state = status === 'suspended' ? 'suspended' : 'resumed'
  const confirmation = control.confirmed ? `confirmed at ${control.applied_at}` : 'NOT confirmed by the agent'
  return `${state} at ${control.changed_at} (version ${control.version}), ${confirmation}`
}

function detailTable(detail: InstanceDetail): string {
  const rows: [string, string | null][] = [
    ['Id', detail.id],
    ['Name', detail.name],
    ['Status', detail.status],
    ['Reason', detail.suspension_reason],
    ['Control', controlText(detail)],
    ['Agent type', detail.agent_type],
    ['Version', detail.version],
    ['Fail mode', detail.fail_mode],
    ['First seen', detail.first_seen],
    ['Last heartbeat', detail.last_heartbeat],
  ]
  return textTable(rows.flatMap(([name, value]) => (value === null ? [] : [[name, plainText(value)]])))
}

async function instances(id: string | undefined, options: InstancesOptions): Promise<void> {
  const { json, status } = options
  const { call } = await findService(options)
  if (id !== undefined) {
    const detail = await call('getInstance', { params: { instanceId: id } })
    console.log(json ? plainJson(detail, 2) : detailTable(detail))
    return
  }
  const fleet = await call('getStatus', {})
  const shown = fleet.instances.filter((instance) => status === undefined || instance.status === status)
  if (json) console.log(plainJson({ instances: shown }, 2))
  else if (shown.length > 0) console.log(fleetTable(shown))
  else console.error('There is no such instance.')
}

export function addInstances(program: Command): void {
  const command = program
    .command('instances')
    .argument('[id]', 'show one with what its agent says of itself')
    .description('the fleet by id: status, last heartbeat, why it is suspended')
    .addOption(new Option('--status <status>', 'only these').choices(instanceStatuses))
  withService(command).action(instances)
}
