import { eventTypes, type HitForm, type OutputKind } from '@wardline/contract'
import type { Schema } from '../../db/schema.ts'
import { uuidV7 } from '../../ids.ts'
import type { EventToStore, Ingest } from '../events/ingest.ts'
import { instanceOf, isOutside } from './decoy-scope.ts'
import type { Decoy } from './queries.ts'

/** Where a decoy key was found, other than in the arguments of a call. `prompt`: in what an agent sent to its model. */
export type FoundIn = OutputKind | 'prompt'

const touches: Partial<Record<FoundIn, string>> = { answer: 'given out in an answer', prompt: 'sent to a model' }

interface Touch {
  at: number
  asking: string | undefined
  tool: string | null
  form: HitForm
  /** Unset: in the arguments of a call. */
  foundIn?: FoundIn | undefined
  check: { address: string | null; principal: { keyId: string } }
  isIgnored: boolean
}

export const nameOf = ({ type, retired_at }: Decoy): string =>
  `${retired_at === null ? 'decoy' : 'retired decoy'} ${type === 'api_key' ? 'key' : 'path'}`

/** Returns the fields of a decoy for an event: without value, path and label. */
export const factsOf = (decoy: Decoy) => ({
  honeypot_id: decoy.id,
  type: decoy.type,
  keyType: decoy.key_type,
  planted_at: instanceOf(decoy.instance_id),
  ...(decoy.retired_at === null ? {} : { retired: true }),
})

/** Builds the event and the row of a hit. */
export function describeHit(ingest: Pick<Ingest, 'own'>, decoy: Decoy, touch: Touch) {
  const { asking, tool, form, foundIn, check, isIgnored } = touch
  const by = tool === null ? '' : ` by ${tool}`
  const outside = isOutside(asking, decoy)
  const instanceId = asking ?? instanceOf(decoy.instance_id)
  const found = foundIn === undefined ? {} : { found_in: foundIn }
  const metadata = { ...factsOf(decoy), tool, form, ...found, ...(outside ? { outside } : {}) }
  const event: EventToStore = {
    ...ingest.own({
      severity: isIgnored ? 'info' : 'breach',
      event_type: isIgnored ? eventTypes.honeypotIgnored : eventTypes.honeypotTriggered,
      description: isIgnored
        ? `A ${nameOf(decoy)} was touched${by}, which a rule ignores`
        : `A ${nameOf(decoy)} was ${(foundIn && touches[foundIn]) ?? `touched${by}`}`,
      ...(instanceId === null ? {} : { instance_id: instanceId }),
      metadata,
    }),
    ip_address: check.address,
  }
  const hit = hitRow(decoy, touch, event.id)
  return { event, hit }
}

/**
 * Builds a test hit. Its event belongs to no agent: it is neither activity of an agent nor a reason to suspend one.
 */
export function describeTest(ingest: Pick<Ingest, 'own'>, decoy: Decoy, keyId: string, at: number, ip: string | null) {
  const event: EventToStore = {
    ...ingest.own({
      severity: 'breach',
      event_type: eventTypes.honeypotTriggered,
      description: `Test: a ${nameOf(decoy)} was touched by an operator`,
      metadata: { ...factsOf(decoy), tool: null, test: true },
    }),
    ip_address: ip,
  }
  const check = { address: ip, principal: { keyId } }
  const touch: Touch = { at, asking: undefined, tool: null, form: 'bare', check, isIgnored: false }
  const hit = { ...hitRow(decoy, touch, event.id), form: null, is_test: 1 as const }
  return { event, hit }
}

function hitRow(decoy: Decoy, { at, asking, tool, form, check, isIgnored }: Touch, eventId: string) {
  return {
    id: uuidV7(at),
    honeypot_id: decoy.id,
    at,
    reporter: asking ?? null,
    key_id: check.principal.keyId,
    tool,
    ip_address: check.address,
    event_id: eventId,
    form,
    is_test: 0,
    is_ignored: isIgnored ? 1 : 0,
  } satisfies Schema['honeypot_hits']
}
