import { cutText, sanitize, utf16Size } from '@wardline/text'
import { hourMs, minuteMs } from '../../clock.ts'
import type { Deps } from '../../deps.ts'
import { findAttestations, readAbout } from './eas.ts'
import { readFeedback } from './feedback-sink.ts'
import { type Place, type Shown, shownOthers } from './known-contracts.ts'
import { readKnownIdentity } from './known-identity.ts'
import {
  addReading,
  changeReading,
  claimReading,
  type OtherAttestation,
  type Reading,
  readReadings,
  readStored,
  removeOther,
  removeOthers,
  storeOther,
} from './other-attestations-queries.ts'
import { type BlockRange, type Rpc, RpcError } from './rpc.ts'

/** Blocks asked for at once. Erigon refuses more than 1,000 by default, most public nodes more than 2,000 or 10,000. */
const maxSpan = 1_000
/** Requests for blocks in a turn, for all accounts together: providers limit requests, and the turn must end. */
const requestsPerTurn = 20
/** Blocks before the first turn that are read: 10,000 requests in nine hours. On Base they are 230 days. */
const historyBlocks = 10_000_000
/** Newest attestations kept of each account at each place: with ten accounts the page has 200 rows at most. */
const keptEach = 10
/** Attestations read of each range of blocks, each with a request. Twice those kept, because some are revoked or expired. */
const maxRead = 2 * keptEach
/** A turn is shorter. After a fault, or a crash, the account waits this long. */
const claimMs = 5 * minuteMs
/** Characters of a text from the chain. Namespaces and tags have some twenty. */
const maxText = 100

const shownText = (text: string): string => cutText(sanitize(text), maxText, utf16Size)

/** Next blocks to read: new ones first, then backwards to the floor. Undefined when all are read. */
function nextRange({ low, high, floor }: Pick<Reading, 'low' | 'high' | 'floor'>, safe: number, span: number) {
  if (high < safe) return { from: high + 1, to: Math.min(high + span, safe) }
  return low > floor ? { from: Math.max(floor, low - span), to: low - 1 } : undefined
}

/**
 * Reads what other accounts attest about this deployment, up to the newest block that counts as confirmed. Feedback is
 * listed by its registry. EAS lists nothing, so its logs say which attestations there are; the contract says what they are.
 */
export class OtherAttestations {
  readonly #deps: Pick<Deps, 'config' | 'database' | 'clock' | 'log'>
  readonly #rpc: Rpc
  /** Blocks asked for at once about an account: lower while the node refuses more, or answers with more than is read. */
  readonly #spans = new Map<string, number>()

  constructor(deps: Pick<Deps, 'config' | 'database' | 'clock' | 'log'>, rpc: Rpc) {
    this.#deps = deps
    this.#rpc = rpc
  }

