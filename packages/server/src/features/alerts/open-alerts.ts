import type { Deps } from '../../deps.ts'
import type { ProtectionAlerts } from '../audit/protection.ts'
import { Dispatcher } from './delivery/dispatcher.ts'
import { createSend, type Egresses } from './delivery/sender.ts'
import { createOutbox, type Outbox } from './outbox/outbox.ts'
import { createProtectionAlerts } from './outbox/protection-alerts.ts'
import { createPlanner, waiting } from './planning/planner.ts'
import { switchOffGone } from './routing/channels.ts'
import { RoutingTable } from './routing/routing-table.ts'

/** Loaded on first use, because TLS takes memory. */
async function openEgresses(allow: readonly string[]): Promise<Egresses> {
  const { createEgress } = await import('../../egress/open-egress.ts')
  return { guarded: createEgress({ guarded: true, allow }), open: createEgress({ guarded: false, allow }) }
}

export interface Alerting {
  routingTable: RoutingTable
  outbox: Outbox
  protectionAlerts: ProtectionAlerts
  dispatcher: Dispatcher
}

/** Connects the parts of alerting, from the outbox to the receivers. */
export function createAlerting(deps: Deps): Alerting {
  const table = new RoutingTable(deps)
  const outbox = createOutbox(deps, table)
  let opened: Promise<Egresses> | undefined
  const egresses = () => {
    opened ??= openEgresses(deps.config.alertAllowCidrs ?? [])
    return opened
  }
  const dispatcher = new Dispatcher(deps, {
    table,
    planner: createPlanner(deps, table),
    send: createSend(deps, egresses),
    closeEgresses: async () => {
      const { guarded, open } = (await opened) ?? {}
      guarded?.close()
      open?.close()
    },
    onGone: (channelId) => switchOffGone(deps, { outbox, waiting }, channelId),
  })
  outbox.listen(() => dispatcher.wake())
  return { routingTable: table, outbox, protectionAlerts: createProtectionAlerts(outbox), dispatcher }
}
