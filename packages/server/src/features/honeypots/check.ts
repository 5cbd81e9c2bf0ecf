import { eventTypes, type HitForm, type OutputKind } from '@wardline/contract'
import { onlyName } from '@wardline/text'
import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { mayActFor, type Principal } from '../../http/auth.ts'
import type { Piece } from '../../work-turns.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import type { EventToStore, Ingest } from '../events/ingest.ts'
import { DecoyReach } from './decoy-reach.ts'
import { everyAgent } from './decoy-scope.ts'
import { createDecoySearch, type Found } from './decoy-search.ts'
import { describeHit, type FoundIn, factsOf, nameOf } from './hit-event.ts'
import { isToolIgnored } from './ignore-queries.ts'
import { maxKeyInputLength } from './key-extraction.ts'
import { maxPathBytes } from './path-forms.ts'
import { type Decoy, hasTouched, hitStatements, readPlanted } from './queries.ts'

/** @public The types of the services name it. */
export interface Asking {
  meta: Record<string, unknown> | undefined
  principal: Principal
  address: string | null
}

/** @public The types of the services name it. */
export interface Check extends Asking {
  /** The work of this check. */
  piece: Piece
}

/** Stores a hit and suspends the agent in one transaction. */
interface HitAnswers {
  answer(breach: {
    instanceId: string | undefined
    keyId: string
    eventId: string
    reason: string
    hit: { event: EventToStore; also: readonly Statement[] }
  }): Promise<unknown>
}

/** Counts checks as activity of suspended agents. */
interface CheckWatch {
  noteCheck(instanceId: string | undefined, principal: Principal, at: number): void
}

export interface CheckResult {
  matched: boolean
  /** Whether the work limit left a part of the text unchecked, and no decoy was found in the rest. */
  isPartial: boolean
}

export type DecoyChecks = ReturnType<typeof createDecoyChecks>

/** With decoys at more instances than this, all agents check their calls: a longer list would be compared for each key. */
const maxPathInstances = 1_000
/** A call that is reported this long after its check is the checked one: clients that check a call report it at once. */
const reportDelayMs = 60_000
/** Decoys listed in a warning: enough to recognize the folder. */
const namedDecoys = 10
/** Too short for most keys: context is stored, but a submitted key never is. */
const contextText = /^[A-Za-z0-9_.:/ -]{1,24}$/
/** Sixteen characters with a digit: not a word, but possibly an AWS key id. */
const keyLike = /(?=[A-Za-z]{0,15}\d)[A-Za-z0-9]{16}/

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)
const safeContext = (value: unknown): string | null => {
  const found = text(value)
  return found !== undefined && contextText.test(found) && !keyLike.test(found) ? found : null
}

/** Returns the instance of the caller, from its key or else the context that it sent. */
function askingInstance({ principal, meta }: Asking): string | undefined {
  const named = text(meta?.instance_id) ?? text(meta?.instanceId)
  if (named !== undefined && /^[a-z0-9_-]{1,64}$/.test(named) && mayActFor(principal, named)) return named
  return onlyName(principal.instances ?? [])
}

