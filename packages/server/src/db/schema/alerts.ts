import type { ChannelType, Severity } from '@wardline/contract'
import type { Generated } from 'kysely'

/** Outbox. Each alert is written in the transaction of its event or change. */
interface AlertsTable {
  /** Gap-free, in commit order, so that a channel can resume at its last position. */
  seq: number
  /** Id of the event, or a separate id. */
  id: string
  created_at: number
  severity: Severity
  event_type: string
  source: string
  description: string
  instance_id: string | null
  /** Id of the containment, for an alert that is not about an instance. */
  subject: string | null
  /** Channels to which the alert is restricted, as a JSON list of names; null = all. */
  only_channels: string | null
  session_id: string | null
  event_seq: number | null
  /** Whether the service raised the alert. Type and source do not tell, because any key can report any of them. */
  by_service: 0 | 1
  status: 'open' | 'acknowledged' | 'resolved'
  verdict: 'true_positive' | 'false_positive' | null
  assignee: string | null
  /** Of older versions; alert_comments has it. */
  note: string | null
  changed_at: number | null
}

interface AlertCommentsTable {
  id: string
  alert_seq: number
  /** A person, or the first key in a rotation chain; `unknown` for what was the note of an older version. */
  author: string
  at: number
  /** Null = deleted. */
  text: string | null
  deleted_by: string | null
}

interface AlertChannelsTable {
  id: string
  name: string
  type: ChannelType
  managed_by: 'api' | 'environment'
  /** Encrypted settings; null for a channel from environment variables. */
  sealed: string | null
  destination: string
  min_severity: Severity
  enabled: 0 | 1
  send_resolved: 0 | 1
  daily_check: 0 | 1
  max_per_minute: number
  /** JSON of QuietHours. */
  quiet_hours: string | null
  /** Whether its server sends mail to people. */
  personal_mail: Generated<0 | 1>
  created_at: number
  /** Position in the outbox: reported alerts up to this seq were processed for this channel. */
  planned_seq: number
  /** The same position for alerts by the service itself; null = the same as `planned_seq`. */
  own_planned_seq: number | null
  /** Failed attempts since the last delivery. `resume_at` is the earliest time of the next attempt. */
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

/** Delivery state of one problem at one channel for people. */
interface AlertGroupsTable {
  channel_id: string
  /** `<type> <instance>`, or the name of another group held back by the channel. */
  name: string
  /** Highest severity in the group. */
  severity: Severity
  /** Number of alerts waiting to be sent. */
  waiting: number
  /** Time at which the waiting alerts or a reminder are sent. */
  due_at: number | null
  told_at: number | null
  /** Messages so far. `reminders` counts the reminders since the last new alert. */
  messages: number
  reminders: number
  state: 'open' | 'acknowledged' | 'resolved'
  /** Id of the future message for the waiting alerts, assigned before that message is written. */
  message_id: string | null
}

interface AlertMessagesTable {
  id: string
  channel_id: string
  kind: 'alert' | 'digest' | 'reminder' | 'resolved' | 'test' | 'check'
  title: string
  severity: Severity
  /** The service's own alerts are sent first and in separate messages. */
  lane: Generated<'own' | 'reported'>
  /** JSON of Message; every attempt sends the same content. */
  content: string
  state: 'pending' | 'delivered' | 'dead'
  created_at: number
  due_at: number
  attempts: Generated<number>
  /** Until this time the process in `lease_owner` may be sending the message. */
  leased_until: number | null
  lease_owner: string | null
  last_status: number | null
  last_answer: string | null
  last_error: string | null
  delivered_at: number | null
  /** The person that gets a mail in place of the receivers of the channel. */
  person_id: string | null
  /** What the incident is about: an instance, or `~` and a group. Null for machines, digests, tests and checks. */
  subject: string | null
  /** Which receiver stored the message, and under which id; null if it says none. */
  reference: string | null
}

/** Outcome of an alert at a channel. An alert that joined an unwritten message is still waiting. */
interface AlertDeliveriesTable {
  alert_seq: number
  channel_id: string
  outcome: 'sent' | 'joined' | 'silenced' | 'inhibited'
  group_name: string | null
  message_id: string | null
}

/** An alert that a person is to get by mail. */
interface AlertNoticesTable {
  person_id: string
  alert_seq: number
  /** The chosen tag of its agent; null = it was assigned to the person. */
  tag: string | null
  at: number
  /** Whether the hour had all the mails that the person may get. */
  held: 0 | 1
}

/** Counts alerts over an instance's limit. When the minute ends, one alert reports their number. */
interface AlertOverflowTable {
  /** Start of the minute. */
  minute: number
  by_service: 0 | 1
  /** Empty for alerts without an instance, and for instances beyond those counted separately. */
  instance_id: string
  /** Empty for reported alerts, because callers can invent any number of types. */
  event_type: string
  severity: Severity
  count: number
}

interface OutboxTables {
  alerts: AlertsTable
  alert_comments: AlertCommentsTable
  alert_notices: AlertNoticesTable
  alert_overflow: AlertOverflowTable
}

interface RoutingTables {
  alert_channels: AlertChannelsTable
  alert_routes: AlertRoutesTable
  silences: SilencesTable
}

interface DeliveryTables {
  alert_messages: AlertMessagesTable
}

interface PlanningTables {
  alert_groups: AlertGroupsTable
  alert_deliveries: AlertDeliveriesTable
}

/** Each room of alerts owns the tables of the list with its name, such as `PlanningTables`. */
export type AlertTables = OutboxTables & RoutingTables & DeliveryTables & PlanningTables