  /** Reads the accounts that are due: each once an hour, or at once while blocks are left. */
  async run(): Promise<void> {
    const { config, database, clock, log } = this.#deps
    const { db } = database
    const shown = shownOthers(config, await readKnownIdentity(this.#deps))
    await removeOthers(db, shown)
    const eas = shown.places.find(({ sink }) => sink === 'eas')
    const scope = `${shown.chainId} ${eas?.contract} ${eas?.subject}`
    const readings = await readReadings(db)
    const now = clock.now()
    const due = shown.attesters.filter((attester) => {
      const reading = readings.find((known) => known.attester === attester)
      return reading?.scope !== scope || reading.next_at <= now
    })
    if (due.length === 0) return
    await this.#rpc.assertChain(shown.chainId)
    const safe = (await this.#rpc.head()) + 1 - config.trustConfirmations
    if (safe < 0) return
    for (const attester of due) {
      const floor = Math.max(0, safe + 1 - historyBlocks)
      await addReading(db, { attester, scope, low: safe + 1, high: safe, floor, checked_at: 0, next_at: 0 })
      const reading = await claimReading(db, attester, now, now + claimMs)
      if (!reading) continue
      try {
        await this.#read(reading, shown, safe)
      } catch (fault) {
        // What one account writes must not keep the others from being read.
        if (!(fault instanceof RpcError) || fault.kind === 'unavailable') throw fault
        log.warn({ attester, fault: fault.message }, 'attestations by another account were not read')
      }
    }
  }

  async #read(reading: Reading, { places, attesters }: Shown, safe: number): Promise<void> {
    const { database, clock } = this.#deps
    const { attester } = reading
    const now = clock.now()
    if (now - reading.checked_at >= hourMs) {
      for (const place of places) await this.#check(attester, place, safe)
      await changeReading(database.db, attester, { checked_at: now })
    }
    const eas = places.find(({ sink }) => sink === 'eas')
    const isDone = !eas || (await this.#readBlocks(reading, eas, safe, Math.ceil(requestsPerTurn / attesters.length)))
    await changeReading(database.db, attester, { next_at: isDone ? now + hourMs : now })
  }

  /** Reads the stored attestations again, and all feedback. */
  async #check(attester: string, place: Place, safe: number): Promise<void> {
    const { db } = this.#deps.database
    const stored = await readStored(db, attester, place)
    const found = place.sink === 'feedback' ? await this.#feedback(attester, place, safe) : []
    for (const known of place.sink === 'eas' ? stored : []) {
      const again = await this.#attestation(attester, place, known, safe)
      if (again) found.push(again)
    }
    for (const row of stored) if (!found.some(({ uid }) => uid === row.uid)) await removeOther(db, row)
    for (const row of found) await storeOther(db, row)
  }

  /** Reads blocks until none are left, or the requests of this turn are made. Resolves with whether none are left. */
  async #readBlocks(reading: Reading, eas: Place, safe: number, requests: number): Promise<boolean> {
    const { db } = this.#deps.database
    const { attester, floor } = reading
    let { low, high } = reading
    if (high > safe) {
      // A node claimed blocks that there were not yet.
      high = safe
      await changeReading(db, attester, { high })
    }
    let left = requests
    const next = () => nextRange({ low, high, floor }, safe, this.#spans.get(attester) ?? maxSpan)
    while (left > 0) {
      const range = next()
      if (!range) break
      left--
      const found = await this.#logged(attester, eas, range)
      if (!found) continue
      let kept = 0
      for (const { uid, txHash } of found.toReversed()) {
        if (kept === keptEach) break
        left--
        const row = await this.#attestation(attester, eas, { uid, tx_hash: txHash }, safe)
        if (!row) continue
        await storeOther(db, row)
        kept++
      }
      if (kept > 0) await this.#prune(attester, eas)
      low = Math.min(low, range.from)
      high = Math.max(high, range.to)
      await changeReading(db, attester, { low, high })
    }
    this.#spans.set(attester, Math.min(maxSpan, (this.#spans.get(attester) ?? maxSpan) * 2))
    return next() === undefined
  }

  /** Resolves with undefined when fewer blocks have to be asked for at once. */
  async #logged(attester: string, { contract, subject }: Place, range: BlockRange) {
    const count = range.to - range.from + 1
    try {
      const found = await findAttestations(this.#rpc, { eas: contract, recipient: subject, attester }, range)
      // Of a single block with more, which is a flood, the newest are read.
      if (count === 1 || found.length <= maxRead) return found.slice(-maxRead)
    } catch (fault) {
      if (!(fault instanceof RpcError) || (fault.kind !== 'large' && fault.kind !== 'refused')) throw fault
      // No node refuses a single block, and one whose logs are too large to be read is a flood.
      if (count === 1 && fault.kind === 'refused') throw fault
      if (count === 1) return []
    }
    this.#spans.set(attester, Math.ceil(count / 2))
    return undefined
  }

  /** Resolves with undefined when the attestation is revoked, expired, of others, or too large to be read. */
  async #attestation(
    attester: string,
    { contract, subject }: Place,
    { uid, tx_hash }: Pick<OtherAttestation, 'uid' | 'tx_hash'>,
    safe: number,
  ): Promise<OtherAttestation | undefined> {
    const { config, clock } = this.#deps
    const now = clock.now()
    const parties = { eas: contract, recipient: subject, attester }
    const about = await readAbout(this.#rpc, parties, uid, safe).catch((fault) => {
      if (fault instanceof RpcError && fault.kind === 'large') return undefined
      throw fault
    })
    if (!about || (about.expiresAt ?? Number.POSITIVE_INFINITY) <= now) return undefined
    const { at, expiresAt, schema, fields } = about
    return {
      ...{ chain_id: config.trustChainId, sink: 'eas', contract, subject, attester, uid },
      ...{ at, expires_at: expiresAt, seen_at: now, tx_hash, schema },
      hash: fields?.hash ?? null,
      namespace: fields ? shownText(fields.namespace) : null,
      tag: fields ? shownText(fields.tag) : null,
      period: fields ? shownText(fields.period) : null,
      value: fields ? String(fields.score) : null,
      decimals: fields ? 0 : null,
    }
  }

  async #feedback(attester: string, { contract, subject }: Place, safe: number): Promise<OtherAttestation[]> {
    const { config, clock } = this.#deps
    const parties = { registry: contract, agentId: subject, client: attester }
    const found = await readFeedback(this.#rpc, parties, keptEach, safe)
    return found.map(({ index, value, decimals, tags: [namespace, tag] }) => ({
      ...{ chain_id: config.trustChainId, sink: 'feedback', contract, subject, attester, uid: index },
      ...{ at: null, expires_at: null, seen_at: clock.now(), tx_hash: null, schema: null, hash: null, period: null },
      ...{ namespace: shownText(namespace), tag: shownText(tag), value: String(value), decimals },
    }))
  }

  async #prune(attester: string, place: Place): Promise<void> {
    const { db } = this.#deps.database
    const stored = await readStored(db, attester, place)
    const oldest = stored.sort((one, other) => other.at! - one.at!).slice(keptEach)
    for (const row of oldest) await removeOther(db, row)
  }
}
