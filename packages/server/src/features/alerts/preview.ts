import { type AlertPreview, type AlertPreviewRequest, channelKinds, eventTypes } from '@wardline/contract'
import type { Db } from '../../db/database.ts'
import { type AlertFacts, isAtOrAbove, isClaimed, matchesAlert } from './outbox/alert.ts'
import { isSilenced } from './planning/grouping.ts'
import { type KnownChannel, type RoutingTable, takes } from './routing/routing-table.ts'
import { listRoutes } from './routing/rules.ts'

type Outcome = AlertPreview['channels'][number]['outcome']

function outcomeOf(channel: KnownChannel, current: RoutingTable['current'], alert: AlertFacts, now: number): Outcome {
  if (!channel.enabled) return 'disabled'
  if (alert.event_type === eventTypes.sessionMetrics) return 'never_alerted'
  if (takes(channel, current.routes, alert)) {
    const isForPeople = channelKinds[channel.type].audience === 'people'
    return isForPeople && isSilenced(alert, current.silences, now) ? 'silenced' : 'receives'
  }
  return isAtOrAbove(alert.severity, channel.min_severity) ? 'no_route' : 'below_severity'
}

/** Returns what each channel would do with an alert now, decided by the production code, and which routes match it. */
export async function previewAlert(
  db: Db,
  { current }: Pick<RoutingTable, 'current'>,
  { severity, event_type, instance_id, by_service }: AlertPreviewRequest,
  now: number,
): Promise<AlertPreview> {
  // A type of the service counts as reported by the service, unless the request says otherwise.
  const isOwn = by_service ?? isClaimed({ by_service: 0, event_type })
  const alert: AlertFacts = {
    severity,
    event_type,
    instance_id: instance_id ?? null,
    by_service: isOwn ? 1 : 0,
  }
  const matching = (await listRoutes(db)).filter(({ match }) => matchesAlert(match, alert))
  return {
    channels: current.channels.map((channel) => ({
      channel_id: channel.id,
      name: channel.name,
      type: channel.type,
      outcome: outcomeOf(channel, current, alert, now),
      routes: matching.filter(({ channels }) => channels.includes(channel.id)).map(({ id }) => id),
    })),
  }
}
