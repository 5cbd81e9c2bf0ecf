import { toolCallOf, toolOf } from '@wardline/contract'
import { onlyName } from '@wardline/text'
import { timeOfId } from '../../ids.ts'
import { type Piece, type Slices, sliceUnits, type WorkBudget, workLane } from '../../work-turns.ts'
import type { Reporter } from '../events/events.ts'
import type { Earlier, EventToStore } from '../events/ingest.ts'
import type { Quotas } from '../keys/quotas.ts'
import { canonicalPath } from './canonical-path.ts'
import type { DecoyChecks } from './check.ts'
import { maxPathBytes, unknownFolder } from './path-forms.ts'
import type { Decoy } from './queries.ts'

/** Work per request, some 300 ms in turns of the event loop. A thousand calls of two files each take a sixth of it. */
const maxUnits = 200_000_000
/** Cost of reading a call. */
const unitsOfCall = 2_000
/** Calls that are looked at together: enough to save queries, few enough to look at again where there is a decoy. */
const callsTogether = 50
/** Requests of a key that are compared concurrently, if each takes more than a millisecond; more are refused. */
const maxAtOnce = 8

/** A reported call with its paths. */
interface Call {
  /** Place of its event among those of the request. */
  index: number
  instanceId: string | undefined
  tool: unknown
  cwd: string
  paths: string[]
}

interface Hit extends Pick<Call, 'index' | 'instanceId' | 'tool'> {
  decoy: Decoy
}

type CallTools = {
  decoyChecks: Pick<DecoyChecks, 'reachesPathsOf' | 'findAmong' | 'recordReported' | 'noteUncompared'>
  quotas: Pick<Quotas, 'chargeEvents'>
}

/** Compares the paths of tool calls that agents report with decoys: for agents that do not check their calls. */
export function createReportedCalls({ decoyChecks: checks, quotas }: CallTools) {
  const instanceOf = ({ instance_id }: EventToStore, { principal }: Reporter): string | undefined =>
    instance_id ?? onlyName(principal.instances ?? [])

  /** Whether the event is a tool call with paths, which alone has a tool, of an agent with decoy paths. */
  const isCompared = (event: EventToStore, reporter: Reporter): boolean =>
    event.tool !== null &&
    checks.reachesPathsOf(instanceOf(event, reporter)) &&
    event.metadata?.includes('"paths":[') === true

  function* callsIn(events: readonly EventToStore[], reporter: Reporter, budget: WorkBudget): Slices<Call[]> {
    const calls: Call[] = []
    for (const [index, event] of events.entries()) {
      if (!isCompared(event, reporter)) continue
      const metadata = JSON.parse(event.metadata!) as Record<string, unknown>
      const paths = toolCallOf({ ...event, metadata }).paths.filter((path) => Buffer.byteLength(path) <= maxPathBytes)
      const { cwd } = metadata
      const isKnown = typeof cwd === 'string' && canonicalPath(cwd.slice(0, maxPathBytes)).root !== ''
      const context = { instanceId: instanceOf(event, reporter), tool: toolOf(metadata) }
      if (paths.length > 0) calls.push({ index, ...context, cwd: isKnown ? cwd : unknownFolder, paths })
      budget.count(unitsOfCall + 10 * event.metadata!.length)
      if (budget.isSliceOver()) yield
    }
    return calls
  }

  const askingOf = ({ principal, address }: Reporter, { instanceId, tool }: Pick<Call, 'instanceId' | 'tool'>) => ({
    meta: { instance_id: instanceId, tool },
    principal,
    address,
  })

  /** Looks at calls of one agent and folder together, and at parts of them only where there is something to find. */
  async function findIn(calls: readonly Call[], reporter: Reporter, piece: Piece): Promise<Hit[]> {
    const [first] = calls
    const paths = [...new Set(calls.flatMap((call) => call.paths))]
    const hasTime = piece.spent() < maxUnits
    const { decoy, isExhausted } = hasTime
      ? await checks.findAmong({ ...first!, paths }, reporter.principal, piece)
      : { decoy: undefined, isExhausted: true }
    if (decoy === undefined && !isExhausted) return []
    if (calls.length > 1 && hasTime) {
      const middle = calls.length >> 1
      return [
        ...(await findIn(calls.slice(0, middle), reporter, piece)),
        ...(await findIn(calls.slice(middle), reporter, piece)),
      ]
    }
    if (decoy !== undefined) return [{ ...first!, decoy }]
    checks.noteUncompared(askingOf(reporter, first!))
    return []
  }

  async function findHits(events: readonly EventToStore[], reporter: Reporter): Promise<Hit[]> {
    const { keyId } = reporter.principal
    const piece = workLane.open(`calls of ${keyId}`, { max: maxAtOnce })
    try {
      const calls = await piece.inTurns(callsIn(events, reporter, piece.budget(maxUnits)))
      const groups = Map.groupBy(calls, ({ instanceId = '', cwd }) => `${instanceId} ${cwd}`)
      // One hit of each decoy by each agent: a batch is one request.
      const hits = new Map<string, Hit>()
      for (const group of groups.values()) {
        for (let start = 0; start < group.length; start += callsTogether) {
          for (const hit of await findIn(group.slice(start, start + callsTogether), reporter, piece)) {
            const name = `${hit.decoy.id} ${hit.instanceId}`
            if (!hits.has(name)) hits.set(name, hit)
          }
        }
      }
      return [...hits.values()]
    } finally {
      piece.end()
      quotas.chargeEvents(keyId, Math.floor(piece.spent() / sliceUnits))
    }
  }

  return {
    /** See `CallWatch` of the events. Throws AppError `overloaded` before anything is stored. */
    compare(events: readonly EventToStore[], reporter: Reporter) {
      if (!events.some((event) => isCompared(event, reporter))) return undefined
      return findHits(events, reporter).then((hits) => {
        if (hits.length === 0) return undefined
        return async (earlier: Earlier) => {
          const record = (hit: Hit) => {
            const firstId = earlier?.[hit.index]
            const firstStoredAt = firstId === undefined ? undefined : timeOfId(firstId)
            return checks.recordReported(hit.decoy, askingOf(reporter, hit), firstStoredAt)
          }
          await Promise.all(hits.map(record))
        }
      })
    },
  }
}
