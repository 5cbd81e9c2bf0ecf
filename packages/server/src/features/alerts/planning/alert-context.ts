import { alertTypes, type EventRow, eventColumns, toolOf } from '@wardline/contract'
import type { Db } from '../../../db/database.ts'
import { lastActors, localNames } from '../../audit/audit.ts'
import { readEventsOf } from '../../events/log-statements.ts'
import { readDecoyLabels } from '../../honeypots/honeypots.ts'
import { type AgentState, readAgentStates } from '../../instances/agent-states.ts'
import { keyNames } from '../../keys/key-names.ts'
import type { DecoyContext, DeliveredAlert, OnlyOfEvents, SuspensionContext } from '../channels/message.ts'
import { findOpenAlert, type PlannedAlert } from '../outbox/queries.ts'

/** As many as the service lists in one event. */
const maxDecoys = 10
/** Characters of a label or tool name that are useful in a message. */
const labelCharacters = 200
const toolCharacters = 100

type Metadata = Record<string, unknown>

const isText = (value: unknown): value is string => typeof value === 'string'
const unique = (values: readonly (string | null | undefined)[]): string[] => [...new Set(values.filter(isText))]
const beginning = (text: string | null, characters: number) =>
  text === null ? null : Array.from(text).slice(0, characters).join('')

/** Only ids in events of the service: a caller could put any id into an event and read the label in a response. */
function decoyIds({ by_service }: PlannedAlert, metadata: Metadata | null): string[] {
  if (by_service === 0 || metadata === null) return []
  const { honeypot_id: one, honeypot_ids: several } = metadata
  return [one, ...(Array.isArray(several) ? several : [])].filter(isText).slice(0, maxDecoys)
}

const keyId = ({ by_service }: PlannedAlert, metadata: Metadata | null): string | null =>
  by_service === 1 && isText(metadata?.key_id) ? metadata.key_id : null

function suspensionOf(state: AgentState | undefined, by: string | undefined): SuspensionContext | null {
  if (!state?.suspension) return null
  const { at, reason, confirmed } = state.suspension
  return { by: by ?? null, at, reason, confirmed }
}

/** Returns the open alerts of agents that stopped or were resumed, by seq of the alert that says so. */
async function readOpenAlerts(db: Db, rows: readonly PlannedAlert[]): Promise<Map<number, DeliveredAlert['open']>> {
  const ends: string[] = [alertTypes.killConfirmed, alertTypes.instanceResumed]
  const ended = rows.filter(({ by_service, event_type }) => by_service === 1 && ends.includes(event_type))
  const found = new Map<number, DeliveredAlert['open']>()
  for (const { seq, instance_id } of ended) {
    if (instance_id !== null) found.set(seq, await findOpenAlert(db, instance_id, seq))
  }
  return found
}

/** The columns of an event that alerts lack, and others; null without an event. */
const ofEvent = (event: EventRow | undefined) =>
  Object.fromEntries(eventColumns.map((name) => [name, event?.[name] ?? null])) as Pick<DeliveredAlert, OnlyOfEvents>

/**
 * Adds the current context that a person or program needs to act on alerts, including suspensions since. `metadata` is
 * only for machines.
 */
export async function addContext(db: Db, rows: readonly PlannedAlert[]): Promise<DeliveredAlert[]> {
  const events = await readEventsOf(db, rows)
  const read = rows.map((row) => {
    const event = events.get(row.event_seq ?? 0)
    const metadata = event?.metadata ?? null
    return { row, event, metadata, decoyIds: decoyIds(row, metadata), keyId: keyId(row, metadata) }
  })
  const agents = await readAgentStates(db, unique(rows.map(({ instance_id }) => instance_id)))
  const labels = await readDecoyLabels(db, unique(read.flatMap((one) => one.decoyIds)))
  const open = await readOpenAlerts(db, rows)
  const suspended = [...agents].flatMap(([id, { suspension }]) => (suspension ? [id] : []))
  const suspendedBy = await lastActors(db, 'instance.suspend', suspended)
  const keys = await keyNames.names(db, unique([...suspendedBy.values(), ...read.map((one) => one.keyId)]))
  const names = new Map<string, string>([...Object.entries(localNames), ...keys])
  const decoys = new Map(
    labels.map((decoy): [string, DecoyContext] => [
      decoy.id,
      { ...decoy, label: beginning(decoy.label, labelCharacters) },
    ]),
  )

  return read.map(({ row, event, metadata, ...ids }) => {
    const agent = row.instance_id === null ? undefined : agents.get(row.instance_id)
    const actor = suspendedBy.get(row.instance_id ?? '')
    const by = actor === undefined ? undefined : (names.get(actor) ?? actor)
    const key = ids.keyId === null ? null : { id: ids.keyId, name: names.get(ids.keyId) ?? ids.keyId }
    return {
      ...ofEvent(event),
      ...row,
      by_service: row.by_service === 1,
      instance_name: agent?.name ?? null,
      tool: beginning(toolOf(metadata), toolCharacters),
      decoys: ids.decoyIds.flatMap((id) => decoys.get(id) ?? []),
      key,
      suspension: suspensionOf(agent, by),
      open: open.get(row.seq) ?? null,
    }
  })
}

/** Like `addContext`, for people: without metadata, and with names of keys. */
export async function addContextForPeople(db: Db, rows: readonly PlannedAlert[]): Promise<DeliveredAlert[]> {
  const alerts = await addContext(db, rows)
  return alerts.map((alert) => {
    const { key, description } = alert
    return { ...alert, metadata: null, description: key ? description.replaceAll(key.id, key.name) : description }
  })
}
