import { alertTypes } from '@wardline/contract'
import { type ProtectionAlerts, reductionOf } from '../../audit/protection.ts'
import type { Outbox } from './outbox.ts'

/** Alerts every channel about a change that reduces protection, in the transaction of the change. */
export const createProtectionAlerts = ({ ownStatements }: Pick<Outbox, 'ownStatements'>): ProtectionAlerts => ({
  statements(actor, action, now) {
    const reduction = reductionOf(action)
    if (!reduction) return []
    const { severity, text } = reduction
    const description = `${actor.name} ${text}.`.slice(0, 1_000)
    return ownStatements([{ severity, event_type: alertTypes.protectionChanged, instance_id: null, description }], now)
  },
})