export function createDecoyChecks(
  deps: Deps,
  {
    ingest,
    countedReports,
    autoSuspension,
    suspendedAgents,
  }: { ingest: Ingest; countedReports: CountedReports; autoSuspension: HitAnswers; suspendedAgents: CheckWatch },
) {
  const { config, database, clock, metrics } = deps
  // A hit is also a breach.
  const suspends = config.autoSuspend !== undefined
  const search = createDecoySearch(deps)
  const reach = new DecoyReach()

  /** The same decoy may be planted at several instances: prefer that of the caller, then that of every agent. */
  function closestMatch(decoys: readonly Decoy[], asking: string | undefined): Decoy | undefined {
    const of = (instanceId: string | undefined) => decoys.find((decoy) => decoy.instance_id === instanceId)
    return of(asking) ?? of(everyAgent) ?? decoys[0]
  }

  /** Resolves with whether the hit is a breach of the agent. */
  async function recordHit(decoy: Decoy, check: Asking, form: HitForm, foundIn?: FoundIn): Promise<boolean> {
    const now = clock.now()
    const asking = askingInstance(check)
    const tool = safeContext(check.meta?.tool)
    const isIgnored = tool !== null && (await isToolIgnored(database.db, tool, now))
    const { event, hit } = describeHit(ingest, decoy, { at: now, asking, tool, form, foundIn, check, isIgnored })
    const { keyId } = check.principal
    const also = hitStatements(database.db, hit, decoy)
    if (isIgnored) await ingest.store([event], { also, keyId })
    else if (suspends) {
      const reason = `Decoy ${decoy.id} was touched (event ${event.id})`
      await autoSuspension.answer({ instanceId: asking, keyId, eventId: event.id, reason, hit: { event, also } })
    } else await ingest.store([event], { also, keyId, isDecoyHit: true })
    metrics.decoyHits.inc({ type: decoy.type })
    return !isIgnored
  }

  /** `at`: when the check arrived. A breach is an event of the agent, which shows its activity by itself. */
  async function settle({ decoys, formOf, isExhausted }: Found, check: Check, at: number): Promise<CheckResult> {
    const asking = askingInstance(check)
    const decoy = closestMatch(decoys, asking)
    const isBreach = decoy !== undefined && (await recordHit(decoy, check, await formOf(decoy)))
    if (!isBreach) suspendedAgents.noteCheck(asking, check.principal, at)
    return { matched: decoy !== undefined, isPartial: decoy === undefined && isExhausted }
  }

  /** Reports other findings of a check, once a minute per key. */
  function note(
    { swept, isExhausted }: Pick<Found, 'swept' | 'isExhausted'>,
    check: Asking,
    kind: 'key' | 'path',
  ): void {
    const about = { tool: safeContext(check.meta?.tool), key_id: check.principal.keyId }
    const instance = askingInstance(check)
    const named = instance === undefined ? {} : { instance_id: instance }
    if (isExhausted) {
      metrics.decoyChecksExhausted.inc({ kind })
      countedReports.note({ kind: eventTypes.decoyCheckExhausted, owner: check.principal.keyId }, (count) => ({
        severity: 'warning',
        event_type: eventTypes.decoyCheckExhausted,
        description: `${count === 1 ? 'A text' : `${count} texts`} exceeded the work limit of a decoy check: the unchecked part may contain a decoy`,
        metadata: { ...about, occurrences: count },
        ...named,
      }))
    }
    if (swept.length > 0) {
      const ids = [...new Set(swept.map(({ id }) => id))].slice(0, namedDecoys)
      countedReports.note({ kind: eventTypes.decoySwept, owner: check.principal.keyId }, (count) => ({
        severity: 'warning',
        event_type: eventTypes.decoySwept,
        description: `A command read a whole folder that contains a decoy${count === 1 ? '' : `, ${count} times`}`,
        metadata: { ...about, occurrences: count, honeypot_ids: ids },
        ...named,
      }))
    }
  }

  /** Reports that a tool returned a decoy key, once a minute for each agent and decoy. */
  async function noteRead(decoy: Decoy, check: Asking): Promise<void> {
    const tool = safeContext(check.meta?.tool)
    if (tool !== null && (await isToolIgnored(database.db, tool, clock.now()))) return
    const instance = askingInstance(check)
    const { keyId } = check.principal
    const name = `${instance ?? ''} ${decoy.id}`
    countedReports.note({ kind: eventTypes.decoyRead, owner: keyId, name }, (count) => ({
      severity: 'warning',
      event_type: eventTypes.decoyRead,
      description: `A ${nameOf(decoy)} was in ${count === 1 ? 'a result' : `${count} results`}${tool === null ? '' : ` of ${tool}`}`,
      metadata: { ...factsOf(decoy), tool, found_in: 'result', occurrences: count },
      ...(instance === undefined ? {} : { instance_id: instance }),
    }))
  }

  /** Refuses longer texts, since only this much is searched: padding must not hide a decoy. */
  function refuseLong(field: string, submitted: string): void {
    if (submitted.length <= maxKeyInputLength) return
    throw new AppError(
      'invalid',
      `${field} must have at most ${maxKeyInputLength} UTF-16 units; check longer text in parts.`,
    )
  }

  return {
    /** Checks whether the text contains a decoy key. A match is recorded before the promise resolves. */
    async checkKey(submitted: string, check: Check): Promise<CheckResult> {
      refuseLong('key', submitted)
      const at = clock.now()
      const found = await search.findKeys(submitted, check.piece)
      note(found, check, 'key')
      return settle(found, check, at)
    },

    /**
     * Looks for decoy keys in the result of a tool, which is no use of the key, or in an answer of the model, which is.
     * Resolves without saying what was found: the caller could otherwise test, without a breach, whether a key is a decoy.
     */
    async checkOutput(text: string, of: OutputKind, check: Check): Promise<void> {
      refuseLong('text', text)
      const at = clock.now()
      const found = await search.findKeys(text, check.piece)
      note(found, check, 'key')
      const asking = askingInstance(check)
      const decoy = closestMatch(found.decoys, asking)
      if (decoy !== undefined && of === 'answer') {
        if (await recordHit(decoy, check, await found.formOf(decoy), of)) return
      } else if (decoy !== undefined) await noteRead(decoy, check)
      suspendedAgents.noteCheck(asking, check.principal, at)
    },

    /**
     * Looks for decoy keys in a part of what an agent sends to its model or gets from it, and records a hit of each that
     * `recorded` does not have, the ids of decoys in earlier parts of the call.
     */
    async checkModelText(text: string, of: 'prompt' | 'answer', check: Check, recorded: Set<string>): Promise<void> {
      if (!reach.hasKeys) return
      const { keys, isExhausted } = await search.findWritten(text, check.piece)
      note({ swept: [], isExhausted }, check, 'key')
      const asking = askingInstance(check)
      for (const { decoys, form } of keys) {
        const decoy = closestMatch(decoys, asking)
        if (decoy === undefined || recorded.has(decoy.id)) continue
        recorded.add(decoy.id)
        try {
          await recordHit(decoy, check, form, of)
        } catch (fault) {
          recorded.delete(decoy.id)
          throw fault
        }
      }
    },

    /** Reports that a part of a text was not searched for decoy keys. */
    noteUnsearched: (check: Asking) => note({ swept: [], isExhausted: true }, check, 'key'),

    /** Whether the text contains a decoy key, without recording a hit: for texts that operators store. */
    holdsKey: async (text: string, piece: Piece) => (await search.findKeys(text, piece)).decoys.length > 0,

    /** Checks whether the path is a decoy. A match is recorded before the promise resolves. */
    async checkPath(submitted: string, check: Check): Promise<CheckResult> {
      if (Buffer.byteLength(submitted) > maxPathBytes) {
        throw new AppError('invalid', `path must have at most ${maxPathBytes} bytes.`)
      }
      const at = clock.now()
      const context = { cwd: text(check.meta?.cwd), realPath: text(check.meta?.realPath) }
      const found = await search.findPaths([submitted], context, check.principal, check.piece)
      note(found, check, 'path')
      return settle(found, check, at)
    },

    /** Whether any decoy can match for this caller. */
    reaches: (principal: Principal) => reach.reaches(principal),

    /** Whether a decoy path can match for this agent; undefined: one that is not named. */
    reachesPathsOf: (instanceId: string | undefined) => reach.reachesPathsOf(instanceId),

    /** Finds a decoy of the agent among the paths of calls that it reported, relative ones from `cwd`; records nothing. */
    async findAmong(
      { paths, cwd, instanceId }: { paths: readonly string[]; cwd: string; instanceId: string | undefined },
      principal: Principal,
      piece: Piece,
    ) {
      const agent = { ...principal, instances: instanceId === undefined ? [] : [instanceId] }
      const { decoys, isExhausted } = await search.findPaths(paths, { cwd }, agent, piece)
      return { decoy: closestMatch(decoys, instanceId), isExhausted }
    },

    /**
     * Records the hit of a reported call, unless a check has recorded it already. `firstStoredAt`: when an earlier request
     * with the same Idempotency-Key stored the call.
     */
    async recordReported(decoy: Decoy, call: Asking, firstStoredAt: number | undefined): Promise<void> {
      const reporter = askingInstance(call)
      const since = (firstStoredAt ?? clock.now()) - reportDelayMs
      const before = { decoyId: decoy.id, since, isAny: firstStoredAt !== undefined }
      if (reporter !== undefined && (await hasTouched(database.db, { ...before, reporter }))) return
      await recordHit(decoy, call, 'reported')
    },

    /** Reports that calls were not compared in full. */
    noteUncompared: (call: Asking) => note({ swept: [], isExhausted: true }, call, 'path'),

    /** Reloads the patterns: after every change here, and periodically for changes made by other processes. */
    async refresh(): Promise<void> {
      const { hasKeys, pathInstances } = await readPlanted(database.db, maxPathInstances + 1)
      reach.update({ hasKeys, pathInstances: pathInstances.length > maxPathInstances ? undefined : pathInstances })
      await search.refresh()
    },
  }
}
