import { eventTypes } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { mayActFor, type Principal } from '../../http/auth.ts'
import { uuidV7 } from '../../ids.ts'
import type { Ingest } from '../events/ingest.ts'
import { DecoyReach } from './decoy-reach.ts'
import { decoyDigest } from './honeypots.ts'
import { keyCandidates, MAX_KEY_INPUT_LENGTH } from './key-extraction.ts'
import { decoyPathKeys, lookupKeys, MAX_PATH_BYTES, pathForms } from './path-forms.ts'
import { compilePathPattern, matchesPath, type PathPattern } from './path-pattern.ts'
import { createDigestLookup, type Decoy, insertHit, readExactPaths, readPatterns, readPlanted } from './queries.ts'
import { globCovers, queryGlobs } from './query-globs.ts'

export interface Check {
  meta: Record<string, unknown> | undefined
  principal: Principal
  address: string
}

export interface DecoyChecks {
  /** Whether the text holds a decoy key. A match is recorded before the promise resolves. */
  checkKey(text: string, check: Check): Promise<boolean>
  /** Whether the path is a decoy. A match is recorded before the promise resolves. */
  checkPath(path: string, check: Check): Promise<boolean>
  /** Whether any decoy could match what this caller asks about. */
  reaches(principal: Principal): boolean
  /** Reads the patterns anew: here after every change, and now and then for changes made by other processes. */
  refresh(): Promise<void>
}

/** With decoys at more instances than this every agent asks; a longer list would be compared for each key. */
const maxPathInstances = 1_000
/** Rows compared at once with a glob of the question, between which other work gets its turn. */
const globPageRows = 1_000
/** Short enough that hardly a key fits in: context is stored, a submitted key never is. */
const contextText = /^[A-Za-z0-9_.:/ -]{1,24}$/
/** Sixteen letters with a digit among them: no word, but an AWS key id would fit. */
const keyLike = /(?=[A-Za-z]{0,15}\d)[A-Za-z0-9]{16}/

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)
const safeContext = (value: unknown): string | null => {
  const found = text(value)
  return found !== undefined && contextText.test(found) && !keyLike.test(found) ? found : null
}

/** The instance that asks, as far as its key or the context it sent says so. */
function askingInstance({ principal, meta }: Check): string | undefined {
  const named = text(meta?.instance_id) ?? text(meta?.instanceId)
  if (named !== undefined && /^[a-z0-9_-]{1,64}$/.test(named) && mayActFor(principal, named)) return named
  const [bound, ...others] = principal.instances ?? []
  return bound !== undefined && others.length === 0 && !bound.endsWith('*') ? bound : undefined
}

export function createDecoyChecks(deps: Deps, ingest: Ingest): DecoyChecks {
  const { database, clock, secrets, metrics } = deps
  const findByDigests = createDigestLookup(database)
  const reach = new DecoyReach()
  let patterns: { decoy: Decoy; pattern: PathPattern }[] = []

  /** The decoy itself may be planted at several instances: the asking one's own counts first. */
  function mostFitting(decoys: readonly Decoy[], asking: string | undefined): Decoy | undefined {
    return decoys.find((decoy) => decoy.instance_id === asking) ?? decoys[0]
  }

  async function recordHit(decoy: Decoy, check: Check): Promise<void> {
    const now = clock.now()
    const asking = askingInstance(check)
    const tool = safeContext(check.meta?.tool)
    const event = {
      ...ingest.own({
        severity: 'breach',
        event_type: eventTypes.honeypotTriggered,
        description: `A decoy ${decoy.type === 'api_key' ? 'key' : 'path'} was touched${tool === null ? '' : ` by ${tool}`}`,
        instance_id: asking ?? decoy.instance_id,
        metadata: {
          honeypot_id: decoy.id,
          type: decoy.type,
          keyType: decoy.key_type,
          tool,
          planted_at: decoy.instance_id,
        },
      }),
      ip_address: check.address,
    }
    const hit = insertHit(database.db, {
      id: uuidV7(now),
      honeypot_id: decoy.id,
      at: now,
      reporter: asking ?? null,
      key_id: check.principal.keyId,
      tool,
      ip_address: check.address,
      event_id: event.id,
    })
    await ingest.store([event], { also: [hit] })
    metrics.decoyHits.inc({ type: decoy.type })
  }

  async function settle(decoys: readonly Decoy[], check: Check): Promise<boolean> {
    const decoy = mostFitting(decoys, askingInstance(check))
    if (decoy) await recordHit(decoy, check)
    return decoy !== undefined
  }

  const digestsOf = (kind: 'key' | 'path', forms: readonly string[]) =>
    forms.map((form) => decoyDigest(kind, form, secrets.decoyKey))

  /** Paths are those of one host: a bound agent is told of its own instances' decoys only. */
  const mayTrip =
    ({ principal }: Check) =>
    (decoy: Decoy) =>
      mayActFor(principal, decoy.instance_id)

  async function findByGlobs(forms: readonly string[]): Promise<Decoy[]> {
    const globs = queryGlobs(forms)
    if (globs.length === 0) return []
    const found: Decoy[] = []
    for (let after = ''; ; ) {
      const page = await readExactPaths(database.db, after, globPageRows)
      for (const decoy of page) {
        const keys = decoyPathKeys(decoy.path!)
        if (globs.some((glob) => globCovers(glob, keys))) found.push(decoy)
      }
      if (page.length < globPageRows) return found
      after = page.at(-1)!.id
    }
  }

  return {
    async checkKey(submitted, check) {
      // Only so much is searched: padding must not hide a decoy behind it.
      if (submitted.length > MAX_KEY_INPUT_LENGTH) {
        throw new AppError(
          'invalid',
          `key must have at most ${MAX_KEY_INPUT_LENGTH} UTF-16 units; check longer text in parts.`,
        )
      }
      const decoys = await findByDigests(digestsOf('key', keyCandidates(submitted)))
      return settle(decoys, check)
    },

    async checkPath(submitted, check) {
      if (Buffer.byteLength(submitted) > MAX_PATH_BYTES) {
        throw new AppError('invalid', `path must have at most ${MAX_PATH_BYTES} bytes.`)
      }
      const context = { cwd: text(check.meta?.cwd), realPath: text(check.meta?.realPath) }
      const forms = pathForms(submitted, context as { cwd?: string; realPath?: string })
      const exact = await findByDigests(digestsOf('path', lookupKeys(forms)))
      const fitting = patterns.filter(({ pattern }) => matchesPath(pattern, forms)).map(({ decoy }) => decoy)
      const decoys = [...exact, ...fitting].filter(mayTrip(check))
      if (decoys.length > 0) return settle(decoys, check)
      return settle((await findByGlobs(forms)).filter(mayTrip(check)), check)
    },

    reaches: (principal) => reach.reaches(principal),

    async refresh() {
      const { hasKeys, pathInstances } = await readPlanted(database.db, maxPathInstances + 1)
      reach.update({ hasKeys, pathInstances: pathInstances.length > maxPathInstances ? undefined : pathInstances })
      const rows = await readPatterns(database.db)
      patterns = rows.map((decoy) => ({ decoy, pattern: compilePathPattern(decoy.path!) }))
    },
  }
}
