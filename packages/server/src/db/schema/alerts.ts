import type { ChannelType, Severity } from '@wardline/contract'
import type { Generated } from 'kysely'

/** The outbox: written with the event, or with the change, that it is about. */
interface AlertsTable {
  /** Gap-free, in the order of commit: a channel reads on from where it stopped. */
  seq: number
  /** The event's id, or a separate one. */
  id: string
  created_at: number
  severity: Severity
  event_type: string
  source: string
  description: string
  instance_id: string | null
  /** What it is about when that is no instance: the id of a containment. */
  subject: string | null
  /** Channels that it is meant for alone, as a JSON list of names; null = all. */
  only_channels: string | null
  session_id: string | null
  event_seq: number | null
  /** Whether the service itself raised it: every holder of a key may report an event of any type from any source. */
  by_service: 0 | 1
  status: 'open' | 'acknowledged' | 'resolved'
  verdict: 'true_positive' | 'false_positive' | null
  assignee: string | null
  note: string | null
  changed_at: number | null
}

interface AlertChannelsTable {
  id: string
  name: string
  type: ChannelType
  managed_by: 'api' | 'environment'
  /** The settings, encrypted; null for a channel of the environment. */
  sealed: string | null
  destination: string
  min_severity: Severity
  enabled: 0 | 1
  send_resolved: 0 | 1
  daily_check: 0 | 1
  max_per_minute: number
  /** JSON of QuietHours. */
  quiet_hours: string | null
  created_at: number
  /** Reported alerts up to this seq were looked at for this channel. */
  planned_seq: number
  /** Alerts by the service itself up to this seq were; null = as far as the reported ones. */
  own_planned_seq: number | null
  /** Failed attempts since the last delivery, and until when no other is made. */
  failures: Generated<number>
  resume_at: number | null
  failing_since: number | null
  last_delivered_at: number | null
  last_error: string | null
  last_error_at: number | null
  /** When the last daily check was sent. */
  checked_at: number | null
}

interface AlertRoutesTable {
  id: string
  name: string
  /** JSON of AlertMatch. */
  match: string
  /** JSON array of channel ids. */
  channels: string
  created_at: number
}

interface SilencesTable {
  id: string
  /** JSON of AlertMatch. */
  match: string
  reason: string
  created_by: string
  created_at: number
  ends_at: number
}

/** What one channel for people has received, and still has to receive, about one problem. */
interface AlertGroupsTable {
  channel_id: string
  /** `<type> <instance>`, or what a channel holds back for another reason. */
  name: string
  /** The highest of all alerts of the group. */
  severity: Severity
  /** Alerts that wait to be sent. */
  waiting: number
  /** When they, or a reminder, go out. */
  due_at: number | null
  told_at: number | null
  /** Messages so far, and reminders among them since the last news. */
  messages: number
  reminders: number
  state: 'open' | 'acknowledged' | 'resolved'
  /** Id of the message in which the waiting alerts will be sent, so it is known before the message is written. */
  message_id: string | null
}

interface AlertMessagesTable {
  id: string
  channel_id: string
  kind: 'alert' | 'digest' | 'reminder' | 'resolved' | 'test' | 'check'
  title: string
  severity: Severity
  /** What the service itself says is sent first, and on its own. */
  lane: Generated<'own' | 'reported'>
  /** JSON of Message: every try sends the same. */
  content: string
  state: 'pending' | 'delivered' | 'dead'
  created_at: number
  due_at: number
  attempts: Generated<number>
  /** Until then the process that took it may be sending it. */
  leased_until: number | null
  lease_owner: string | null
  last_status: number | null
  last_answer: string | null
  last_error: string | null
  delivered_at: number | null
}

/** The outcome of an alert at a channel. One that joined a message which is not written yet still waits. */
interface AlertDeliveriesTable {
  alert_seq: number
  channel_id: string
  outcome: 'told' | 'joined' | 'silenced' | 'inhibited'
  group_name: string | null
  message_id: string | null
}

/** Alerts beyond the bound of an instance, counted until the minute is over and one alert says how many there were. */
interface AlertOverflowTable {
  /** Its beginning. */
  minute: number
  by_service: 0 | 1
  /** Empty for none, and for those beyond the instances that are counted one by one. */
  instance_id: string
  /** Empty for what was reported: callers invent as many types as they like. */
  event_type: string
  severity: Severity
  count: number
}

export interface AlertTables {
  alerts: AlertsTable
  alert_channels: AlertChannelsTable
  alert_routes: AlertRoutesTable
  silences: SilencesTable
  alert_groups: AlertGroupsTable
  alert_messages: AlertMessagesTable
  alert_deliveries: AlertDeliveriesTable
  alert_overflow: AlertOverflowTable
}
